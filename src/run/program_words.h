/* Extracts the failure of an external program from its command line and output, as the typed error
 * that diag/ needs. Pure. */
#ifndef WEFT_RUN_PROGRAM_WORDS_H
#define WEFT_RUN_PROGRAM_WORDS_H

#include <stdbool.h>

#include "base/error.h"
#include "io/addr.h"

#define PROGRAM_NO_INDEX (-1)
#define PROGRAM_NAME_BYTES 64

struct program_words {
    struct weft_error error; /* status WEFT_OK if no line is known */
    bool is_watched;         /* the error is of libweft-watch.so */
    /* That it printed or, if it is routed, addresses of its command; "" if there is none. */
    char local_gid[IO_IP_TEXT_BYTES];
    char remote_gid[IO_IP_TEXT_BYTES];
    bool has_read_gid; /* before it failed: its slot had a GID */
    /* Host and RDMA device of the process that failed, because the program can be a launcher that
     * prints what processes at other hosts write. "" if unknown. */
    char host[PROGRAM_NAME_BYTES], device[PROGRAM_NAME_BYTES];
    int gid_index; /* that it printed or its flags request, or PROGRAM_NO_INDEX */
    int path_mtu;  /* bytes of its largest packet; 0 if unknown */
    /* It names no device: librdmacm uses the port that has a route to the peer. */
    bool is_routed;
    /* It is started as a server, and no client has connected to it. */
    bool waits_for_client;
    /* Runs under timeout(1), whose status 124 means that the program did not end. */
    bool is_timed;
};

/* `command` is one string, its words separated by blanks; `output` consists of lines. */
void program_words_read(const char *command, const char *output,
                        struct program_words *out);
/* Returns true if `text` contains `word` and neither neighbouring character can be part of a device
 * name. */
bool program_words_have(const char *text, const char *word);

#endif
