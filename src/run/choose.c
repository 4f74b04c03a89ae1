/* Selects the NIC of a rank under policies of NCCL. */
#include "base/check.h"
#include "run/asks.h"
#include "run/private.h"

/* Returns true if any job uses the ring. Point-to-point jobs select NICs per pair. */
static bool has_collective(const struct run *run)
{
    bool has_any = false;

    for (uint32_t i = 0; i < run->scenario->n_jobs; i++) {
        const struct scenario_job *job = &run->scenario->jobs[i];

        has_any = has_any || job->is_exec ||
                  (job->kind != WEFT_SEND_RECV && job->kind != WEFT_ALL_TO_ALL);
    }
    return has_any;
}

static bool is_alone(const struct run *run, uint32_t member)
{
    bool is_alone = true;

    for (uint32_t i = 0; i < run->n_ranks; i++) {
        is_alone = is_alone && run->member_hosts[i] == run->member_hosts[member];
    }
    return is_alone;
}

void run_choose_nic(const struct run *run, uint32_t member, struct conn_config *conn)
{
    const struct world_host *host = &run->plan->spec.hosts[run->member_hosts[member]];
    struct weft_error error;
    struct run_nic nic;

    conn->n_chosen = 0;
    if (!weft_policy_is_nccl(run->policy) || member >= run->n_ranks ||
        is_alone(run, member)) {
        return;
    }
    weft_error_clear(&error);
    if (run_asks_of_rank(run->plan, member, true, has_collective(run), &nic, &error) !=
        WEFT_OK) {
        weft_log(run->options->log, WEFT_LOG_WARN,
                 "rank %u: no choice of a NIC as NCCL makes it: %s", member,
                 error.message);
        return;
    }
    for (uint32_t i = 0; i < nic.n_ports && i < CONN_CHOSEN_MAX; i++) {
        conn->chosen[conn->n_chosen].device = host->ports[nic.ports[i]].device;
        conn->chosen[conn->n_chosen++].port = host->ports[nic.ports[i]].port;
    }
}
