#include "host/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/frame.h"
#include "host/private.h"
#include "rdma/timers.h"

#define SECOND INT64_C(1000000000)

void host_config_default(struct host_config *config)
{
    *config = (struct host_config){
        .boot = {.patience_ns = TIMER_JOIN_NS, .step_ns = TIMER_GATHER_NS},
        .discover_ns = 30 * SECOND,
        .close_ns = 30 * SECOND,
    };
    conn_config_default(&config->conn);
    config->flow = (struct flow_config){.relay_buffers = 8,
                                        .may_fail_over = true,
                                        .hysteresis_ns = TIMER_HOLD_NS,
                                        .failover_ns = TIMER_FAILOVER_NS,
                                        .cables_ns = TIMER_CABLES_NS};
    config->relay = (struct relay_config){.memory_max = 256u << 20, .lanes_max = 1024};
    /* Longer than all deadlines of conn in sequence, so that conn fails first. */
    config->connect_ns = config->conn.patience_ns + 2 * config->conn.total_ns;
}

void host_config_stretch(struct host_config *config, uint32_t patience)
{
    weft_ns *limits[] = {
        &config->boot.patience_ns, &config->boot.step_ns,     &config->boot.hopeless_ns,
        &config->boot.ignored_ns,  &config->discover_ns,      &config->connect_ns,
        &config->close_ns,         &config->flow.failover_ns, &config->flow.cables_ns};

    for (size_t i = 0; i < WEFT_LENGTH(limits); i++) {
        *limits[i] = timer_limit(*limits[i], patience);
    }
    config->boot.patience = patience;
    conn_config_stretch(&config->conn, patience);
}

bool host_is_over(const struct host *host)
{
    return host->state == HOST_DONE || host->state == HOST_FAILED ||
           host->state == HOST_DEAD;
}

static weft_ns now_of(const struct host *host)
{
    return host->env->ops->now(host->env);
}

/* ---- states ---- */

static void enter(struct host *host, enum host_state next)
{
    weft_ns limit = host_state_limit(host, next);
    char object[24];

    weft_check(host_state_follows(host->state, next));
    weft_format(object, sizeof(object), "rank%u", host->config.rank);
    weft_trace_event(host->env->trace, now_of(host), host->env->name, object, "state",
                     "from=%s to=%s", host_state_name(host->state),
                     host_state_name(next));
    host->state = next;
    host_watchdog(host, limit == WEFT_NEVER ? WEFT_NEVER : now_of(host) + limit);
}

/* ---- the end ---- */

static void give_back(struct host *host)
{
    struct io_env *env = host->env;

    host_jobs_close(host);
    host_inside_stop(host);
    host_drop_all(host);
    env->ended_task = NULL;
    for (uint32_t i = 0; i < env->n_devices; i++) {
        env->devices[i]->async_task = NULL;
    }
    rdma_close(host->rdma);
    host->rdma = NULL;
    boot_close(host->boot);
    host->boot = NULL;
}

/* Reads the ports again after a failure or an event, for the diagnosis. */
static void look_again(struct host *host)
{
    struct weft_error ignored = {0};

    if (host->rdma != NULL && rdma_refresh(host->rdma, &ignored) == WEFT_OK) {
        host->n_ports = conn_local_facts(host->rdma, host->ports, HOST_PORTS_MAX);
    }
}

/* Adds the value "waits_for" to host->error: the ranks that this one waits for, as "0,2". A peer
 * that keeps its connections and sends nothing causes no other error, and the rendezvous can report
 * this rank as late although it only waits. */
static void name_awaited(struct host *host)
{
    struct weft_text text = {0};
    uint32_t n = 0, last = HOST_NO_MEMBER;

    for (uint32_t rank = 0; rank < host->config.n_ranks && host->peers != NULL; rank++) {
        if (host_waits_for(host, rank)) {
            weft_text_add(&text, "%s%u", text.n > 0 ? "," : "", rank);
            last = rank;
            n++;
        }
    }
    if (text.n > 0) {
        weft_error_text(&host->error, WEFT_VALUE_WAITS_FOR, text.bytes);
    }
    if (n == 1 && host->state == HOST_CONNECT &&
        (host->error_peer == HOST_NO_MEMBER || host->error_peer == host->config.rank)) {
        host->error_peer = last; /* in JOBS any cable can be the reason */
    }
    weft_text_fini(&text);
}

/* If others could not connect to this host because accept() fails, that is why they gave up and why
 * this host waited for nothing. */
static void blame_shortage(struct host *host)
{
    int sys_errno = host->listener != NULL ? conn_listener_errno(host->listener) : 0;

    if (sys_errno == 0 && host->boot != NULL) {
        sys_errno = boot_accept_errno(host->boot);
    }
    if (sys_errno != 0 && host->error_is_hearsay) {
        host_forgive(host);
        weft_fail_errno(&host->error, sys_errno, WEFT_PHASE_ACCEPT,
                        "no connection can be accepted");
    }
}

static void fail(struct host *host)
{
    char reason[256];
    char object[24];

    weft_check(host->error.status < 0);
    host_note_waits(host);
    if (host->error_is_hearsay || host->private->is_overdue) {
        name_awaited(host);
    }
    host_relay_trouble(host);
    blame_shortage(host);
    host->failed_in = host->state;
    host->error_ns = now_of(host);
    look_again(host);
    weft_error_format(&host->error, reason, sizeof(reason));
    weft_format(object, sizeof(object), "rank%u", host->config.rank);
    weft_trace_begin(host->env->trace, now_of(host), host->env->name, object, "error");
    weft_trace_text(host->env->trace, "status", weft_status_name(host->error.status));
    weft_trace_int(host->env->trace, "errno", host->error.sys_errno);
    weft_trace_int(host->env->trace, "wc_status", host->error.wc_status);
    weft_trace_text(host->env->trace, "text", reason);
    weft_trace_end(host->env->trace);
    if (host->boot != NULL) {
        boot_abort(host->boot, reason);
    }
    give_back(host);
    enter(host, HOST_FAILED);
}

/* ---- what each state does ---- */

static weft_status discover(struct host *host)
{
    weft_status status = rdma_progress(host->rdma, &host->error);

    if (status == WEFT_OK) {
        host->n_ports = conn_local_facts(host->rdma, host->ports, HOST_PORTS_MAX);
        enter(host, HOST_LISTEN);
    }
    return status;
}

/* Has the task woken when an address can have appeared. */
static weft_status look_for_address_later(struct host *host)
{
    io_task_deadline(&host->task, now_of(host) + TIMER_LISTEN_NS);
    return WEFT_AGAIN;
}

/* Returns true if some neighbour might be able to reach this host only over a port that has no
 * address yet. The handle lists the addresses at the time of listening, and is not sent again. */
static bool lacks_an_address(const struct host *host)
{
    const struct io_hostinfo *info = host->rdma->env->ops->hostinfo(host->rdma->env);

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (info->netdevs[i].is_management && info->netdevs[i].n_addresses > 0) {
            return false;
        }
    }
    return conn_any_unaddressed(host->ports, host->n_ports);
}

/* Opens the listener. Returns WEFT_AGAIN if the host lacks an address to listen on that can still
 * appear. */
static weft_status start_listening(struct host *host)
{
    struct host_private *private = host->private;
    bool may_wait = host->config.conn.policy == WEFT_POLICY_WEFT;
    weft_status status;
    weft_ns waited;

    if (private->listen_ns == 0) {
        private->listen_ns = now_of(host);
    }
    waited = now_of(host) - private->listen_ns;
    io_task_deadline(&host->task, private->watchdog_ns);
    if (waited != 0) {
        status = rdma_refresh(host->rdma, &host->error);
        if (status != WEFT_OK) {
            return status;
        }
        host->n_ports = conn_local_facts(host->rdma, host->ports, HOST_PORTS_MAX);
    }
    /* Patience does not extend this wait, after which nothing fails. */
    if (may_wait && waited < TIMER_CABLES_NS && lacks_an_address(host)) {
        return look_for_address_later(host);
    }
    status = conn_listen(host->rdma, &host->config.conn, HOST_TASK_LISTENER,
                         HOST_TASK_ACCEPTED, host->peers[host->config.rank].handle,
                         &host->listener, &host->error);
    if (status < 0 && host->error.sys_errno == EADDRNOTAVAIL && may_wait &&
        waited < timer_limit(TIMER_CABLES_NS, host->config.conn.patience)) {
        weft_error_clear(&host->error);
        return look_for_address_later(host);
    }
    return status;
}

static weft_status listen_and_boot(struct host *host)
{
    struct host_peer *self = &host->peers[host->config.rank];
    size_t n_bytes = host_blob_bytes(host->config.n_members);
    uint8_t blob[HOST_BLOB_BYTES];
    weft_status status = start_listening(host);

    if (status != WEFT_OK) {
        return status;
    }
    status = boot_open(host->env, &host->config.boot, HOST_TASK_BOOT, &host->boot,
                       &host->error);
    if (status != WEFT_OK) {
        return status;
    }
    weft_format(self->name, sizeof(self->name), "%s", host->env->name);
    memcpy(self->host_id, io_host_id(host->env), sizeof(self->host_id));
    self->ports = weft_calloc((size_t)host->n_ports + 1, sizeof(*self->ports));
    memcpy(self->ports, host->ports, host->n_ports * sizeof(*self->ports));
    self->n_ports = host->n_ports;
    host_blob_encode(self, blob, n_bytes);
    boot_gather(host->boot, blob, n_bytes);
    host_hear_of_ends(host);
    enter(host, HOST_BOOT);
    return WEFT_OK;
}

/* Replaces the report that another rank gave up by a failure that this rank is trying to recover
 * from, because it is more specific. Connections that end while all close are not failures. */
static void own_trouble(struct host *host)
{
    uint32_t rank =
        host->state == HOST_CLOSE ? HOST_NO_MEMBER : host_trouble(host, host->error_peer);

    if (rank != HOST_NO_MEMBER) {
        host->error_peer = rank;
        host->error_is_hearsay = host_is_hearsay(&host->error);
    }
}

/* Advances boot. On error, notes the rank at fault, and whether the error only repeats another
 * rank's report. */
static weft_status gather(struct host *host)
{
    weft_status status = boot_progress(host->boot, &host->error);

    if (status < 0) {
        const struct weft_value *rank = weft_error_value(&host->error, WEFT_VALUE_RANK);

        host->error_is_hearsay = !frame_failed_here(&host->error);
        if (rank != NULL && rank->number >= 0 && rank->number < host->config.n_members) {
            host->error_peer = (uint32_t)rank->number;
        }
        own_trouble(host);
    }
    return status;
}

static weft_status start_connecting(struct host *host)
{
    weft_status status;

    enter(host, HOST_CONNECT);
    boot_expect_all(host->boot);
    status = host_connect_all(host);
    if (status >= 0) {
        status = host_inside_progress(host, NULL);
    }
    return status < 0 ? status : host_accept(host);
}

static weft_status meet(struct host *host)
{
    weft_status status = gather(host);
    size_t n_bytes = host_blob_bytes(host->config.n_members);
    const uint8_t *blobs;

    if (status != WEFT_OK) {
        return status;
    }
    blobs = boot_result(host->boot);
    for (uint32_t rank = 0; rank < host->config.n_members; rank++) {
        if (rank == host->config.rank) {
            continue;
        }
        status = host_blob_decode(blobs + rank * n_bytes, n_bytes, &host->peers[rank],
                                  &host->error);
        if (status != WEFT_OK) {
            host->error_peer = rank;
            return status;
        }
    }
    host->has_peers = true;
    status = host_inside_open(host);
    if (status != WEFT_OK) {
        return status;
    }
    if (host->inside == NULL) {
        return start_connecting(host);
    }
    enter(host, HOST_SETUP);
    return host_inside_round(host);
}

/* Performs all-gathers until every member knows the inside of the hosts. */
static weft_status setup_step(struct host *host)
{
    weft_status status = gather(host);

    if (status == WEFT_OK) {
        status = host_inside_take(host);
    }
    if (status == WEFT_OK && host_inside_is_gathered(host)) {
        return start_connecting(host);
    }
    return status;
}

static weft_status connect_step(struct host *host)
{
    if (!host_all_connected(host)) {
        return WEFT_AGAIN;
    }
    /* A port of another member that keeps coming up extends the time of its flows up to that. */
    boot_gather_after(host->boot, NULL, 0,
                      timer_limit(TIMER_FAILOVER_MAX_NS, host->config.boot.patience));
    enter(host, HOST_BARRIER);
    return WEFT_OK;
}

static weft_status barrier_step(struct host *host)
{
    weft_status status = gather(host);

    if (status == WEFT_OK) {
        enter(host, HOST_JOBS);
        host->jobs_started_ns = now_of(host);
        if (host->config.rank < host->config.n_ranks) {
            io_reached(host->env, IO_STAGE_JOBS, 0);
        }
        status = host_jobs_open(host);
    }
    return status;
}

static weft_status jobs_step(struct host *host)
{
    weft_status status = host_jobs_progress(host);

    if (status == WEFT_OK) {
        host->jobs_ended_ns = now_of(host);
        boot_gather_last(host->boot, NULL, 0, host->config.work_ns);
        enter(host, HOST_CLOSE);
    }
    return status;
}

/* Closes connections only after all members have received what they waited for. */
static weft_status close_step(struct host *host)
{
    weft_status status;

    if (!host->private->is_closing) {
        status = gather(host);
        if (status != WEFT_OK) {
            return status;
        }
        host->private->is_closing = true;
        host_watchdog(host, now_of(host) + host->config.close_ns);
        host_jobs_close(host);
        if (host->n_events > 0) {
            look_again(host);
        }
        host_close_all(host);
    }
    status = host_closing_progress(host);
    if (status == WEFT_OK) {
        give_back(host);
        enter(host, HOST_DONE);
    }
    return status;
}

static weft_status step(struct host *host)
{
    switch (host->state) {
    case HOST_DISCOVER:
        return discover(host);
    case HOST_LISTEN:
        return listen_and_boot(host);
    case HOST_BOOT:
        return meet(host);
    case HOST_SETUP:
        return setup_step(host);
    case HOST_CONNECT:
        return connect_step(host);
    case HOST_BARRIER:
        return barrier_step(host);
    case HOST_JOBS:
        return jobs_step(host);
    case HOST_CLOSE:
        return close_step(host);
    case HOST_NEW:
    case HOST_DONE:
    case HOST_FAILED:
    case HOST_DEAD:
        break;
    }
    return WEFT_AGAIN;
}

static void progress(struct host *host)
{
    weft_status status;

    do {
        status = step(host);
    } while (status == WEFT_OK);
    if (status < 0) {
        fail(host);
    }
}

/* ---- tasks ---- */

static weft_status watch(struct host *host)
{
    if (now_of(host) < host->private->watchdog_ns) {
        return WEFT_OK;
    }
    weft_fail(&host->error, WEFT_ERR_TIMEOUT, host_state_phase(host->state),
              "not done within its limit, and no part of it gave up first");
    host->private->is_overdue = true;
    return WEFT_ERR_TIMEOUT;
}

/* Advances boot, which can report in any state that another rank gave up. */
static weft_status hear(struct host *host)
{
    bool is_waiting = host->state == HOST_BOOT || host->state == HOST_SETUP ||
                      host->state == HOST_BARRIER ||
                      (host->state == HOST_CLOSE && !host->private->is_closing);
    weft_status status = is_waiting || host->boot == NULL ? WEFT_AGAIN : gather(host);

    if (status < 0 && host->state == HOST_CLOSE) {
        /* All ranks have received what they waited for. It is no failure if one ends first and its
         * last message was lost. */
        host_forgive(host);
        return WEFT_OK;
    }
    return status < 0 ? status : WEFT_OK;
}

/* Advances a connection. In CLOSE all data of this rank has arrived, so it is no failure if a peer
 * closes first; a relay keeps forwarding until all have closed. */
static weft_status serve_connection(struct host *host, struct conn *conn)
{
    weft_status status = host_connection_progress(host, conn);

    if (status < 0 && host->state == HOST_CLOSE) {
        host_forgive(host);
        return WEFT_OK;
    }
    return status;
}

static weft_status serve(struct host *host, struct io_task *task)
{
    switch ((enum host_task_kind)task->kind) {
    case HOST_TASK_MAIN:
        host_hear_of_ends(host);
        return watch(host);
    case HOST_TASK_BOOT:
        return hear(host);
    case HOST_TASK_LISTENER:
        return host->listener == NULL ? WEFT_OK : host_accept(host);
    case HOST_TASK_ACCEPTED:
    case HOST_TASK_FLOW:
    case HOST_TASK_RELAY:
        return serve_connection(host, weft_container_of(task, struct conn, task));
    case HOST_TASK_INSIDE:
        return host_inside_progress(host, task);
    case HOST_TASK_ASYNC:
        return host_take_events(host);
    }
    /* Not reached: every task of a host has one of the kinds above. */
    weft_check(task == NULL);
    return WEFT_OK;
}

void host_dispatch(struct host *host, struct io_task *task)
{
    if (host->state == HOST_NEW || host_is_over(host)) {
        return;
    }
    if (serve(host, task) < 0) {
        fail(host);
        return;
    }
    progress(host);
}

/* ---- life ---- */

struct host *host_create(struct io_env *env, const struct host_config *config)
{
    struct host *host = weft_calloc(1, sizeof(*host));

    weft_check(config->rank < config->n_members && config->n_ranks <= config->n_members);
    weft_check(config->rank < config->n_ranks || config->n_rows == 0);
    host->env = env;
    host->config = *config;
    host->config.boot.rank = config->rank;
    host->config.boot.n_ranks = config->n_ranks;
    host->config.boot.n_members = config->n_members;
    host->config.conn.journal = &host->journal;
    host->error_peer = HOST_NO_MEMBER;
    host->private = weft_calloc(1, sizeof(*host->private));
    host->private->watchdog_ns = WEFT_NEVER;
    host->peers = weft_calloc(config->n_members, sizeof(*host->peers));
    host->results = weft_calloc(config->n_rows + 1, sizeof(*host->results));
    io_task_init(&host->task, env->loop, env->host, HOST_TASK_MAIN);
    io_task_init(&host->private->async, env->loop, env->host, HOST_TASK_ASYNC);
    return host;
}

void host_start(struct host *host)
{
    struct io_env *env = host->env;

    enter(host, HOST_DISCOVER);
    env->ended_task = &host->task;
    for (uint32_t i = 0; i < env->n_devices; i++) {
        env->devices[i]->async_task = &host->private->async;
    }
    if (env->n_devices == 0 && host_is_alone(host)) {
        host->rdma = rdma_open_none(env, &host->task);
    } else if (rdma_open(env, &host->task, &host->rdma, &host->error) < 0) {
        fail(host);
        return;
    }
    progress(host);
}

void host_kill(struct host *host)
{
    if (host_is_over(host)) {
        return;
    }
    host->failed_in = host->state;
    host->error_ns = now_of(host);
    enter(host, HOST_DEAD);
}

void host_kill_hanging(struct host *host)
{
    host_kill(host);
    host->has_hung = true;
}

void host_destroy(struct host *host)
{
    if (host == NULL) {
        return;
    }
    give_back(host);
    host_jobs_fini(host);
    inside_destroy(host->inside);
    io_task_fini(&host->task);
    io_task_fini(&host->private->async);
    for (uint32_t i = 0; i < host->config.n_rows; i++) {
        free(host->results[i].finished_ns);
    }
    free(host->results);
    free(host->connections);
    free(host->left_out);
    free(host->waits);
    conn_journal_fini(&host->journal);
    for (uint32_t i = 0; i < host->config.n_members; i++) {
        free(host->peers[i].ports);
    }
    free(host->peers);
    mesh_routes_fini(&host->private->routes);
    free(host->private->flows);
    free(host->private);
    free(host);
}
