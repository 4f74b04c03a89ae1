/* A mesh that stays up, in whose hosts programs are started at any time. */
#ifndef WEFT_IO_LAB_H
#define WEFT_IO_LAB_H

#include "base/text.h"
#include "io/world.h"

struct pollfd; /* of <poll.h> */
/* A mesh that is up. */
struct world_lab;

struct world_lab_program {
    uint32_t host;
    weft_ns delay_ns; /* between the arrival of the request in the mesh and the start */
    const char *cwd;
    char *const *argv;      /* NULL-terminated; argv[0] is searched in PATH */
    char *const *variables; /* NULL-terminated; precede those of its host */
    const char *input;      /* [n_input]; its whole standard input */
    size_t n_input;
    bool has_terminal; /* one terminal is its stdin, stdout and stderr; no input */
    uint16_t rows, columns;
};

/* Instead of a program's number: a call of a watched program has failed. */
#define WORLD_LAB_FAILURE UINT32_MAX

/* Calls of a lab to the process that runs it. */
struct world_lab_hooks {
    void *context;
    /* Reports once that the mesh is built, before any other call but `wants` and `look`. `folder`
     * has the files "out.ID" and "err.ID" of programs. */
    void (*up)(void *context, struct world_lab *lab, const char *folder);
    /* Stores the descriptors to wait for, at most `n_max`. Returns their number. */
    size_t (*wants)(void *context, struct pollfd *fds, size_t n_max);
    /* Handles the events of those descriptors. Returns false to end the lab. */
    bool (*look)(void *context, const struct pollfd *fds, size_t n);
    /* Reports the end of a program; `code` is its exit status as in a shell. With WORLD_LAB_FAILURE
     * reports a failed call. */
    void (*ended)(void *context, uint32_t id, int code);
};

/* Calls of a lab to the process that has the mesh. */
struct world_lab_services {
    void *context;
    /* Begins a capture into a file that exists. Returns 0, or an errno. */
    int (*begin)(void *context, const char *path);
    void (*frame)(void *context, const struct world_frame *frame);
    /* Ends a capture. Returns 0, or an errno if not all was written. */
    int (*end)(void *context);
    /* Inspects a host, as `look` of struct world_program_watch does. */
    void (*look)(void *context, uint32_t host, struct weft_text *out);
};

#endif
