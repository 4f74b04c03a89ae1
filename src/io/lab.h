/* A mesh that stays, and programs that are started in its hosts meanwhile. */
#ifndef WEFT_IO_LAB_H
#define WEFT_IO_LAB_H

#include "base/text.h"
#include "io/world.h"

struct pollfd; /* of <poll.h> */
/* A mesh that is up. */
struct world_lab;

struct world_lab_program {
    uint32_t host;
    weft_ns delay_ns; /* from the moment that it is asked for in the mesh */
    const char *cwd;
    char *const *argv;      /* ends with NULL; the first is looked for in PATH */
    char *const *variables; /* likewise; its environment, before that of its host */
    const char *input;      /* [n_input]; its whole standard input */
    size_t n_input;
    bool has_terminal; /* for all three streams, which are one then; and no input */
    uint16_t rows, columns;
};

/* Instead of a program's number: a call of a watched program has failed. */
#define WORLD_LAB_FAILURE UINT32_MAX

/* What a lab asks of who keeps it, in the process that keeps it. */
struct world_lab_hooks {
    void *context;
    /* The mesh is built; comes once, before any of the others but `wants` and `look`. `folder`
     * has the files "out.ID" and "err.ID" of programs. */
    void (*up)(void *context, struct world_lab *lab, const char *folder);
    /* Fills in what is to be waited for, at most `n_max`; returns how many. */
    size_t (*wants)(void *context, struct pollfd *fds, size_t n_max);
    /* What came of those [n]. Returns false if the lab is to end. */
    bool (*look)(void *context, const struct pollfd *fds, size_t n);
    /* A program is over; `code` is as shells have it. WORLD_LAB_FAILURE: a call failed. */
    void (*ended)(void *context, uint32_t id, int code);
};

/* What a lab asks of the process that has the mesh. */
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
