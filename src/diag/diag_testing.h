/* Scenes for the tests of diag/: what two hosts observed, written by hand, and the code that it
 * must lead to. */
#ifndef WEFT_DIAG_DIAG_TESTING_H
#define WEFT_DIAG_DIAG_TESTING_H

#include "diag/diag.h"

/* titanic:p0 faces iceberg:p1; titanic:p1 and iceberg:p0 lead elsewhere. Host a, titanic, fails
 * towards host b, iceberg. */
struct scene {
    struct diag_input input; /* the scene's; diag_input_fini frees it */
    struct diag_host *a, *b;
    struct diag_error *failure; /* a's, empty at first */
};

/* Room for 4 ports, errors and events, and for 2 peers' words, on each host. */
void scene_set(struct scene *scene);
/* The failure is a data request that was never acknowledged. */
void scene_loses_packets(struct scene *scene);
/* It concerns a queue pair of this port and these addresses. */
void scene_aim(struct scene *scene, const char *local_port, const char *local_gid,
               const char *remote_gid);
/* A port of titanic is down, and a packet is lost on it. */
void scene_down_here(struct scene *scene);

struct scene_case {
    void (*write)(struct scene *scene);
    const char *code;
    const char *where;
};
extern const struct scene_case scene_cases[];
extern const int n_scene_cases;
/* Mirrored: b comes first in the input. */
void scene_write_case(int i, bool is_mirrored, struct scene *scene);

#endif
