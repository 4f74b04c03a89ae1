#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"
#include "sim/tcp.h"

static void sim_world_destroy(struct world *base)
{
    if (base == NULL) {
        return;
    }
    struct sim_world *world = sim_world_of(base);
    sim_faults_stop(world);
    sim_world_teardown(world);
    nic_model_destroy(world->watched);
    sim_engine_destroy(world->engine);
    sim_phantoms_fini(&world->phantoms);
    io_loop_fini(&world->loop);
    free(world->hosts);
    free(world->cables);
    free(world->ended);
    free(world);
}

static uint32_t count_processes(const struct world_spec *spec)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        n += world_host_processes(&spec->hosts[i]);
    }
    return n;
}

static weft_status sim_world_create(const struct world_spec *spec, struct world **out,
                                    struct weft_error *error)
{
    weft_status status = sim_faults_check(spec, error);
    if (status != WEFT_OK) {
        return status;
    }
    struct sim_world *world = weft_calloc(1, sizeof *world);
    world->world.ops = &backend_sim;
    world->spec = spec;
    world->engine = sim_engine_create(spec->seed, spec->trace);
    sim_engine_allow_trains(world->engine, !spec->no_trains);
    world->hosts = weft_calloc(spec->n_hosts + 1, sizeof *world->hosts);
    world->cables = weft_calloc(spec->n_cables + 1, sizeof *world->cables);
    io_loop_init(&world->loop, count_processes(spec));
    if (spec->is_timing_only) {
        status = sim_phantoms_init(&world->phantoms, error);
    }
    if (status == WEFT_OK) {
        sim_engine_set_phantom(world->engine, &world->phantoms.range);
        status = sim_world_build(world, error);
    }
    if (status != WEFT_OK) {
        sim_world_destroy(&world->world);
        return status;
    }
    sim_faults_start(world);
    *out = &world->world;
    return WEFT_OK;
}

static struct io_env *sim_world_host_env(struct world *base, uint32_t index,
                                         uint32_t process)
{
    struct sim_host *host = &sim_world_of(base)->hosts[index];
    weft_check(process < host->n_processes);
    return &host->processes[process].env;
}

static struct io_loop *sim_world_loop(struct world *base)
{
    return &sim_world_of(base)->loop;
}

static weft_ns sim_world_now(struct world *base)
{
    return sim_now_ns(sim_world_of(base)->engine);
}

static int sim_world_inject(struct world *base, const struct world_fault *fault)
{
    return sim_fault_inject(sim_world_of(base), fault);
}

static weft_ns sim_world_fault_began(const struct world *base, uint32_t fault)
{
    return sim_fault_began(sim_world_of_const(base), fault);
}

static bool sim_world_host_alive(const struct world *base, uint32_t host)
{
    return !sim_world_of_const(base)->hosts[host].is_dead;
}

static bool sim_world_process_alive(const struct world *base, uint32_t host,
                                    uint32_t process)
{
    const struct sim_host *at = &sim_world_of_const(base)->hosts[host];
    return !at->is_dead && !at->processes[process].is_dead;
}

static weft_status sim_world_step(struct world *base, weft_ns until)
{
    struct sim_world *world = sim_world_of(base);
    struct io_loop *loop = &world->loop;
    uint64_t n_pauses = loop->n_pauses;
    for (;;) {
        weft_ns now = sim_now_ns(world->engine);
        io_loop_expire(loop, now);
        if (loop->n_ready > 0) {
            return WEFT_OK;
        }
        if (now >= until) {
            return WEFT_AGAIN;
        }
        weft_ns deadline = io_loop_next_deadline(loop);
        weft_ps limit = sim_ps(deadline < until ? deadline : until);
        if (limit == SIM_NEVER && sim_next(world->engine) == SIM_NEVER) {
            return WEFT_AGAIN; /* nothing will ever happen */
        }
        /* Events in between set no deadlines, because only tasks do. A deadline expires
         * after all other events of its time. */
        while (sim_step(world->engine, limit) && loop->n_ready == 0 &&
               loop->n_pauses == n_pauses) {
        }
        if (loop->n_pauses != n_pauses) {
            return WEFT_OK; /* a process was paused; it may have been the last */
        }
    }
}

static void on_tap(void *context, weft_ns at, const struct sim_port *port,
                   bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                   const char *comment)
{
    const struct sim_tap_context *tap = context;
    (void)port;
    if (tap->world->tap == NULL) {
        return;
    }
    struct world_frame frame = {.at_ns = at,
                                .host = tap->host,
                                .port = tap->port,
                                .is_outgoing = is_outgoing,
                                .bytes = bytes,
                                .n_bytes = n_bytes,
                                .comment = comment};
    tap->world->tap(tap->world->tap_context, &frame);
}

static int sim_world_tap(struct world *base,
                         void (*tap)(void *context, const struct world_frame *frame),
                         void *context)
{
    struct sim_world *world = sim_world_of(base);
    world->tap = tap;
    world->tap_context = context;
    for (uint32_t i = 0; i < world->spec->n_hosts; i++) {
        struct sim_host *host = &world->hosts[i];
        for (uint32_t j = 0; j < host->spec->n_ports; j++) {
            sim_port_tap(host->ports[j], tap == NULL ? NULL : on_tap, &host->taps[j]);
        }
    }
    return 0;
}

static void on_nic_verb(void *context, const struct nic_verb *verb)
{
    struct sim_world *world = context;
    struct nic_account account;
    struct world_nic_step steps[NIC_STEPS_MAX];
    nic_model_verb(world->watched, verb, &account);
    for (unsigned i = 0; i < account.n_steps; i++) {
        const struct nic_step *step = &account.steps[i];
        steps[i] =
            (struct world_nic_step){step->who, step->what, step->facts, step->note};
    }
    struct world_nic_verb report = {.began_ns = account.began / 1000,
                                    .ended_ns = account.ended / 1000,
                                    .verb = account.verb,
                                    .object = account.object,
                                    .change = account.change,
                                    .error = account.error,
                                    .is_forgotten = account.is_forgotten,
                                    .steps = steps,
                                    .n_steps = account.n_steps};
    world->tell_nic(world->tell_nic_context, &report);
}

static int sim_world_watch_nic(struct world *base, uint32_t host, uint32_t port,
                               void (*tell)(void *context,
                                            const struct world_nic_verb *verb),
                               void *context)
{
    struct sim_world *world = sim_world_of(base);
    const struct sim_host *watched = &world->hosts[host];
    struct sim_nic *nic = watched->nics[watched->spec->ports[port].device];
    nic_model_destroy(world->watched);
    world->watched = nic_model_create(sim_nic_profile(nic));
    world->tell_nic = tell;
    world->tell_nic_context = context;
    sim_nic_watch(nic, on_nic_verb, world);
    return 0;
}

static void sim_world_cable_stats(const struct world *base, uint32_t cable,
                                  struct world_cable_stats *out)
{
    const struct sim_world *world = sim_world_of_const(base);
    const struct world_cable *spec = &world->spec->cables[cable];
    for (int i = 0; i < 2; i++) {
        struct sim_direction_stats sent =
            sim_port_sent(sim_world_port(world, &spec->ends[i]));
        out->bytes[i] = sent.bytes;
        out->packets[i] = sent.packets;
        out->drops[i] = sent.drops;
        out->busy_ps[i] = sent.busy_ps;
    }
}

static void sum_counters(const struct sim_world *world, struct sim_nic_counters *out)
{
    *out = (struct sim_nic_counters){0};
    for (uint32_t i = 0; i < world->spec->n_hosts; i++) {
        for (uint32_t j = 0; j < world->hosts[i].n_nics; j++) {
            struct sim_nic_counters one;
            sim_nic_counters(world->hosts[i].nics[j], &one);
            out->tx_packets += one.tx_packets;
            out->rx_packets += one.rx_packets;
            out->retransmits += one.retransmits;
            out->timeouts += one.timeouts;
            out->naks_sent += one.naks_sent;
            out->rnr_naks_sent += one.rnr_naks_sent;
            out->duplicates += one.duplicates;
            out->out_of_sequence += one.out_of_sequence;
            out->icrc_errors += one.icrc_errors;
            out->dropped_unknown_qp += one.dropped_unknown_qp;
            out->ecn_marks += one.ecn_marks;
            out->cnps += one.cnps;
            out->flushes_held += one.flushes_held;
            out->timeouts_ignored += one.timeouts_ignored;
            out->rnr_timers_forced += one.rnr_timers_forced;
            out->general_errs += one.general_errs;
            out->inlines_lowered += one.inlines_lowered;
            out->empty_sqs_refused += one.empty_sqs_refused;
            out->mailbox_stalls += one.mailbox_stalls;
            out->deregs_queued += one.deregs_queued;
        }
    }
}

static bool sim_world_counter(const struct world *base, uint32_t index,
                              const char **out_name, uint64_t *out_value)
{
    struct sim_nic_counters sum;
    sum_counters(sim_world_of_const(base), &sum);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"tx_packets", sum.tx_packets},
        {"rx_packets", sum.rx_packets},
        {"retransmits", sum.retransmits},
        {"timeouts", sum.timeouts},
        {"naks_sent", sum.naks_sent},
        {"rnr_naks_sent", sum.rnr_naks_sent},
        {"duplicates", sum.duplicates},
        {"out_of_sequence", sum.out_of_sequence},
        {"icrc_errors", sum.icrc_errors},
        {"dropped_unknown_qp", sum.dropped_unknown_qp},
        {"ecn_marks", sum.ecn_marks},
        {"cnps", sum.cnps},
        {"flushes_held", sum.flushes_held},
        {"timeouts_ignored", sum.timeouts_ignored},
        {"rnr_timers_forced", sum.rnr_timers_forced},
        {"general_errs", sum.general_errs},
        {"inlines_lowered", sum.inlines_lowered},
        {"empty_sqs_refused", sum.empty_sqs_refused},
        {"mailbox_stalls", sum.mailbox_stalls},
        {"deregs_queued", sum.deregs_queued},
    };
    if (index >= WEFT_LENGTH(all)) {
        return false;
    }
    *out_name = all[index].name;
    *out_value = all[index].value;
    return true;
}

static void sim_world_objects(const struct world *base, uint32_t index,
                              struct world_objects *out)
{
    const struct sim_host *host = &sim_world_of_const(base)->hosts[index];
    *out = (struct world_objects){0};
    for (uint32_t i = 0; i < host->n_nics; i++) {
        struct sim_nic_objects one = sim_nic_objects(host->nics[i]);
        out->pds += one.pds;
        out->mrs += one.mrs;
        out->cqs += one.cqs;
        out->qps += one.qps;
        out->verbs += one.verbs;
    }
    sim_tcp_count(host->stack, &out->streams, &out->listeners);
}

static void sim_world_port_frames(const struct world *base, uint32_t index, uint32_t port,
                                  struct world_port_frames *out)
{
    const struct sim_host *host = &sim_world_of_const(base)->hosts[index];
    struct sim_port *at = host->ports[port];
    struct sim_nic_counters counters;
    struct sim_direction_stats stats = sim_port_sent(at);
    sim_nic_counters(host->nics[host->spec->ports[port].device], &counters);
    *out = (struct world_port_frames){
        .sent = counters.tx_packets,
        .received = counters.rx_packets,
        .looped = sim_port_looped(at),
        .dropped = stats.drops - stats.packet_drops,
        .duplicated = stats.frame_duplicates,
        .oversize = sim_port_dropped(at).rx_oversize_frames,
        .in_flight = sim_port_in_flight(at),
    };
}

static void sim_world_report_ended(struct world *base, uint32_t member)
{
    struct sim_world *world = sim_world_of(base);
    world->ended =
        weft_realloc(world->ended, (world->n_ended + 1) * sizeof *world->ended);
    world->ended[world->n_ended++] = member;
    for (uint32_t i = 0; i < world->spec->n_hosts; i++) {
        for (uint32_t p = 0; p < world->hosts[i].n_processes; p++) {
            io_task_wake(world->hosts[i].processes[p].env.ended_task);
        }
    }
}

const struct world_ops backend_sim = {
    .name = "sim",
    .create = sim_world_create,
    .host_env = sim_world_host_env,
    .loop = sim_world_loop,
    .now = sim_world_now,
    .inject = sim_world_inject,
    .fault_began = sim_world_fault_began,
    .host_alive = sim_world_host_alive,
    .process_alive = sim_world_process_alive,
    .tap = sim_world_tap,
    .watch_nic = sim_world_watch_nic,
    .step = sim_world_step,
    .cable_stats = sim_world_cable_stats,
    .objects = sim_world_objects,
    .port_frames = sim_world_port_frames,
    .counter = sim_world_counter,
    .report_ended = sim_world_report_ended,
    .destroy = sim_world_destroy,
};
