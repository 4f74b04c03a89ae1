#include "backends/registry.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "backends/fault/fault.h"
#include "backends/lab/counts.h"
#include "backends/lab/programs.h"
#include "backends/lab/watch.h"
#include "backends/linux/interfaces.h"
#include "backends/linux/machine.h"
#include "backends/linux/names.h"
#include "backends/linux/observe.h"
#include "backends/machines/backend.h"
#include "backends/node.h"
#include "backends/node_gpu.h"
#include "backends/rxe/backend.h"
#include "backends/rxe/guest.h"
#include "backends/rxe/live.h"
#include "backends/rxe/live_socket.h"
#include "backends/rxe/live_terminal.h"
#include "backends/sim/backend.h"
#include "backends/sim/bench.h"
#include "backends/soft/backend.h"
#include "base/check.h"
#include "base/text.h"

static const struct backend backends[] = {
    {"sim", "a whole fabric in one process, in virtual time", &backend_sim, NULL,
     "virtual"},
    {"soft", "the simulated NIC engine on a real wire, in real time", &backend_soft,
     soft_can_express, "real virtual"},
    {"rxe", "the kernel's soft-RoCE in network namespaces", &backend_rxe, rxe_can_express,
     "virtual real"},
    {"verbs", "real RoCE v2 NICs of machines that are there, each reached by ssh",
     &backend_machines, machines_can_express, "real"},
};

const struct backend *backend_at(unsigned index)
{
    return index < WEFT_LENGTH(backends) ? &backends[index] : NULL;
}

const struct backend *backend_named(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(backends); i++) {
        if (strcmp(backends[i].name, name) == 0) {
            return &backends[i];
        }
    }
    return NULL;
}

const struct world_ops *backend_find(const char *name)
{
    const struct backend *backend = backend_named(name);

    return backend != NULL ? backend->ops : NULL;
}

bool backend_can_express(const struct backend *backend, const struct world_spec *spec)
{
    struct weft_error error = {0};

    return backend->can_express == NULL || backend->can_express(spec, &error) == WEFT_OK;
}

weft_status backend_create(const struct world_ops *ops, const struct world_spec *spec,
                           struct world **out, struct weft_error *error)
{
    const struct fault_config config = {.has_verbs = false};
    weft_status status = ops->create(spec, out, error);

    if (status == WEFT_OK && ops->launch == NULL) { /* else its processes have them */
        *out = fault_world_wrap(*out, spec, &config);
    }
    return status;
}

/* ---- backends with processes of their own ---- */

static bool is_virtual(const char *clock)
{
    return clock != NULL && strcmp(clock, "virtual") == 0;
}

weft_status backend_can_be_virtual(struct weft_error *error)
{
    return rxe_guest_can_be_virtual(error);
}

const char *backend_default_clock(const struct backend *backend)
{
    const char *here = getenv(RXE_GUEST_MARKER);
    struct weft_error ignored = {0};

    if (strcmp(backend->clocks, "virtual real") != 0) {
        return strncmp(backend->clocks, "real", 4) == 0 ? "real" : "virtual";
    }
    return here != NULL
               ? (is_virtual(here) ? "virtual" : "real")
               : (backend_can_be_virtual(&ignored) == WEFT_OK ? "virtual" : "real");
}

bool backend_runs_elsewhere(const char *name, const struct backend_guest *guest,
                            int *out_code)
{
    bool is_soft = strcmp(name, "soft") == 0;
    const struct rxe_guest_listener listener = {guest->context, guest->ended};
    const struct rxe_guest_options options = {.time_limit_s = guest->time_limit_s,
                                              .is_virtual = is_virtual(guest->clock),
                                              .seed = guest->seed,
                                              .listener = guest->ended != NULL ? &listener
                                                                               : NULL};
    struct weft_error error = {0};
    enum lab_layout layout;

    return (is_soft || strcmp(name, "rxe") == 0) &&
           rxe_guest_instead(&options, is_soft || rxe_probe(&layout, &error) == WEFT_OK,
                             out_code);
}

int backend_guest_folder(void)
{
    return rxe_guest_take_folder();
}

bool backend_guest_keep(int folder, const char *line, size_t n)
{
    return rxe_guest_keep(folder, line, n);
}

bool backend_is_in_guest(void)
{
    return getenv(RXE_GUEST_MARKER) != NULL;
}

weft_status backend_node_world(const struct world_spec *spec, uint32_t host,
                               uint32_t process, struct world **out,
                               struct weft_error *error)
{
    return node_world_create(spec, host, process, false, node_gpu_choose, out, error);
}

weft_status backend_soft_node_world(const struct world_spec *spec, uint32_t host,
                                    uint32_t process, struct world **out,
                                    struct weft_error *error)
{
    return node_world_create(spec, host, process, true, node_gpu_choose, out, error);
}

weft_status backend_site_world(bool is_soft, struct weft_log *log, struct world **out,
                               struct weft_error *error)
{
    const struct plain_config config = {.log = log};

    return is_soft ? node_world_bare(log, out, error)
                   : plain_world_create(&config, out, error);
}

weft_status backend_pmix_join(bool asks, struct pmix_job *out, struct weft_error *error)
{
    char host[64] = "localhost";
    char mine[80];
    char alone[80];
    unsigned port = linux_free_port();

    linux_host_name(host, sizeof(host));
    weft_format(mine, sizeof(mine), "%s:%u", host, port);
    weft_format(alone, sizeof(alone), "127.0.0.1:%u", port);
    return pmix_join(NULL, asks ? mine : NULL, alone, out, error);
}

weft_status backend_resolve(const char *name, struct io_ip *out, struct weft_error *error)
{
    return linux_resolve(name, out, error);
}

weft_status backend_guest_run(char *const *argv, int time_limit_s, const char *clock,
                              uint64_t seed, int *out_code, struct weft_error *error)
{
    const struct rxe_guest_options options = {.time_limit_s = time_limit_s,
                                              .is_virtual = is_virtual(clock),
                                              .seed = seed,
                                              .is_any_program = true};

    return rxe_guest_run(&options, argv, out_code, error);
}

weft_status backend_programs_can(const struct world_spec *spec, bool has_jobs,
                                 struct weft_error *error)
{
    weft_status status = rxe_can_express(spec, error);

    return status == WEFT_OK ? lab_programs_can(spec, has_jobs, error) : status;
}

bool backend_programs_elsewhere(const struct backend_guest *guest, int *out_code)
{
    const struct rxe_guest_listener listener = {guest->context, guest->ended};
    const struct rxe_guest_options options = {
        .time_limit_s = guest->time_limit_s,
        .is_virtual =
            guest->clock == NULL ? !backend_is_in_guest() : is_virtual(guest->clock),
        .seed = guest->seed,
        .is_any_program = true,
        .listener = guest->ended != NULL ? &listener : NULL};

    return rxe_guest_instead(&options, false, out_code);
}

static weft_status must_have_namespaces(struct weft_error *error)
{
    enum lab_layout layout;
    weft_status status = rxe_probe(&layout, error);

    if (status == WEFT_OK && layout != LAB_NAMESPACES) {
        status = weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_EXEC,
                           "this guest's kernel has no RDMA in network namespaces, as "
                           "Linux from 7.1 on has: make rxe-guest");
    }
    return status;
}

weft_status backend_programs_run(const struct world_spec *spec,
                                 const struct world_programs *what, int *out_code,
                                 struct weft_error *error)
{
    weft_status status = must_have_namespaces(error);

    return status == WEFT_OK ? lab_programs_run(spec, what, out_code, error) : status;
}

weft_status backend_lab_run(const char *clock, uint64_t seed, char *const *argv,
                            const struct world_lab_hooks *hooks, struct weft_error *error)
{
    const struct rxe_guest_options options = {.is_virtual =
                                                  clock == NULL || is_virtual(clock),
                                              .seed = seed,
                                              .is_any_program = true};

    return rxe_live_run(&options, argv, hooks, error);
}

weft_status backend_lab_inside(const struct world_spec *spec,
                               const struct world_lab_services *services,
                               struct weft_error *error)
{
    weft_status status = must_have_namespaces(error);

    return status == WEFT_OK ? rxe_live_inside(spec, services, error) : status;
}

int backend_lab_start(struct world_lab *lab, const struct world_lab_program *program,
                      uint32_t *out_id)
{
    return rxe_live_start(lab, program, out_id);
}

uint32_t backend_lab_signal(struct world_lab *lab, uint32_t id, int number)
{
    return rxe_live_signal(lab, id, number);
}

uint32_t backend_lab_type(struct world_lab *lab, uint32_t id, const char *bytes, size_t n)
{
    return rxe_live_type(lab, id, bytes, n);
}

void backend_lab_resize(struct world_lab *lab, uint32_t id, uint16_t rows,
                        uint16_t columns)
{
    rxe_live_resize(lab, id, rows, columns);
}

void backend_lab_terminal_size(int fd, uint16_t *out_rows, uint16_t *out_columns)
{
    live_terminal_size(fd, out_rows, out_columns);
}

void backend_lab_hang_up(struct world_lab *lab, uint32_t id)
{
    rxe_live_hang_up(lab, id);
}

uint32_t backend_lab_fault(struct world_lab *lab, const struct world_fault *fault)
{
    return rxe_live_fault(lab, fault);
}

uint32_t backend_lab_clear(struct world_lab *lab)
{
    return rxe_live_clear(lab);
}

uint32_t backend_lab_capture(struct world_lab *lab, const char *path)
{
    return rxe_live_capture(lab, path);
}

uint32_t backend_lab_look(struct world_lab *lab)
{
    return rxe_live_look(lab);
}

void backend_lab_forget(struct world_lab *lab, uint32_t id)
{
    rxe_live_forget(lab, id);
}

weft_ns backend_lab_now(const struct world_lab *lab)
{
    return rxe_live_now(lab);
}

int backend_lab_listen(const char *folder, const char *name, int backlog, int *out_fd)
{
    return live_listen(folder, name, backlog, out_fd);
}

int backend_lab_accept(int listen_fd)
{
    return live_accept(listen_fd);
}

int backend_lab_connect(const char *folder, const char *name, int *out_fd)
{
    return live_connect(folder, name, out_fd);
}

pid_t backend_lab_peer(int fd)
{
    return live_peer(fd);
}

int backend_lab_pair(int out_fds[2])
{
    return live_pair(out_fds);
}

ssize_t backend_lab_send(int fd, const void *bytes, size_t n)
{
    return live_send(fd, bytes, n);
}

void backend_program_device(const struct world_spec *spec, uint32_t host, uint32_t port,
                            char *out, size_t n_bytes)
{
    lab_device_by_name(spec, host, port, out, n_bytes);
}

int64_t backend_program_count(const char *device, enum world_program_count count)
{
    return lab_count(device, count);
}

int64_t backend_program_losses(const char *netdev)
{
    return lab_count_losses(netdev);
}

bool backend_program_is_active(const char *device)
{
    return lab_is_active(device);
}

bool backend_program_gid(const char *device, int index, struct io_ip *out, int *out_type)
{
    return lab_gid(device, index, out, out_type);
}

void backend_program_watched(const char *host, struct weft_text *out)
{
    lab_watch_read(host, out);
}

void backend_observe_begin(void)
{
    linux_observe_begin();
}

void backend_observe_end(void)
{
    linux_observe_end();
}

void backend_guest_init(void)
{
    rxe_guest_init();
}

void backend_machine_read(const char *root, struct io_machine *out)
{
    const struct linux_machine_config config = {.root = root};

    if (root != NULL) {
        linux_machine_read(&config, out);
    } else {
        linux_machine_read_own(out);
    }
}

unsigned backend_cleanup(struct weft_log *log)
{
    return rxe_guest_cleanup(log) + lab_cleanup(log);
}

/* ---- benchmarks ---- */

/* The workloads of peers' published figures: sizes and counts are theirs. */
static const struct bench benches[] = {
    {"sim:w1", "1 GiB over one cable", sim_bench_ring, 2, 1, 1u << 30, BENCH_BY_REFERENCE,
     BENCH_PACKETS},
    {"sim:w1x10", "10 GiB over one cable", sim_bench_ring, 2, 10, 1u << 30,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:w2", "ring all-reduce of 256 MiB on a triangle, one direction", sim_bench_ring,
     3, 4, 89478486, BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:w2-moved", "the same, with the bytes moved, added and checked", sim_bench_ring,
     3, 4, 89478486, BENCH_MOVED, BENCH_PACKETS},
    {"sim:w2-relaxed", "32 MiB of it, pieces of WRITEs landing in any order within 20 us",
     sim_bench_ring, 3, 4, 11184810, BENCH_MOVED_ANY_ORDER, BENCH_PACKETS},
    {"sim:w3-64", "64 nodes, 126 steps of 4 KiB around a ring", sim_bench_ring, 64, 126,
     4096, BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:w3-256", "256 nodes, 510 steps of 4 KiB", sim_bench_ring, 256, 510, 4096,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:w3-1024", "1024 nodes, 2046 steps of 4 KiB", sim_bench_ring, 1024, 2046, 4096,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:w3b-64", "64 nodes, 126 steps of 1 MiB", sim_bench_ring, 64, 126, 1u << 20,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:w3b-64-trains", "the same with packet trains, an ACK every 64 packets",
     sim_bench_ring, 64, 126, 1u << 20, BENCH_BY_REFERENCE, BENCH_TRAINS},
    {"sim:w3b-1024", "1024 nodes, 200 steps of 64 KiB", sim_bench_ring, 1024, 200, 65536,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:bare-w1", "sim:w1 on the bare event core", sim_bench_bare, 2, 1, 1u << 30,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:bare-w2", "sim:w2 on the bare event core", sim_bench_bare, 3, 4, 89478486,
     BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:bare-w3-1024", "sim:w3-1024 on the bare event core", sim_bench_bare, 1024, 2046,
     4096, BENCH_BY_REFERENCE, BENCH_PACKETS},
    {"sim:bare-w3b-1024", "sim:w3b-1024 on the bare event core", sim_bench_bare, 1024,
     200, 65536, BENCH_BY_REFERENCE, BENCH_PACKETS},
};

const struct bench *bench_at(unsigned index)
{
    return index < WEFT_LENGTH(benches) ? &benches[index] : NULL;
}

struct io_interface *backend_interfaces(uint32_t *out_n)
{
    return linux_interfaces(out_n);
}
