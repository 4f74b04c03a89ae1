/* Timed faults: their effects and their ends. A fault changes one property; its end restores the
 * value of the description, even if another fault has changed it meanwhile. */
#include <errno.h>
#include <stdlib.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"

static bool is_supported(const struct world_fault *fault)
{
    return fault->kind != WORLD_FAULT_RESTART && fault->kind != WORLD_FAULT_CLOCK;
}

/* ---- faults of cables and ports ---- */

/* Finds the cable at a port, and the port's end of it. */
static bool find_cable(const struct sim_world *world, uint32_t host, uint32_t port,
                       uint32_t *out_cable, int *out_end)
{
    for (uint32_t i = 0; i < world->spec->n_cables; i++) {
        for (int end = 0; end < 2; end++) {
            const struct world_end *at = &world->spec->cables[i].ends[end];
            if (!at->is_switch && at->node == host && at->port == port) {
                *out_cable = i;
                *out_end = end;
                return true;
            }
        }
    }
    return false;
}

static void set_share(struct sim_impairment *impairment, const struct world_fault *fault,
                      const struct world_impairment *base, bool ending)
{
    if (fault->kind == WORLD_FAULT_LOSS) {
        impairment->loss_ppb = ending ? base->loss_ppb : fault->share_ppb;
    } else if (fault->kind == WORLD_FAULT_CORRUPT) {
        impairment->corrupt_ppb = ending ? base->corrupt_ppb : fault->share_ppb;
        impairment->corrupts_unseen = !ending && fault->icrc_is_good;
    } else if (fault->kind == WORLD_FAULT_DUPLICATE) {
        impairment->duplicate_ppb = ending ? base->duplicate_ppb : fault->share_ppb;
    } else if (fault->kind == WORLD_FAULT_REORDER) {
        impairment->reorder_ppb = ending ? base->reorder_ppb : fault->share_ppb;
    } else {
        impairment->ecn_ppb = ending ? base->ecn_ppb : fault->share_ppb;
    }
}

/* Changes loss, corruption, delay and so on of one direction: `way` 0 is outwards. */
static void change_direction(struct sim_world *world, const struct world_fault *fault,
                             struct sim_port *port, uint32_t cable, int end, int way,
                             bool ending)
{
    const struct world_cable *spec = &world->spec->cables[cable];
    struct sim_cable_now *now = &world->cables[cable];
    int sender = way == 0 ? end : 1 - end;
    if (fault->kind == WORLD_FAULT_DELAY) {
        weft_ps delay = ending ? spec->delay_ps : sim_ps(fault->delay_ns);
        weft_ps jitter = ending ? 0 : sim_ps(fault->jitter_ns);
        sim_port_set_delay(port, way == 0, way == 1, delay, jitter);
        return;
    }
    set_share(&now->impairment[sender], fault, &spec->impairment, ending);
    sim_port_set_impairment(port, way == 0, way == 1, &now->impairment[sender]);
}

static int add_match(const struct world_fault *fault, struct sim_port *port)
{
    struct sim_match match = {.is_inward = fault->direction == WORLD_INWARDS,
                              .is_unseen = fault->icrc_is_good,
                              .qp = fault->match_qp,
                              .psn = fault->match_psn,
                              .iteration = fault->match_iteration,
                              .delay_ps = sim_ps(fault->delay_ns)};
    if (fault->kind == WORLD_FAULT_DROP) {
        match.action = SIM_MATCH_DROP;
    } else if (fault->kind == WORLD_FAULT_CORRUPT) {
        match.action = SIM_MATCH_CORRUPT;
    } else if (fault->kind == WORLD_FAULT_DUPLICATE) {
        match.action = SIM_MATCH_DUPLICATE;
    } else if (fault->kind == WORLD_FAULT_REORDER) {
        match.action = SIM_MATCH_REORDER;
    } else if (fault->kind == WORLD_FAULT_ECN) {
        match.action = SIM_MATCH_MARK;
    } else if (fault->kind == WORLD_FAULT_DELAY) {
        match.action = SIM_MATCH_DELAY;
    } else {
        return EINVAL;
    }
    sim_port_add_match(port, &match);
    return 0;
}

static int change_port(struct sim_world *world, const struct world_fault *fault,
                       uint32_t index, bool ending)
{
    struct sim_host *host = &world->hosts[fault->host];
    struct sim_port *port = host->ports[index];
    bool outwards = fault->direction != WORLD_INWARDS;
    bool inwards = fault->direction != WORLD_OUTWARDS;
    uint32_t cable;
    int end;
    if (fault->has_match) {
        return ending ? 0 : add_match(fault, port);
    }
    if (fault->kind == WORLD_FAULT_MTU) {
        sim_port_set_mtu(port,
                         ending ? host->spec->ports[index].mtu_bytes : fault->size_bytes);
        return 0;
    }
    if (!find_cable(world, fault->host, index, &cable, &end)) {
        return ENODEV;
    }
    const struct world_cable *spec = &world->spec->cables[cable];
    if (fault->kind == WORLD_FAULT_DOWN || fault->kind == WORLD_FAULT_UP) {
        sim_port_set_down(port, outwards, inwards,
                          (fault->kind == WORLD_FAULT_DOWN) != ending);
    } else if (fault->kind == WORLD_FAULT_PAUSE) {
        sim_port_set_paused(port, outwards, inwards, !ending);
    } else if (fault->kind == WORLD_FAULT_RATE) {
        sim_port_set_rate(port, ending ? spec->rate_bps : fault->rate_bps);
    } else if (fault->kind == WORLD_FAULT_PATH_LIMIT) {
        sim_port_set_path_limit(port,
                                ending ? spec->path_limit_bytes : fault->size_bytes);
    } else {
        for (int way = 0; way < 2; way++) {
            if (way == 0 ? outwards : inwards) {
                change_direction(world, fault, port, cable, end, way, ending);
            }
        }
    }
    return 0;
}

static int change_management(struct sim_world *world, const struct world_fault *fault,
                             bool ending)
{
    struct sim_port *port = world->hosts[fault->host].management;
    if (port == NULL) {
        return ENODEV;
    }
    if (fault->kind != WORLD_FAULT_DOWN && fault->kind != WORLD_FAULT_UP) {
        return EOPNOTSUPP;
    }
    sim_port_set_down(port, true, true, (fault->kind == WORLD_FAULT_DOWN) != ending);
    return 0;
}

/* A fault without a port applies to all ports of the host. */
static int change_ports(struct sim_world *world, const struct world_fault *fault,
                        bool ending)
{
    if (fault->on_management) {
        return change_management(world, fault, ending);
    }
    if (fault->has_port) {
        return change_port(world, fault, fault->port, ending);
    }
    int first = 0;
    for (uint32_t i = 0; i < world->hosts[fault->host].spec->n_ports; i++) {
        int error = change_port(world, fault, i, ending);
        first = first == 0 ? error : first;
    }
    return first;
}

/* ---- faults of hosts ---- */

/* Ends everything in progress with EIO, without waking tasks, because the process died. */
static void process_stop(struct sim_process *process)
{
    for (uint32_t i = 0; i < process->env.n_devices; i++) {
        sim_device_stop(&process->devices[i]);
    }
    sim_gpu_device_stop(&process->gpu);
    sim_shm_stop(process);
}

/* Pauses or resumes every process of the host. */
static void host_pause(struct sim_host *host, bool paused)
{
    for (uint32_t i = 0; i < host->n_processes; i++) {
        io_loop_pause(&host->world->loop, host->first_task + i,
                      paused || host->processes[i].is_dead);
    }
}

static void kill_host(struct sim_host *host)
{
    if (host->is_dead) {
        return;
    }
    host->is_dead = true;
    host_pause(host, true);
    for (uint32_t i = 0; i < host->n_processes; i++) {
        process_stop(&host->processes[i]);
    }
    for (uint32_t i = 0; i < host->n_nics; i++) {
        sim_nic_reset(host->nics[i]);
    }
    sim_stack_reset_streams(host->stack);
    sim_stack_kill(host->stack);
}

static bool is_its(const void *waker, const void *who)
{
    const struct io_task *task = waker;
    return task != NULL && task->host == *(const uint32_t *)who;
}

/* Kills one process. Its kernel cleans up after it; the host and its other processes go on. */
static void kill_process(struct sim_host *host, uint32_t index)
{
    struct sim_process *process = &host->processes[index];
    uint32_t place = host->first_task + index;
    if (host->is_dead || process->is_dead) {
        return;
    }
    process->is_dead = true;
    io_loop_pause(&host->world->loop, place, true);
    process_stop(process);
    for (uint32_t i = 0; i < host->n_nics; i++) {
        sim_nic_reset_user(host->nics[i], index);
    }
    sim_stack_reset_streams_of(host->stack, is_its, &place);
}

static int change_on(struct sim_stack *stack, uint32_t ifindex, bool is_gid,
                     bool is_removal, const struct sim_prefix *address)
{
    if (is_gid) {
        return is_removal ? sim_stack_del_gid(stack, ifindex, &address->ip)
                          : sim_stack_add_gid(stack, ifindex, &address->ip);
    }
    return is_removal ? sim_stack_del_address(stack, ifindex, &address->ip)
                      : sim_stack_add_address(stack, ifindex, address);
}

/* Changes an address on the VLAN of the port if it has one, else on its own netdev. An address to
 * be removed can be on either. */
static int change_address(struct sim_host *host, const struct world_fault *fault,
                          bool ending)
{
    struct sim_prefix address = {.ip = sim_ip_of_io(&fault->address.ip),
                                 .prefix_len = fault->address.prefix_len};
    if (!fault->has_port) {
        return EINVAL;
    }
    const struct sim_port *port = host->ports[fault->port];
    uint16_t vlan_id = host->spec->ports[fault->port].vlan_id;
    bool is_gid =
        fault->kind == WORLD_FAULT_GID_DELETE || fault->kind == WORLD_FAULT_GID_ADD;
    bool is_removal =
        fault->kind == WORLD_FAULT_GID_DELETE || fault->kind == WORLD_FAULT_ADDR_DEL;
    is_removal = is_removal != ending;
    int error = change_on(host->stack, sim_stack_ifindex(host->stack, port, vlan_id),
                          is_gid, is_removal, &address);
    if (error == EADDRNOTAVAIL && vlan_id != 0) {
        error = change_on(host->stack, sim_stack_ifindex(host->stack, port, 0), is_gid,
                          is_removal, &address);
    }
    return error;
}

/* Returns the NIC's verb for the call of a fault; -1 if there is none. */
static int verb_of(enum world_call call)
{
    static const int verbs[] = {
        [WORLD_CALL_ALLOC_PD] = SIM_VERB_ALLOC_PD,
        [WORLD_CALL_DEALLOC_PD] = SIM_VERB_DEALLOC_PD,
        [WORLD_CALL_REG_MR] = SIM_VERB_REG_MR,
        [WORLD_CALL_DEREG_MR] = SIM_VERB_DEREG_MR,
        [WORLD_CALL_CREATE_CQ] = SIM_VERB_CREATE_CQ,
        [WORLD_CALL_DESTROY_CQ] = SIM_VERB_DESTROY_CQ,
        [WORLD_CALL_CREATE_QP] = SIM_VERB_CREATE_QP,
        [WORLD_CALL_MODIFY_QP] = SIM_VERB_MODIFY_QP,
        [WORLD_CALL_DESTROY_QP] = SIM_VERB_DESTROY_QP,
        [WORLD_CALL_POST_SEND] = SIM_VERB_POST_SEND,
        [WORLD_CALL_POST_RECV] = SIM_VERB_POST_RECV,
    };
    return call >= WORLD_CALL_ALLOC_PD && call <= WORLD_CALL_POST_RECV ? verbs[call] : -1;
}

/* Applies to the device of the port; without a port to every device of the host, each with its
 * own count. */
static int fault_verb(struct sim_host *host, const struct world_fault *fault)
{
    int verb = verb_of(fault->call);
    bool is_error = fault->kind == WORLD_FAULT_VERB_ERROR;
    if (verb < 0) {
        return EINVAL;
    }
    for (uint32_t i = 0; i < host->n_nics; i++) {
        if (!fault->has_port || host->spec->ports[fault->port].device == i) {
            sim_nic_fault_verb(host->nics[i], verb, fault->nth,
                               is_error ? fault->error : 0,
                               is_error ? 0 : sim_ps(fault->by_ns));
        }
    }
    return 0;
}

static int change(struct sim_world *world, const struct world_fault *fault, bool ending)
{
    struct sim_host *host = &world->hosts[fault->host];
    switch (fault->kind) {
    case WORLD_FAULT_KILL:
        if (fault->has_process) {
            kill_process(host, fault->process);
        } else {
            kill_host(host);
        }
        return 0;
    case WORLD_FAULT_STOP:
        host_pause(host, !ending || host->is_dead);
        return 0;
    case WORLD_FAULT_GID_DELETE:
    case WORLD_FAULT_GID_ADD:
    case WORLD_FAULT_ADDR_ADD:
    case WORLD_FAULT_ADDR_DEL:
        return change_address(host, fault, ending);
    case WORLD_FAULT_VERB_ERROR:
    case WORLD_FAULT_VERB_SLOW:
        return ending ? 0 : fault_verb(host, fault);
    case WORLD_FAULT_RESTART:
    case WORLD_FAULT_CLOCK:
    case WORLD_FAULT_CALL_ERROR:
    case WORLD_FAULT_CALL_SLOW:
    case WORLD_FAULT_CALL_SHORT:
    case WORLD_FAULT_CALL_LOST:
    case WORLD_FAULT_DEVICE_FATAL:
    case WORLD_FAULT_ASYNC_EVENT:
    case WORLD_FAULT_STRANGER: /* see apply() */
    case WORLD_N_FAULTS:
        return EOPNOTSUPP;
    case WORLD_FAULT_DOWN:
    case WORLD_FAULT_UP:
    case WORLD_FAULT_LOSS:
    case WORLD_FAULT_CORRUPT:
    case WORLD_FAULT_DUPLICATE:
    case WORLD_FAULT_REORDER:
    case WORLD_FAULT_ECN:
    case WORLD_FAULT_DELAY:
    case WORLD_FAULT_RATE:
    case WORLD_FAULT_MTU:
    case WORLD_FAULT_PATH_LIMIT:
    case WORLD_FAULT_DROP:
    case WORLD_FAULT_PAUSE:
        break;
    }
    return change_ports(world, fault, ending);
}

/* ---- schedule ---- */

static bool has_end(const struct world_fault *fault)
{
    return fault->for_ns > 0 && fault->kind != WORLD_FAULT_KILL && !fault->has_match;
}

static void schedule_in(struct sim_fault *fault, weft_ns delay_ns)
{
    weft_ps now = sim_now(fault->world->engine);
    weft_ps delay = sim_ps(delay_ns);
    sim_schedule(fault->world->engine, &fault->event,
                 delay < SIM_NEVER - now ? now + delay : SIM_NEVER - 1);
}

static int apply(struct sim_fault *fault, bool ending)
{
    struct sim_world *world = fault->world;
    const struct world_fault *spec = fault->spec;
    const struct world_host *host = world->hosts[spec->host].spec;
    weft_trace_event(world->spec->trace, sim_now_ns(world->engine), host->name,
                     world_fault_place(host, spec), ending ? "fault_end" : "fault",
                     "kind=%s", world_fault_name(spec->kind));
    int error = 0;
    if (!ending && fault->began_ns == WEFT_NEVER) {
        fault->began_ns = sim_now_ns(world->engine);
    }
    if (spec->kind != WORLD_FAULT_STRANGER) {
        error = change(world, spec, ending);
    } else if (ending) {
        sim_strangers_leave(fault);
    } else {
        error = sim_strangers_come(fault);
    }
    if (error != 0) {
        weft_log(world->spec->log, WEFT_LOG_WARN,
                 "fault %s on %s had no effect: errno %d", world_fault_name(spec->kind),
                 host->name, error);
    }
    fault->is_active = !ending && has_end(spec);
    if (fault->is_active) {
        schedule_in(fault, spec->for_ns);
    }
    return error;
}

static void on_event(struct sim_event *event)
{
    struct sim_fault *fault = weft_container_of(event, struct sim_fault, event);
    (void)apply(fault, fault->is_active);
}

weft_status sim_faults_check(const struct world_spec *spec, struct weft_error *error)
{
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        if (!is_supported(&spec->faults[i])) {
            return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_WORLD,
                             "fault %s is not implemented yet on sim",
                             world_fault_name(spec->faults[i].kind));
        }
    }
    return WEFT_OK;
}

/* Returns the progress of all processes that count for the moment. */
static uint64_t progress_of(const struct world_moment *moment,
                            const struct sim_process *process, enum io_stage stage,
                            uint64_t n)
{
    const struct sim_host *host = process->host;
    if (moment->kind != WORLD_MOMENT_SENT || stage != IO_STAGE_SENT) {
        return n;
    }
    n = 0;
    for (uint32_t i = 0; i < host->n_processes && host->index == moment->host; i++) {
        n += host->processes[i].sent_bytes;
    }
    return n;
}

void sim_faults_reached(struct sim_process *process, enum io_stage stage, uint64_t n)
{
    struct sim_world *world = process->host->world;
    if (stage == IO_STAGE_SENT) {
        process->sent_bytes = n;
    }
    for (uint32_t i = 0; i < world->spec->n_faults; i++) {
        struct sim_fault *fault = &world->faults[i];
        const struct world_moment *moment = &fault->spec->moment;
        if (!fault->is_met && !world_fault_is_of_calls(fault->spec->kind) &&
            world_moment_is_met(moment, stage, progress_of(moment, process, stage, n))) {
            fault->is_met = true;
            schedule_in(fault, fault->spec->at_ns);
        }
    }
}

weft_ns sim_fault_began(const struct sim_world *world, uint32_t fault)
{
    return world->faults[fault].began_ns;
}

void sim_faults_start(struct sim_world *world)
{
    const struct world_spec *spec = world->spec;
    world->faults = weft_calloc(spec->n_faults + 1, sizeof *world->faults);
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        struct sim_fault *fault = &world->faults[i];
        fault->world = world;
        fault->spec = &spec->faults[i];
        fault->began_ns = WEFT_NEVER;
        sim_event_init(&fault->event, on_event);
        if (world_fault_is_of_calls(fault->spec->kind) ||
            fault->spec->moment.kind != WORLD_MOMENT_START) {
            continue;
        }
        fault->is_met = true;
        if (fault->spec->at_ns <= 0) {
            (void)apply(fault, false);
        } else {
            sim_schedule(world->engine, &fault->event, sim_ps(fault->spec->at_ns));
        }
    }
}

void sim_faults_stop(struct sim_world *world)
{
    for (uint32_t i = 0; world->faults != NULL && i < world->spec->n_faults; i++) {
        sim_cancel(world->engine, &world->faults[i].event);
        sim_strangers_leave(&world->faults[i]);
    }
    free(world->faults);
    while (world->injected != NULL) {
        struct sim_fault *fault = world->injected;
        world->injected = fault->next;
        sim_cancel(world->engine, &fault->event);
        sim_strangers_leave(fault);
        free(fault);
    }
}

int sim_fault_inject(struct sim_world *world, const struct world_fault *spec)
{
    if (!is_supported(spec)) {
        return EOPNOTSUPP;
    }
    struct sim_fault *fault = weft_calloc(1, sizeof *fault);
    fault->world = world;
    fault->own = *spec;
    fault->spec = &fault->own;
    fault->is_met = true;
    fault->began_ns = WEFT_NEVER;
    sim_event_init(&fault->event, on_event);
    fault->next = world->injected;
    world->injected = fault;
    return apply(fault, false);
}
