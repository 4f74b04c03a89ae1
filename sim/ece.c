/* Enhanced connection establishment: options that a connection uses only if both ends
 * have them (ibv_query_ece(3), ibv_set_ece(3)). Their meaning is the vendor's; here they
 * have no effect. */
#include <errno.h>

#include "sim/nic_objects.h"
#include "sim/rc_impl.h"

int sim_nic_query_ece(struct ibv_qp *ibv_qp, struct ibv_ece *out)
{
    const struct sim_qp *qp = sim_qp_of(ibv_qp);
    const struct sim_profile *profile = qp->nic->profile;
    if (!profile->has_ece) {
        return EOPNOTSUPP;
    }
    *out = (struct ibv_ece){.vendor_id = profile->vendor_id, .options = qp->ece_accepted};
    return 0;
}

int sim_nic_set_ece(struct ibv_qp *ibv_qp, const struct ibv_ece *ece)
{
    struct sim_qp *qp = sim_qp_of(ibv_qp);
    const struct sim_profile *profile = qp->nic->profile;
    if (!profile->has_ece || ece->vendor_id == 0) {
        return EOPNOTSUPP;
    }
    if (ece->comp_mask != 0 || ece->vendor_id != profile->vendor_id) {
        return EINVAL;
    }
    qp->ece_asked = ece->options;
    qp->ece_accepted = 0;
    qp->ece_is_asked = true;
    return 0;
}

void sim_qp_accept_ece(struct sim_qp *qp)
{
    if (qp->ece_is_asked) {
        qp->ece_is_asked = false;
        qp->ece_accepted = qp->ece_asked & qp->nic->profile->ece_options;
    }
}
