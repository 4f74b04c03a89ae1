/* Tries to get back the rails that a direct lane lacks, by trials over the ports that it does not
 * use. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "xfer/attempt.h"
#include "xfer/flow_private.h"

static weft_ns now_of(const struct flow *flow)
{
    return io_now(flow->rdma->env);
}

/* Starts a connection over only those ports that the lane does not use, while the lane goes on. If
 * the connection comes up, its probes have shown that the ports work. */
static void start_trial(struct flow *flow, const struct flow_lane *lane)
{
    struct io_env *env = flow->rdma->env;
    struct conn_config config = flow->config.conn;
    struct weft_error error = {0};
    char object[32];

    weft_format(object, sizeof(object), "flow:%u>%u", flow->config.from, flow->config.to);
    weft_trace_event(env->trace, io_now(env), env->name, object, "trial",
                     "rails=%u of=%u failed=%u", lane->conn->n_rails, flow->n_rails_best,
                     flow->n_trials);
    flow_fill_purpose(flow, lane, FLOW_TRIAL, lane->epoch, config.purpose);
    config.wants_answer = true;
    config.management_first = true;
    config.patience_ns = 0;
    attempt_lower(&config.authenticate_ns,
                  timer_limit(TIMER_ADDRESS_NS, config.patience));
    for (uint32_t r = 0; r < lane->conn->n_rails; r++) {
        const struct rdma_port *port = lane->conn->rails[r].port;

        suspects_exclude(&config, port->device_index, port->port);
    }
    suspects_exclude_down(&flow->suspects, &config);
    for (uint32_t i = 0; i < flow->n_spared; i++) {
        suspects_exclude(&config, flow->spared[i].device, flow->spared[i].port);
    }
    flow->trial_ns = WEFT_NEVER;
    if (conn_connect(flow->rdma, &config, lane->handle, flow->config.task_kind,
                     &flow->trial, &error) != WEFT_OK) {
        flow->trial = NULL;
        return;
    }
    flow->trial->user = flow;
}

/* Handles a trial that succeeded. The lane's next epoch uses the ports of the trial as well. */
static void turn_back(struct flow *flow, struct flow_lane *lane)
{
    struct weft_error why = {0};

    for (uint32_t r = 0; r < flow->trial->n_rails; r++) {
        const struct rdma_port *port = flow->trial->rails[r].port;

        for (uint32_t i = flow->suspects.n; i-- > 0;) {
            if (flow->suspects.list[i].device == port->device_index &&
                flow->suspects.list[i].port == port->port) {
                suspects_acquit(&flow->suspects, i);
            }
        }
    }
    flow->n_trials = 0;
    flow->n_spared = 0;
    if (flow->config.conn.policy == WEFT_POLICY_WEFT) {
        lane->must_return = true;
        lane->retry_ns = now_of(flow);
        io_task_wake(&lane->conn->task);
        return;
    }
    weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_RETURN, "a better way is back");
    flow_lane_fail(flow, lane, &why);
}

/* Records that the last trial failed although its ports are active. The rail then stays unused,
 * which users would not notice otherwise, because other rails carry all data. */
static void note_unrecovered(struct flow *flow)
{
    const struct conn *trial = flow->trial;
    const struct rdma_port *port = trial->rails[0].port;
    struct weft_error why = {0};
    char phase[WEFT_PHASE_TEXT_BYTES];

    weft_fail(&why, WEFT_ERR_TIMEOUT, WEFT_PHASE_RECOVERY,
              "%s is given up after %u attempts", port->name, flow->n_trials);
    conn_kept_describe(trial, 0, &why);
    weft_error_int(&why, WEFT_VALUE_ATTEMPTS, flow->n_trials);
    weft_error_text(&why, WEFT_VALUE_LAST_PHASE,
                    weft_error_phase_text(&trial->error, phase));
    weft_error_int(&why, WEFT_VALUE_LAST_ERRNO, trial->error.sys_errno);
    flow_note_left_out(flow, port, &why);
}

/* Handles a trial that failed. If it failed at one of several ports, the others are tried at once
 * without that port. The port stays suspected, so that the lane's next epoch does not use it. */
static void note_failed(struct flow *flow)
{
    const struct conn *trial = flow->trial;
    const struct rdma_port *port = suspects_blamed(flow->rdma, trial, &trial->error);

    if (trial->n_rails > 1 && port != NULL &&
        flow->n_spared < WEFT_LENGTH(flow->spared)) {
        suspects_add(&flow->suspects, port->device_index, port->port, false);
        flow->spared[flow->n_spared++] =
            (struct suspect){.device = port->device_index, .port = port->port};
        flow->trial_ns = now_of(flow);
        return;
    }
    flow->n_spared = 0;
    flow->n_trials++;
    flow->trial_ns = flow_trial_at(flow);
    if (flow->trial_ns == WEFT_NEVER && trial->n_rails > 0) {
        note_unrecovered(flow);
    }
}

void flow_trial_progress(struct flow *flow)
{
    struct flow_lane *lane = flow_lesser_lane(flow);
    weft_status status;

    if (flow->trial == NULL) {
        if (flow->config.is_sender && lane != NULL && now_of(flow) >= flow->trial_ns) {
            start_trial(flow, lane);
        }
        return;
    }
    status = conn_progress(flow->trial);
    if (status == WEFT_AGAIN || (status == WEFT_OK && !flow->config.is_sender)) {
        return;
    }
    if (flow->config.is_sender && lane != NULL && status == WEFT_OK) {
        turn_back(flow, lane);
    } else if (flow->config.is_sender && status < 0) {
        note_failed(flow);
    }
    flow_retire(flow, flow->trial);
    flow->trial = NULL;
}
