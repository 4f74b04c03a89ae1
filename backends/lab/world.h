/* A world whose hosts are separate processes, in namespaces connected by veth cables or all in
 * the current one. Common part of backends/rxe, backends/soft and backends/machines. Real
 * time. */
#ifndef WEFT_BACKENDS_LAB_WORLD_H
#define WEFT_BACKENDS_LAB_WORLD_H

#include "backends/lab/fabric.h"

struct lab_world_kind {
    enum lab_layout layout;
    /* Command line to reach other machines (elsewhere.h), not owned; NULL if all hosts are on
     * this one. */
    const char *line;
    bool with_devices; /* create a kernel soft-RoCE device on every port */
    /* Further environment variables of the processes; [n_settings], not owned. */
    const struct world_setting *settings;
    uint32_t n_settings;
};

/* Creates a world with `ops`, which contain the functions below. On failure nothing remains. */
weft_status lab_world_create(const struct world_ops *ops,
                             const struct lab_world_kind *kind,
                             const struct world_spec *spec, struct world **out,
                             struct weft_error *error);

/* Implement world_ops. */
struct io_env *lab_world_host_env(struct world *world, uint32_t host, uint32_t process);
struct io_loop *lab_world_loop(struct world *world);
weft_ns lab_world_now(struct world *world);
int lab_world_inject(struct world *world, const struct world_fault *fault);
weft_ns lab_world_fault_began(const struct world *world, uint32_t fault);
bool lab_world_host_alive(const struct world *world, uint32_t host);
int lab_world_tap(struct world *world,
                  void (*tap)(void *context, const struct world_frame *frame),
                  void *context);
weft_status lab_world_step(struct world *world, weft_ns until);
void lab_world_cable_stats(const struct world *world, uint32_t cable,
                           struct world_cable_stats *out);
bool lab_world_counter(const struct world *world, uint32_t index, const char **out_name,
                       uint64_t *out_value);
weft_status lab_world_launch(struct world *world, uint32_t host, uint32_t process,
                             const struct world_process *what, struct weft_error *error);
void lab_world_ending(struct world *world, uint32_t host, uint32_t process,
                      struct world_ending *out);
void lab_world_report_ended(struct world *world, uint32_t member);
void lab_world_destroy(struct world *world);

/* All of them, for the initialiser of a backend's operations. */
#define LAB_WORLD_OPS                                                                    \
    .host_env = lab_world_host_env, .loop = lab_world_loop, .now = lab_world_now,        \
    .inject = lab_world_inject, .fault_began = lab_world_fault_began,                    \
    .host_alive = lab_world_host_alive, .tap = lab_world_tap, .step = lab_world_step,    \
    .cable_stats = lab_world_cable_stats, .counter = lab_world_counter,                  \
    .launch = lab_world_launch, .ending = lab_world_ending,                              \
    .report_ended = lab_world_report_ended, .destroy = lab_world_destroy

#endif
