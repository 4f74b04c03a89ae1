#include "rdma/policy.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/policies.h"
#include "rdma/policy_weft.h"

const struct rdma_recovery *rdma_recovery(enum weft_policy policy)
{
    static const struct rdma_recovery none = {.fails_over = false};
    static const struct rdma_recovery weft = {.fails_over = true};

    weft_check((unsigned)policy < WEFT_N_POLICIES);
    return policy == WEFT_POLICY_WEFT                      ? &weft
           : policy == WEFT_POLICY_NCCL_2_29_PORT_RECOVERY ? &nccl_recovery
                                                           : &none;
}

bool rdma_opens(enum weft_policy policy, const char *ib_hca, const char *device,
                uint8_t port)
{
    return !weft_policy_is_nccl(policy) || nccl_opens(ib_hca, device, port);
}

/* Returns the slot that a setting of Mooncake or the mesh plugin names, or -1. Both use atoi. */
static int gid_slot(const char *text)
{
    long value = text == NULL ? -1 : strtol(text, NULL, 10);

    return value < 0 || value > 255 ? -1 : (int)value;
}

/* Returns the slot that NCCL_IB_GID_INDEX names, or -1. NCCL also uses one that no table has. */
static int nccl_slot(const char *text)
{
    int64_t value = nccl_number(text, -1);

    return value < 0 ? -1 : value > INT_MAX ? INT_MAX : (int)value;
}

struct rdma_gid_rule rdma_gid_rule(enum weft_policy policy,
                                   const struct rdma_gid_settings *settings)
{
    struct rdma_gid_rule rule = RDMA_GID_RULE_NONE;

    if (policy == WEFT_POLICY_MESH_PLUGIN_2026_01) {
        rule.index = gid_slot(settings->mesh_index);
    } else if (policy == WEFT_POLICY_MOONCAKE_2026_06) {
        rule.index = gid_slot(settings->mooncake_index != NULL ? settings->mooncake_index
                                                               : settings->index);
    } else if (weft_policy_is_nccl(policy)) {
        rule.index = nccl_slot(settings->index);
        nccl_scan(settings, &rule);
    }
    return rule;
}

uint32_t rdma_sent_qpn(enum weft_policy policy, uint32_t qpn)
{
    weft_check((unsigned)policy < WEFT_N_POLICIES);
    return policy == WEFT_POLICY_MESH_PLUGIN_2026_01 ? mesh_plugin_qpn(qpn) : qpn;
}

bool rdma_hears_one_client(enum weft_policy policy)
{
    weft_check((unsigned)policy < WEFT_N_POLICIES);
    /* The thread of nccl-mesh-plugin 679a394 that accepts a client reads its message with a recv
     * without a timeout. */
    return policy == WEFT_POLICY_MESH_PLUGIN_2026_01;
}

void rdma_lower_patience(enum weft_policy policy, const char *fast_fail,
                         struct rdma_patience *patience)
{
    weft_check((unsigned)policy < WEFT_N_POLICIES);
    if (policy == WEFT_POLICY_MESH_PLUGIN_2026_01) {
        mesh_plugin_patience(fast_fail, patience);
    } else if (policy == WEFT_POLICY_MOONCAKE_2026_06) {
        mooncake_patience(patience);
    }
}

/* Adds the addresses of an end, such as "10.0.0.1/24 10.0.1.1/24", cut to the length of a value. */
static void add_addresses(struct weft_error *error, enum weft_value_name name,
                          const struct rdma_port_facts *ports, uint32_t n_ports)
{
    char text[64] = "";
    size_t n = 0;
    for (uint32_t p = 0; p < n_ports; p++) {
        uint32_t gid = rdma_weft_gid(&ports[p]);
        if (gid == UINT32_MAX || n + 1 >= sizeof(text)) {
            continue;
        }
        char ip_text[IO_IP_TEXT_BYTES];
        struct io_ip ip = rdma_gid_ip(&ports[p].gids[gid].gid);
        io_ip_format(&ip, ip_text, sizeof(ip_text));
        weft_format(text + n, sizeof(text) - n, "%s%s/%u", n > 0 ? " " : "", ip_text,
                    (unsigned)ports[p].gids[gid].prefix_len);
        n = strlen(text);
    }
    weft_error_text(error, name, n > 0 ? text : "none");
}

/* Reports which of the two ports of a cable is down: this end's if both are. */
static void name_inactive(const struct rdma_choice_input *input,
                          const struct rdma_rail *rail, struct weft_error *error)
{
    const struct rdma_port_facts *local = &input->local[rail->local_port];
    const struct rdma_port_facts *remote = &input->remote[rail->remote_port];

    if (local->is_active) {
        weft_fail(error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
                  "the peer's port %s, which faces %s, is down", remote->name,
                  local->name);
        weft_error_text(error, WEFT_VALUE_REMOTE_INACTIVE, remote->name);
    } else {
        weft_fail(error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
                  "port %s, which faces the peer's %s, is down", local->name,
                  remote->name);
        weft_error_text(error, WEFT_VALUE_LOCAL_INACTIVE, local->name);
    }
}

static weft_status fail_route(const struct rdma_choice_input *input,
                              struct weft_error *error)
{
    struct rdma_rail rail;

    if (input->policy == WEFT_POLICY_WEFT && !input->is_same_host &&
        rdma_weft_inactive(input, &rail)) {
        name_inactive(input, &rail, error);
    } else {
        bool needs_subnet = input->policy == WEFT_POLICY_WEFT ||
                            input->policy == WEFT_POLICY_MESH_PLUGIN_2026_01;

        weft_fail(error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, "%s",
                  needs_subnet ? "no local port shares a subnet with the peer's"
                               : "one end has no active port with a GID");
    }
    add_addresses(error, WEFT_VALUE_LOCAL_ADDRESSES, input->local, input->n_local);
    add_addresses(error, WEFT_VALUE_REMOTE_ADDRESSES, input->remote, input->n_remote);
    return WEFT_ERR_ROUTE;
}

weft_status rdma_choose(const struct rdma_choice_input *input, struct rdma_rail *out,
                        uint32_t cap, uint32_t *out_n, struct weft_error *error)
{
    uint32_t n = 0;
    weft_check((unsigned)input->policy < WEFT_N_POLICIES);
    switch (input->policy) {
    case WEFT_POLICY_WEFT:
        n = rdma_weft_choose(input, out, cap);
        break;
    case WEFT_POLICY_NCCL_2_25:
    case WEFT_POLICY_NCCL_2_29_PORT_RECOVERY:
        n = nccl_choose(input, false, out, cap);
        break;
    case WEFT_POLICY_NCCL_2_30_SUBNET_AWARE:
        n = nccl_choose(input, true, out, cap);
        break;
    case WEFT_POLICY_MESH_PLUGIN_2026_01:
        n = mesh_plugin_choose(input, out, cap);
        break;
    case WEFT_POLICY_MOONCAKE_2026_06:
        n = mooncake_choose(input, out, cap);
        break;
    case WEFT_N_POLICIES:
        break;
    }
    *out_n = n;
    return n > 0 ? WEFT_OK : fail_route(input, error);
}

uint32_t rdma_reasons(const struct rdma_choice_input *input,
                      const struct rdma_rail *rails, uint32_t n_rails,
                      struct rdma_reason out[RDMA_REASONS_MAX])
{
    if (n_rails == 0) {
        return 0;
    }
    return input->policy == WEFT_POLICY_WEFT
               ? rdma_weft_reasons(input, rails, n_rails, out)
               : nccl_reasons(input, rails, n_rails, out);
}
