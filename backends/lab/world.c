#define _GNU_SOURCE
#include "backends/lab/world.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/lab/capture.h"
#include "backends/lab/chance.h"
#include "backends/lab/elsewhere.h"
#include "backends/lab/fabric.h"
#include "backends/lab/process.h"
#include "backends/lab/signals.h"
#include "backends/linux/clock.h"
#include "backends/linux/shm.h"
#include "base/check.h"
#include "base/observe.h"
#include "base/text.h"

/* The beginning or the end of a fault. */
struct timed {
    weft_ns at_ns; /* on the world's clock */
    const struct world_fault *fault;
    bool undo;
    bool is_done;
};

struct lab_world {
    struct world base;
    const struct world_spec *spec;
    struct lab_world_kind kind;
    /* False: hosts share the current namespace and have no interfaces of their own. */
    bool has_fabric;
    struct lab_fabric fabric;
    struct lab_process *processes; /* Owned [n_processes], in the order of hosts */
    /* Owned [n_hosts + 1]: index of a host's first process in `processes`. */
    uint32_t *first;
    uint32_t n_processes;
    bool has_begun; /* a process was launched */
    /* From the first step on this process only watches the others, captures and reports. */
    bool observes;
    uint32_t *ended; /* Owned [n_ended]: members reported to lab_world_report_ended() */
    uint32_t n_ended;
    struct timed *timed; /* Owned [n_timed] */
    uint32_t n_timed;
    bool *is_met;         /* Owned [spec->n_faults]: their moment has come */
    weft_ns *began_ns;    /* Owned [spec->n_faults]: WEFT_NEVER if not begun */
    uint64_t *sent_bytes; /* Owned [n_processes]: as reported last */
    /* Pipe on which processes report stages; -1 if no fault needs them. */
    int stage_fds[2];
    struct lab_signals signals;
    struct lab_capture *capture;           /* Owned; or NULL */
    char counter_name[LAB_NAME_BYTES * 2]; /* the last one returned */
};

static struct lab_world *world_of(struct world *world)
{
    return weft_container_of(world, struct lab_world, base);
}

/* Removes `const`, because reading kernel counters updates totals in the world. */
static struct lab_world *look_into(const struct world *world)
{
    return world_of((struct world *)(uintptr_t)world);
}

weft_ns lab_world_now(struct world *world)
{
    (void)world;
    /* The processes of hosts use the same clock, so their times need no conversion. */
    return linux_clock_now();
}

/* ---- faults ---- */

/* Signals every running process of the host. Returns ESRCH if none runs. */
static int signal_host(const struct lab_world *world, uint32_t host, int signal_number)
{
    int problem = ESRCH;

    for (uint32_t i = world->first[host]; i < world->first[host + 1]; i++) {
        int one = lab_process_signal(&world->processes[i], signal_number);

        problem = problem == 0 || one == ESRCH ? problem : one;
    }
    return problem;
}

static int fault_of_host(struct lab_world *world, const struct world_fault *fault,
                         bool undo)
{
    if (fault->kind == WORLD_FAULT_KILL) {
        if (fault->has_process && !undo) {
            return lab_process_signal(
                &world->processes[world->first[fault->host] + fault->process], SIGKILL);
        }
        return undo ? EOPNOTSUPP : signal_host(world, fault->host, SIGKILL);
    }
    if (fault->kind == WORLD_FAULT_STOP) {
        return signal_host(world, fault->host, undo ? SIGCONT : SIGSTOP);
    }
    return EOPNOTSUPP;
}

static int apply(struct lab_world *world, const struct world_fault *fault, bool undo)
{
    bool is_of_link = world_fault_is_of_link(fault);

    if (is_of_link && !world->has_fabric) {
        return EOPNOTSUPP;
    }
    return is_of_link ? lab_fault_apply(&world->fabric, fault, undo)
                      : fault_of_host(world, fault, undo);
}

int lab_world_inject(struct world *base, const struct world_fault *fault)
{
    return apply(world_of(base), fault, false);
}

static void plan_fault(struct lab_world *world, uint32_t index, weft_ns from)
{
    const struct world_fault *fault = &world->spec->faults[index];
    weft_ns at = from + fault->at_ns;

    world->is_met[index] = true;
    world->timed[world->n_timed++] = (struct timed){.at_ns = at, .fault = fault};
    if (fault->for_ns != 0) {
        world->timed[world->n_timed++] =
            (struct timed){.at_ns = at + fault->for_ns, .fault = fault, .undo = true};
    }
}

static void plan_faults(struct lab_world *world)
{
    const struct world_spec *spec = world->spec;
    weft_ns now = linux_clock_now();

    world->timed = weft_calloc(2 * (size_t)spec->n_faults + 1, sizeof(*world->timed));
    world->is_met = weft_calloc((size_t)spec->n_faults + 1, sizeof(*world->is_met));
    world->began_ns = weft_calloc((size_t)spec->n_faults + 1, sizeof(*world->began_ns));
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        bool is_timed = spec->faults[i].moment.kind == WORLD_MOMENT_START;

        world->began_ns[i] = WEFT_NEVER;
        if (!lab_fault_is_of_process(&spec->faults[i]) && is_timed) {
            plan_fault(world, i, now);
        }
    }
}

/* ---- stages of the job ---- */

static uint32_t host_of(const struct lab_world *world, uint32_t process)
{
    uint32_t host = 0;

    while (world->first[host + 1] <= process) {
        host++;
    }
    return host;
}

/* Returns the number of bytes posted so far by all processes that count for the moment. */
static uint64_t sent_by(const struct lab_world *world, const struct world_moment *moment)
{
    uint64_t n = 0;

    for (uint32_t i = world->first[moment->host]; i < world->first[moment->host + 1];
         i++) {
        n += world->sent_bytes[i];
    }
    return n;
}

/* Handles a record of a stage. A fault that processes apply to themselves is only noted, because
 * each process meets it at its own moment. */
static void take_stage(struct lab_world *world, const struct world_stage_record *record)
{
    enum io_stage stage = (enum io_stage)record->stage;

    if (record->process >= world->n_processes || record->stage >= IO_N_STAGES) {
        return;
    }
    if (stage == IO_STAGE_SENT) {
        world->sent_bytes[record->process] = record->n;
    }
    for (uint32_t i = 0; i < world->spec->n_faults; i++) {
        const struct world_fault *fault = &world->spec->faults[i];
        const struct world_moment *moment = &fault->moment;
        bool is_of_process = lab_fault_is_of_process(fault);
        bool is_its = host_of(world, record->process) == fault->host;
        bool is_sum = moment->kind == WORLD_MOMENT_SENT && !is_of_process;

        if (world->is_met[i] || (is_of_process && !is_its) ||
            !world_moment_is_met(moment, stage,
                                 is_sum ? sent_by(world, moment) : record->n)) {
            continue;
        }
        world->is_met[i] = true;
        if (is_of_process) {
            world->began_ns[i] = record->at_ns + fault->at_ns;
        } else {
            plan_fault(world, i, record->at_ns);
        }
    }
}

static void take_stages(struct lab_world *world)
{
    struct world_stage_record records[64];
    ssize_t n;

    while (world->stage_fds[0] >= 0 &&
           (n = read(world->stage_fds[0], records, sizeof(records))) > 0) {
        for (size_t i = 0; i < (size_t)n / sizeof(records[0]); i++) {
            take_stage(world, &records[i]);
        }
    }
}

/* Processes on other machines have no pipe to this one; they apply their faults themselves. */
static weft_status open_stages(struct lab_world *world, struct weft_error *error)
{
    const struct world_spec *spec = world->spec;
    bool is_needed = false;

    for (uint32_t i = 0; i < spec->n_faults && world->kind.line == NULL; i++) {
        is_needed = is_needed || spec->faults[i].moment.kind != WORLD_MOMENT_START;
    }
    if (is_needed && (pipe2(world->stage_fds, O_CLOEXEC) != 0 ||
                      fcntl(world->stage_fds[0], F_SETFL, O_NONBLOCK) != 0)) {
        return weft_fail_errno(error, errno, WEFT_PHASE_WORLD,
                               "no pipe to hear of moments by");
    }
    return WEFT_OK;
}

weft_ns lab_world_fault_began(const struct world *base, uint32_t fault)
{
    weft_ns began = look_into(base)->began_ns[fault];

    return began <= linux_clock_now() ? began : WEFT_NEVER;
}

static void tell_fault(const struct lab_world *world, const struct timed *timed)
{
    const struct world_fault *fault = timed->fault;
    const struct world_host *host = &world->spec->hosts[fault->host];

    weft_trace_event(world->spec->trace, linux_clock_now(), host->name,
                     world_fault_place(host, fault), timed->undo ? "fault_end" : "fault",
                     "kind=%s", world_fault_name(fault->kind));
}

static void apply_timed(struct lab_world *world, struct timed *timed, weft_ns now)
{
    int problem;

    tell_fault(world, timed);
    problem = apply(world, timed->fault, timed->undo);
    timed->is_done = true;
    if (!timed->undo) {
        world->began_ns[timed->fault - world->spec->faults] = now;
    }
    if (problem != 0) {
        weft_log(world->spec->log, WEFT_LOG_WARN, "%s: fault %u: %s",
                 world->base.ops->name, (unsigned)(timed - world->timed),
                 strerror(problem));
    }
}

/* Returns the first one that is not done, in order of time and then of the file; NULL if none. */
static struct timed *first_timed(const struct lab_world *world)
{
    struct timed *first = NULL;

    for (uint32_t i = 0; i < world->n_timed; i++) {
        struct timed *timed = &world->timed[i];

        if (!timed->is_done && (first == NULL || timed->at_ns < first->at_ns)) {
            first = timed;
        }
    }
    return first;
}

/* Applies the faults that are due. Returns the time of the next one. */
static weft_ns faults_due(struct lab_world *world)
{
    weft_ns now = lab_world_now(&world->base);
    struct timed *timed;

    while ((timed = first_timed(world)) != NULL && timed->at_ns <= now) {
        apply_timed(world, timed, now);
    }
    return timed != NULL ? timed->at_ns : WEFT_NEVER;
}

/* ---- time ---- */

weft_status lab_world_step(struct world *base, weft_ns until)
{
    struct lab_world *world = world_of(base);

    if (!world->observes) {
        weft_observe_begin();
        lab_chance_run_unnoticed();
        world->observes = true;
    }
    for (;;) {
        weft_ns now = lab_world_now(base);
        weft_ns next;

        take_stages(world);
        next = faults_due(world);
        lab_capture_fetch(world->capture);
        if (lab_processes_reap(world->processes, world->n_processes)) {
            return WEFT_OK;
        }
        if (lab_signals_came(&world->signals)) {
            return WEFT_ERR_CLOSED;
        }
        if (now >= until) {
            return WEFT_AGAIN;
        }
        next = next < until ? next : until;
        if (world->capture != NULL && next - now > LAB_CAPTURE_NS) {
            next = now + LAB_CAPTURE_NS;
        }
        lab_processes_wait(world->processes, world->n_processes,
                           (const int[]){world->signals.fd, world->stage_fds[0]},
                           next == WEFT_NEVER ? WEFT_NEVER : next - now);
    }
}

/* ---- hosts ---- */

struct io_env *lab_world_host_env(struct world *base, uint32_t host, uint32_t process)
{
    (void)base;
    (void)host;
    (void)process;
    return NULL; /* the host is in another process */
}

struct io_loop *lab_world_loop(struct world *base)
{
    (void)base;
    return NULL;
}

bool lab_world_host_alive(const struct world *base, uint32_t host)
{
    struct lab_world *world = look_into(base);

    for (uint32_t i = world->first[host]; i < world->first[host + 1]; i++) {
        if (!world->processes[i].is_over) {
            return true;
        }
    }
    return false;
}

/* Appends "p0=DEVICE,p1=DEVICE": RDMA devices of the kernel, or netdevs. */
static void name_devices(const struct lab_world *world, uint32_t host,
                         struct weft_text *out)
{
    const struct world_host *spec = &world->spec->hosts[host];
    bool has_devices = world->kind.with_devices && !lab_host_is_soft(spec);

    for (uint32_t i = 0; i < spec->n_ports; i++) {
        char device[LAB_NAME_BYTES];

        if (has_devices) {
            lab_device_name(&world->fabric, host, i, device, sizeof(device));
        } else {
            weft_format(device, sizeof(device), "%s",
                        world->has_fabric ? world->fabric.hosts[host].ports[i].netdev
                                          : spec->ports[i].name);
        }
        weft_text_add(out, "%s%s=%s", i > 0 ? "," : "", spec->ports[i].name, device);
    }
}

static struct lab_process *process_at(const struct lab_world *world, uint32_t host,
                                      uint32_t process)
{
    weft_check(process < world->first[host + 1] - world->first[host]);
    return &world->processes[world->first[host] + process];
}

static int start_elsewhere(const struct lab_world *world, uint32_t host, uint32_t process,
                           const struct world_process *what)
{
    struct weft_text line = {NULL, 0, 0};
    int problem;

    lab_elsewhere_line(world->kind.line, world->spec->hosts[host].name, process,
                       what->argv, &line);
    problem =
        lab_process_start_elsewhere(process_at(world, host, process), line.bytes,
                                    what->input, what->n_input, &world->signals.old_mask);
    weft_text_fini(&line);
    return problem;
}

static int start_here(const struct lab_world *world, uint32_t host, uint32_t process,
                      char *const *argv)
{
    struct weft_text devices = {NULL, 0, 0};
    const struct lab_host *at = world->has_fabric ? &world->fabric.hosts[host] : NULL;
    struct lab_identity identity = {
        .host = world->spec->hosts[host].name,
        .has_private_shm = world->spec->hosts[host].has_private_shm,
        .management = at == NULL ? "" : at->management,
        .process = process,
        .sends_apart = lab_capture_needs_frames(world->capture),
        .stages_fd = world->stage_fds[1],
        .index = world->first[host] + process,
        .settings = world->kind.settings,
        .n_settings = world->kind.n_settings};
    int problem;

    weft_text_add(&devices, "%s", "");
    name_devices(world, host, &devices);
    identity.devices = devices.bytes;
    problem = lab_process_start(process_at(world, host, process),
                                at == NULL ? NULL : &at->place, argv, &identity,
                                &world->signals.old_mask);
    weft_text_fini(&devices);
    return problem;
}

weft_status lab_world_launch(struct world *base, uint32_t host, uint32_t process,
                             const struct world_process *what, struct weft_error *error)
{
    struct lab_world *world = world_of(base);
    int problem;

    if (!world->has_begun) {
        lab_chance_begin(LAB_CHANCE_PROGRAMS);
        world->has_begun = true;
    }
    problem = world->kind.line != NULL ? start_elsewhere(world, host, process, what)
                                       : start_here(world, host, process, what->argv);
    for (uint32_t i = 0; i < world->n_ended; i++) {
        lab_process_report_ended(process_at(world, host, process), world->ended[i]);
    }
    return problem == 0 ? WEFT_OK
                        : weft_fail_errno(error, problem, WEFT_PHASE_LAUNCH,
                                          "cannot start the process of %s",
                                          world->spec->hosts[host].name);
}

void lab_world_report_ended(struct world *base, uint32_t member)
{
    struct lab_world *world = world_of(base);

    world->ended =
        weft_realloc(world->ended, (world->n_ended + 1) * sizeof(*world->ended));
    world->ended[world->n_ended++] = member;
    for (uint32_t i = 0; i < world->n_processes; i++) {
        lab_process_report_ended(&world->processes[i], member);
    }
}

void lab_world_ending(struct world *base, uint32_t host, uint32_t process,
                      struct world_ending *out)
{
    lab_process_ending(process_at(world_of(base), host, process), out);
}

/* ---- observation ---- */

int lab_world_tap(struct world *base,
                  void (*tap)(void *context, const struct world_frame *frame),
                  void *context)
{
    struct lab_world *world = world_of(base);

    lab_capture_end(world->capture);
    world->capture = NULL;
    if (!world->has_fabric) {
        return tap == NULL ? 0 : EOPNOTSUPP;
    }
    if (tap == NULL) {
        return 0;
    }
    return lab_capture_start(&world->fabric, tap, context, &world->capture);
}

void lab_world_cable_stats(const struct world *base, uint32_t cable,
                           struct world_cable_stats *out)
{
    struct lab_world *world = look_into(base);
    const struct world_cable *spec = &world->spec->cables[cable];

    *out = (struct world_cable_stats){0};
    for (unsigned side = 0; side < 2 && world->has_fabric; side++) {
        const struct world_end *end = &spec->ends[side];
        struct netlink_counters counters;

        if (netlink_counters(world->fabric.hosts[end->node].place.route_fd,
                             world->fabric.hosts[end->node].ports[end->port].netdev,
                             &counters) == 0) {
            out->packets[side] = counters.tx_packets;
            out->bytes[side] = counters.tx_bytes;
            out->drops[side] = counters.tx_dropped;
        }
    }
}

/* Counters: RoCE frames of every port and of the management network, host by host; then the
 * frames that a capture lost. */
bool lab_world_counter(const struct world *base, uint32_t index, const char **out_name,
                       uint64_t *out_value)
{
    struct lab_world *world = look_into(base);

    for (uint32_t i = 0; i < world->spec->n_hosts && world->has_fabric; i++) {
        const struct world_host *host = &world->spec->hosts[i];

        if (index > host->n_ports) {
            index -= host->n_ports + 1;
            continue;
        }
        weft_format(world->counter_name, sizeof(world->counter_name), "roce_frames.%s.%s",
                    host->name,
                    index < host->n_ports ? host->ports[index].name : LAB_MANAGEMENT);
        *out_name = world->counter_name;
        *out_value = lab_fabric_roce_frames(&world->fabric, i,
                                            index < host->n_ports ? index : UINT32_MAX);
        return true;
    }
    if (world->capture != NULL && index == 0) {
        *out_name = "capture_lost";
        *out_value = lab_capture_lost(world->capture);
        return true;
    }
    return false;
}

/* ---- set-up and release ---- */

static void make_processes(struct lab_world *world)
{
    const struct world_spec *spec = world->spec;

    world->first = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*world->first));
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        world->first[i + 1] = world->first[i] + world_host_processes(&spec->hosts[i]);
    }
    world->n_processes = world->first[spec->n_hosts];
    world->processes = lab_processes_create(world->n_processes);
    world->sent_bytes =
        weft_calloc((size_t)world->n_processes + 1, sizeof(*world->sent_bytes));
}

weft_status lab_world_create(const struct world_ops *ops,
                             const struct lab_world_kind *kind,
                             const struct world_spec *spec, struct world **out,
                             struct weft_error *error)
{
    struct lab_world *world = weft_calloc(1, sizeof(*world));
    weft_status status = WEFT_OK;

    world->base.ops = ops;
    world->spec = spec;
    world->kind = *kind;
    world->stage_fds[0] = world->stage_fds[1] = -1;
    make_processes(world);
    lab_signals_catch(&world->signals);
    status = open_stages(world, error);
    if (status == WEFT_OK && kind->layout != LAB_NO_INTERFACES) {
        status =
            lab_fabric_create(spec, kind->layout,
                              kind->with_devices ? LAB_DEVICES_BY_NUMBER : LAB_NO_DEVICES,
                              &world->fabric, error);
        world->has_fabric = status == WEFT_OK;
    }
    if (status != WEFT_OK) {
        lab_world_destroy(&world->base);
        return status;
    }
    lab_chance_await_second();
    plan_faults(world);
    *out = &world->base;
    return WEFT_OK;
}

void lab_world_destroy(struct world *base)
{
    struct lab_world *world;

    if (base == NULL) {
        return;
    }
    world = world_of(base);
    if (world->observes) {
        weft_observe_end();
    }
    lab_processes_destroy(world->processes, world->n_processes);
    linux_shm_sweep(world->spec->log);
    lab_capture_end(world->capture);
    if (world->has_fabric) {
        lab_fabric_destroy(&world->fabric);
    }
    if (world->stage_fds[0] >= 0) {
        close(world->stage_fds[0]);
        close(world->stage_fds[1]);
    }
    free(world->timed);
    free(world->is_met);
    free(world->began_ns);
    free(world->sent_bytes);
    free(world->ended);
    free(world->first);
    lab_signals_release(&world->signals);
    free(world);
}
