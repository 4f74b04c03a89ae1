/* What a program that is not ours says of its failure, on its command line and in its output, as
 * the typed failure that diag/ takes. Pure. */
#ifndef WEFT_RUN_PROGRAM_WORDS_H
#define WEFT_RUN_PROGRAM_WORDS_H

#include <stdbool.h>

#include "base/error.h"
#include "io/addr.h"

#define PROGRAM_NO_INDEX (-1)

struct program_words {
    struct weft_error error;          /* status WEFT_OK: no line that is known */
    char local_gid[IO_IP_TEXT_BYTES]; /* "" where it names none */
    char remote_gid[IO_IP_TEXT_BYTES];
    int gid_index; /* that its flags ask for, or PROGRAM_NO_INDEX */
    int path_mtu;  /* bytes of a full packet, or 0; a message may be shorter */
    bool is_timed; /* by timeout(1), whose status 124 says that the program did not end */
};

/* `command` is one text, words divided by blanks; `output` is lines. */
void program_words_read(const char *command, const char *output,
                        struct program_words *out);
/* Returns true if `word` stands in `text` between characters that no name of a device has. */
bool program_words_have(const char *text, const char *word);

#endif
