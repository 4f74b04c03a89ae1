/* Durations of control verbs, and what prolongs them: commands that stall, and serialised
 * deregistration. */
#include <errno.h>

#include "base/check.h"
#include "sim/nic_verbs_impl.h"

weft_ps sim_nic_verb_latency(const struct sim_nic *nic, const struct sim_request *request)
{
    const struct sim_profile *profile = nic->profile;
    switch (request->verb) {
    case SIM_VERB_ALLOC_PD:
        return profile->alloc_pd_ps;
    case SIM_VERB_DEALLOC_PD:
        return profile->dealloc_pd_ps;
    case SIM_VERB_REG_MR: {
        /* A length beyond any memory will be refused, so it must not take time first. */
        uint64_t pages = request->arg.reg_mr.length / SIM_PAGE_BYTES;
        pages = pages < 1u << 31 ? pages : 0;
        return profile->reg_mr_ps + (weft_ps)pages * profile->reg_mr_page_ps;
    }
    case SIM_VERB_DEREG_MR:
        return profile->dereg_mr_ps;
    case SIM_VERB_CREATE_CQ:
        return profile->create_cq_ps;
    case SIM_VERB_DESTROY_CQ:
        return profile->destroy_cq_ps;
    case SIM_VERB_CREATE_QP:
        return profile->create_qp_ps;
    case SIM_VERB_MODIFY_QP:
        return profile->modify_qp_ps;
    case SIM_VERB_DESTROY_QP:
        return profile->destroy_qp_ps;
    case SIM_VERB_CREATE_SRQ: /* has a context and a buffer, like a CQ */
        return profile->create_cq_ps;
    case SIM_VERB_MODIFY_SRQ:
        return profile->modify_qp_ps;
    case SIM_VERB_DESTROY_SRQ:
        return profile->destroy_cq_ps;
    case SIM_N_VERBS:
        break;
    }
    weft_check(!"known verb");
    return 0;
}

bool sim_verb_is_undoing(enum sim_verb verb)
{
    return verb == SIM_VERB_DEALLOC_PD || verb == SIM_VERB_DEREG_MR ||
           verb == SIM_VERB_DESTROY_CQ || verb == SIM_VERB_DESTROY_QP ||
           verb == SIM_VERB_DESTROY_SRQ;
}

/* Returns true if the verb is a command to the device, and not only a change of host
 * memory. */
static bool is_command(const struct sim_nic *nic, enum sim_verb verb)
{
    bool is_local = verb == SIM_VERB_ALLOC_PD || verb == SIM_VERB_DEALLOC_PD ||
                    verb == SIM_VERB_CREATE_QP;
    return !(nic->profile->create_qp_is_local && is_local);
}

/* Returns the delay by which a command stalls. Sets `*error` to EBUSY if the driver gives
 * up. */
static weft_ps stall(struct sim_nic *nic, enum sim_verb verb, int *error)
{
    const struct sim_profile *profile = nic->profile;
    weft_ps limit = profile->mailbox_limit_ps;
    if (profile->mailbox_stall_nth == 0 || !is_command(nic, verb) ||
        ++nic->n_commands % profile->mailbox_stall_nth != 0) {
        return 0;
    }
    nic->counters.mailbox_stalls++;
    if (limit == 0 || profile->mailbox_stall_ps < limit) {
        return profile->mailbox_stall_ps;
    }
    /* Verbs that destroy continue without the device (hns_roce_hw_v2.c logs it). */
    *error = sim_verb_is_undoing(verb) ? 0 : EBUSY;
    return limit;
}

weft_ps sim_nic_verb_time(struct sim_nic *nic, const struct sim_request *request,
                          int *error)
{
    weft_ps now = sim_now(nic->engine);
    weft_ps time = sim_nic_verb_latency(nic, request);
    *error = 0;
    time += stall(nic, request->verb, error);
    if (request->verb == SIM_VERB_DEREG_MR && nic->profile->dereg_is_serialised) {
        if (nic->dereg_free_at > now) {
            nic->counters.deregs_queued++;
            time += nic->dereg_free_at - now;
        }
        nic->dereg_free_at = now + time;
    }
    return time;
}
