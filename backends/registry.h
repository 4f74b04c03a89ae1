/* The only place that names all backends. */
#ifndef WEFT_BACKENDS_REGISTRY_H
#define WEFT_BACKENDS_REGISTRY_H

#include <stdbool.h>
#include <sys/types.h>

#include "backends/plain.h"
#include "backends/pmix/pmix.h"
#include "backends/rxe/guest_end.h"
#include "backends/sim/bench.h"
#include "io/lab.h"
#include "io/machine.h"
#include "io/programs.h"
#include "io/world.h"

/* A backend of the design. */
struct backend {
    const char *name;        /* "sim" */
    const char *description; /* one line, for `weft list` and --help */
    const struct world_ops *ops;
    /* WEFT_OK, or why not; NULL: it has all that a world can be. */
    weft_status (*can_express)(const struct world_spec *spec, struct weft_error *error);
    const char *
        clocks; /* "virtual", "real" or both, the default first: whose time can go by in it */
};

/* The `index`th, or NULL past the last. */
const struct backend *backend_at(unsigned index);
/* The backend of that name, or NULL. */
const struct backend *backend_named(const char *name);
/* The operations of `name`; NULL if there is no such backend. */
const struct world_ops *backend_find(const char *name);
/* Whether `backend` has everything that a world like `spec` needs; says nothing
 * of this machine. */
bool backend_can_express(const struct backend *backend, const struct world_spec *spec);
/* A world of `spec` by `ops`, with the faults of calls that it has (backends/fault). */
weft_status backend_create(const struct world_ops *ops, const struct world_spec *spec,
                           struct world **out, struct weft_error *error);

/* Returns "virtual" or "real": whose time goes by in a run on `backend` that does not say. One that
 * has both, virtual first, keeps real time where no guest's kernel keeps virtual. */
const char *backend_default_clock(const struct backend *backend);
/* WEFT_OK: there is a guest for a run in virtual time on a backend that has both; else why not. */
weft_status backend_can_be_virtual(struct weft_error *error) WEFT_MUST_CHECK;
/* A guest for this process's whole command line. */
struct backend_guest {
    int time_limit_s;  /* 0: the default */
    const char *clock; /* "virtual", "real", or NULL */
    uint64_t seed;     /* of all chance where time is virtual */
    void *context;
    /* Called when the guest has ended, or NULL. */
    void (*ended)(void *context, const struct rxe_guest_end *end);
};

/* Runs this process's whole command line where backend `name` can work, if that is not
 * here, and sets its exit code; false: go on. A clock of NULL is real. */
bool backend_runs_elsewhere(const char *name, const struct backend_guest *guest,
                            int *out_code);
/* Returns true in a guest, whose chance is its launcher's. */
bool backend_is_in_guest(void);
/* In a guest that was started with `ended`: returns a descriptor of the folder of its results, to
 * which each line goes that is to get there even if the guest is killed; -1 elsewhere. To be called
 * once. */
int backend_guest_folder(void);
/* Returns false, with errno, if the line may not get there. */
bool backend_guest_keep(int folder, const char *line, size_t n);
/* A world of one host, this process, on the RDMA devices it has. */
weft_status backend_node_world(const struct world_spec *spec, uint32_t host,
                               uint32_t process, struct world **out,
                               struct weft_error *error);
/* The same on simulated ones, on its netdevs. */
weft_status backend_soft_node_world(const struct world_spec *spec, uint32_t host,
                                    uint32_t process, struct world **out,
                                    struct weft_error *error);
/* This process on its machine as it is, with its RDMA devices, or (`is_soft`) before any are
 * simulated. */
weft_status backend_site_world(bool is_soft, struct weft_log *log, struct world **out,
                               struct weft_error *error);
/* What a launcher that speaks PMIx says of this process: see backends/pmix/pmix.h. Where rank 0
 * is to listen, if `asks`: its machine's name, or the loopback's address if all are there, and a
 * port that was free a moment ago. */
weft_status backend_pmix_join(bool asks, struct pmix_job *out, struct weft_error *error);
/* The first address of a host's name. WEFT_ERR_INPUT: it has none. */
weft_status backend_resolve(const char *name, struct io_ip *out,
                            struct weft_error *error);
/* `argv` in a guest with soft-RoCE; time_limit_s 0: the default; `clock` NULL: "real". */
weft_status backend_guest_run(char *const *argv, int time_limit_s, const char *clock,
                              uint64_t seed, int *out_code, struct weft_error *error);
/* Programs that are not ours run over the kernel's soft-RoCE, in a guest. WEFT_ERR_UNSUPPORTED
 * names what of `spec` they cannot have. `has_jobs`: they are jobs of the scenario. */
weft_status backend_programs_can(const struct world_spec *spec, bool has_jobs,
                                 struct weft_error *error);
/* Runs this process's whole command line in a guest, and sets its exit code; false: this is one.
 * A clock of NULL is virtual, or as this guest has it. */
bool backend_programs_elsewhere(const struct backend_guest *guest, int *out_code);
/* See lab/programs.h. */
weft_status backend_programs_run(const struct world_spec *spec,
                                 const struct world_programs *what, int *out_code,
                                 struct weft_error *error);
/* A lab: see rxe/live.h. `clock` NULL: "virtual". */
weft_status backend_lab_run(const char *clock, uint64_t seed, char *const *argv,
                            const struct world_lab_hooks *hooks,
                            struct weft_error *error);
weft_status backend_lab_inside(const struct world_spec *spec,
                               const struct world_lab_services *services,
                               struct weft_error *error);
int backend_lab_start(struct world_lab *lab, const struct world_lab_program *program,
                      uint32_t *out_id);
uint32_t backend_lab_signal(struct world_lab *lab, uint32_t id, int number);
uint32_t backend_lab_type(struct world_lab *lab, uint32_t id, const char *bytes,
                          size_t n);
void backend_lab_resize(struct world_lab *lab, uint32_t id, uint16_t rows,
                        uint16_t columns);
/* The size of a terminal of this machine; 24 and 80 where `fd` is none. */
void backend_lab_terminal_size(int fd, uint16_t *out_rows, uint16_t *out_columns);
void backend_lab_hang_up(struct world_lab *lab, uint32_t id);
uint32_t backend_lab_fault(struct world_lab *lab, const struct world_fault *fault);
uint32_t backend_lab_clear(struct world_lab *lab);
uint32_t backend_lab_capture(struct world_lab *lab, const char *path);
uint32_t backend_lab_look(struct world_lab *lab);
void backend_lab_forget(struct world_lab *lab, uint32_t id);
weft_ns backend_lab_now(const struct world_lab *lab);
/* See rxe/live_socket.h. */
int backend_lab_listen(const char *folder, const char *name, int backlog, int *out_fd);
int backend_lab_accept(int listen_fd);
int backend_lab_connect(const char *folder, const char *name, int *out_fd);
pid_t backend_lab_peer(int fd);
int backend_lab_pair(int out_fds[2]);
ssize_t backend_lab_send(int fd, const void *bytes, size_t n);
/* The RDMA device that they find on a port. */
void backend_program_device(const struct world_spec *spec, uint32_t host, uint32_t port,
                            char *out, size_t n_bytes);
/* See lab/counts.h: of the RDMA device, where the devices of all hosts are seen; of the netdev,
 * from within its host. */
int64_t backend_program_count(const char *device, enum world_program_count count);
int64_t backend_program_losses(const char *netdev);
/* Never returns in the first process of a guest; does nothing elsewhere. */
void backend_guest_init(void);
/* Calls between these only observe a job (base/observe.h). */
void backend_observe_begin(void);
void backend_observe_end(void);
/* What is inside this machine, or inside another whose /sys and /proc were copied to `root` (NULL:
 * this one). io_machine_fini. */
void backend_machine_read(const char *root, struct io_machine *out);
/* This machine's interfaces [*out_n], the caller's to free. NULL: they could not be asked for. */
struct io_interface *backend_interfaces(uint32_t *out_n);
/* Removes what killed runs left; returns how many things. */
unsigned backend_cleanup(struct weft_log *log);

/* The `index`th benchmark, or NULL past the last. */
const struct bench *bench_at(unsigned index);

#endif
