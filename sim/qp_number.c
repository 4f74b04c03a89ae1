/* Numbers of queue pairs. A device with banks (hns: 8 of QPs, 4 of CQs, the lowest bits
 * of the number) uses the least loaded of the banks tied to the send CQ's, and counts up
 * in it (hns_roce_qp.c, get_least_load_bankid_for_qp and alloc_qpn_with_bankid). */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/nic_objects.h"

enum { QP_SLOTS_MIN = 16 };

/* Returns true if QPs of `bank` may use CQs of `cq_bank` for send completions; hns ties
 * two QP banks to each. */
static bool is_tied(const struct sim_profile *profile, uint32_t bank, uint32_t cq_bank)
{
    uint32_t per_cq_bank = profile->qpn_banks / profile->cqn_banks;
    return per_cq_bank == 0 || bank / per_cq_bank == cq_bank;
}

static uint32_t choose_bank(const struct sim_nic *nic, uint32_t cqn)
{
    const struct sim_profile *profile = nic->profile;
    uint32_t chosen = SIM_NO_NUMBER;
    for (uint32_t bank = 0; bank < profile->qpn_banks; bank++) {
        if (is_tied(profile, bank, cqn % profile->cqn_banks) &&
            (chosen == SIM_NO_NUMBER ||
             nic->qps_in_bank[bank] < nic->qps_in_bank[chosen])) {
            chosen = bank;
        }
    }
    return chosen;
}

static void grow(struct sim_nic *nic, uint32_t slot)
{
    uint32_t n = WEFT_LENGTH(nic->few_qps);
    struct sim_qp **qps = nic->few_qps;
    while (n <= slot) {
        n = n < QP_SLOTS_MIN ? QP_SLOTS_MIN : 2 * n;
    }
    if (n > WEFT_LENGTH(nic->few_qps)) {
        qps = weft_calloc(n, sizeof(struct sim_qp *));
        memcpy(qps, nic->qps, nic->n_qp_slots * sizeof(struct sim_qp *));
    }
    if (nic->qps != nic->few_qps) {
        free(nic->qps);
    }
    nic->qps = qps;
    nic->n_qp_slots = n;
}

uint32_t sim_qp_take_slot(struct sim_nic *nic, const struct sim_cq *send_cq)
{
    uint32_t n_banks = nic->profile->qpn_banks;
    uint32_t bank = choose_bank(nic, send_cq->number);
    uint32_t limit = nic->profile->max_qp / n_banks;
    uint32_t id = nic->profile->qpn_reuse == SIM_QPN_CYCLIC ? nic->qpn_next[bank] : 0;
    if (nic->qps_in_bank[bank] >= limit) {
        return SIM_NO_NUMBER;
    }
    while (id % limit * n_banks + bank < nic->n_qp_slots &&
           nic->qps[id % limit * n_banks + bank] != NULL) {
        id++;
    }
    uint32_t slot = id % limit * n_banks + bank;
    if (slot >= nic->n_qp_slots) {
        grow(nic, slot);
    }
    nic->qpn_next[bank] = (id % limit + 1) % limit;
    nic->qps_in_bank[bank]++;
    return slot;
}

void sim_qp_give_slot(struct sim_nic *nic, uint32_t slot)
{
    nic->qps[slot] = NULL;
    nic->qps_in_bank[slot % nic->profile->qpn_banks]--;
}

uint32_t sim_nic_ordinal(const struct sim_nic *nic, const struct sim_frame *frame,
                         bool is_inward, uint32_t *relative_psn)
{
    uint32_t qpn = is_inward ? frame->dest_qpn : frame->source_qpn;
    const struct sim_qp *qp = nic == NULL ? NULL : sim_nic_qp(nic, qpn);
    unsigned flags = rc_opcode_info(frame->opcode)->flags;
    if (qp == NULL || frame->opcode == RC_ACK || frame->opcode == RC_CNP) {
        return 0;
    }
    bool is_request = (flags & RC_IS_REQUEST) != 0;
    uint32_t first = is_request == is_inward ? qp->attr.rq_psn : qp->attr.sq_psn;
    *relative_psn = (frame->psn - first) & RC_PSN_MASK;
    return qp->ordinal;
}
