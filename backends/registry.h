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
    /* Fails if the backend cannot express `spec`, and the error says why. NULL if it can express
     * every world. */
    weft_status (*can_express)(const struct world_spec *spec, struct weft_error *error);
    /* Clocks of its runs: "virtual", "real" or both, the default first. */
    const char *clocks;
};

/* Returns the backend with this index, or NULL past the last. */
const struct backend *backend_at(unsigned index);
/* Returns the backend with this name, or NULL. */
const struct backend *backend_named(const char *name);
/* Returns the operations of the backend with this name, or NULL. */
const struct world_ops *backend_find(const char *name);
/* Returns true if `backend` has everything that a world like `spec` needs. Does not look at this
 * machine. */
bool backend_can_express(const struct backend *backend, const struct world_spec *spec);
/* Creates a world of `spec` with `ops`, and injects the faults of calls that the spec has
 * (backends/fault). */
weft_status backend_create(const struct world_ops *ops, const struct world_spec *spec,
                           struct world **out, struct weft_error *error);

/* Returns the default clock of a run on `backend`, "virtual" or "real". A backend that has both
 * uses virtual time if a guest's kernel for it is built. */
const char *backend_default_clock(const struct backend *backend);
/* Returns WEFT_OK if a guest can run in virtual time here. Otherwise fails, and the error says why
 * not. */
weft_status backend_can_be_virtual(struct weft_error *error) WEFT_MUST_CHECK;
/* Options of a guest that runs this process's whole command line. */
struct backend_guest {
    int time_limit_s;  /* 0: the default */
    const char *clock; /* "virtual", "real", or NULL */
    uint64_t seed;     /* of all chance where time is virtual */
    void *context;
    /* Called when the guest has ended, or NULL. */
    void (*ended)(void *context, const struct rxe_guest_end *end);
};

/* Runs this process's whole command line in a guest if backend `name` needs one, and stores its
 * exit code. Returns false if the caller shall go on here. A clock of NULL is real. */
bool backend_runs_elsewhere(const char *name, const struct backend_guest *guest,
                            int *out_code);
/* Returns true in a guest, whose random numbers follow from the seed of the process that started
 * it. */
bool backend_is_in_guest(void);
/* Returns a descriptor of the folder of results, in a guest that was started with `ended`; -1
 * elsewhere. Lines that backend_guest_keep() writes to it survive the guest. Must be called at most
 * once. */
int backend_guest_folder(void);
/* Appends a line to the guest's results. Returns false and sets errno if the line may be lost. */
bool backend_guest_keep(int folder, const char *line, size_t n);
/* Creates a world of one host, this process, on the RDMA devices of its machine. */
weft_status backend_node_world(const struct world_spec *spec, uint32_t host,
                               uint32_t process, struct world **out,
                               struct weft_error *error);
/* Creates a world of one host, this process, with simulated NICs on the netdevs of its machine. */
weft_status backend_soft_node_world(const struct world_spec *spec, uint32_t host,
                                    uint32_t process, struct world **out,
                                    struct weft_error *error);
/* Creates a world of this process on its machine as it is, with its RDMA devices or, if `is_soft`,
 * with the netdevs on which NICs can be simulated. */
weft_status backend_site_world(bool is_soft, struct weft_log *log, struct world **out,
                               struct weft_error *error);
/* Reads this process's place in the job from a PMIx launcher (backends/pmix/pmix.h). If `asks`,
 * also agrees on where rank 0 listens: its machine's name, or the loopback address if all ranks are
 * on one machine, and a port that was free a moment ago. */
weft_status backend_pmix_join(bool asks, struct pmix_job *out, struct weft_error *error);
/* Resolves a host's name to its first address. Fails with WEFT_ERR_INPUT if it has none. */
weft_status backend_resolve(const char *name, struct io_ip *out,
                            struct weft_error *error);
/* Runs `argv` in a guest with soft-RoCE. A time_limit_s of 0 is the default, a `clock` of NULL is
 * "real". */
weft_status backend_guest_run(char *const *argv, int time_limit_s, const char *clock,
                              uint64_t seed, int *out_code, struct weft_error *error);
/* Checks that foreign programs can run in the mesh of `spec`, over the kernel's soft-RoCE in a
 * guest. Fails with WEFT_ERR_UNSUPPORTED, naming what they cannot have. `has_jobs` is true if they
 * are jobs of the scenario. */
weft_status backend_programs_can(const struct world_spec *spec, bool has_jobs,
                                 struct weft_error *error);
/* Runs this process's whole command line in a guest, and stores its exit code. Returns false if
 * this process is in a guest. A clock of NULL is virtual. */
bool backend_programs_elsewhere(const struct backend_guest *guest, int *out_code);
/* Calls lab_programs_run() (lab/programs.h). */
weft_status backend_programs_run(const struct world_spec *spec,
                                 const struct world_programs *what, int *out_code,
                                 struct weft_error *error);
/* These run a lab (rxe/live.h). A `clock` of NULL is "virtual". */
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
/* Reads the size of a terminal of this machine; stores 24 and 80 if `fd` is not a terminal. */
void backend_lab_terminal_size(int fd, uint16_t *out_rows, uint16_t *out_columns);
void backend_lab_hang_up(struct world_lab *lab, uint32_t id);
uint32_t backend_lab_fault(struct world_lab *lab, const struct world_fault *fault);
uint32_t backend_lab_clear(struct world_lab *lab);
uint32_t backend_lab_capture(struct world_lab *lab, const char *path);
uint32_t backend_lab_look(struct world_lab *lab);
void backend_lab_forget(struct world_lab *lab, uint32_t id);
weft_ns backend_lab_now(const struct world_lab *lab);
/* These are the functions of rxe/live_socket.h. */
int backend_lab_listen(const char *folder, const char *name, int backlog, int *out_fd);
int backend_lab_accept(int listen_fd);
int backend_lab_connect(const char *folder, const char *name, int *out_fd);
pid_t backend_lab_peer(int fd);
int backend_lab_pair(int out_fds[2]);
ssize_t backend_lab_send(int fd, const void *bytes, size_t n);
/* Stores the name of the RDMA device that programs find on a port. */
void backend_program_device(const struct world_spec *spec, uint32_t host, uint32_t port,
                            char *out, size_t n_bytes);
/* Read counters as in lab/counts.h: those of an RDMA device from where all devices are visible,
 * those of a netdev from inside its host. */
int64_t backend_program_count(const char *device, enum world_program_count count);
int64_t backend_program_losses(const char *netdev);
/* Read the state and a GID of an RDMA device as in lab/counts.h, from where all are visible. */
bool backend_program_is_active(const char *device);
bool backend_program_gid(const char *device, int index, struct io_ip *out, int *out_type);
/* Appends what programs did with RDMA devices (lab_watch_read() in lab/watch.h). */
void backend_program_watched(const char *host, struct weft_text *out);
/* Runs the guest, in its first process, and does not return; does nothing in other processes. */
void backend_guest_init(void);
/* Mark the calls between them as only observing a job (base/observe.h). */
void backend_observe_begin(void);
void backend_observe_end(void);
/* Reads what is inside this machine, or inside another one whose /sys and /proc were copied to
 * `root` (NULL for this one). The caller calls io_machine_fini(). */
void backend_machine_read(const char *root, struct io_machine *out);
/* Returns this machine's interfaces [*out_n], which the caller frees; NULL if they cannot be
 * read. */
struct io_interface *backend_interfaces(uint32_t *out_n);
/* Removes what killed runs left behind. Returns the number of things removed. */
unsigned backend_cleanup(struct weft_log *log);

/* Returns the benchmark with this index, or NULL past the last. */
const struct bench *bench_at(unsigned index);

#endif
