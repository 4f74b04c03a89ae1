/* Describes how failures of Weft show themselves to users of a policy's program. Such a program
 * fails otherwise if it sends no probes or retries more. */
#include "nccl/policies.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "rdma/timers.h"

#define RESOLVE_MS                                                                       \
    (TIMER_RESOLVE_NS / TIMER_MS) /* a step to RTR that fails with errno 110 */

static int64_t within(int64_t value, int64_t most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/* Writes a time as "34 s" or "8.6 s". */
static const char *seconds(int64_t ms, char out[24])
{
    if (ms >= 10000) {
        weft_format(out, 24, "%lld s", (long long)((ms + 500) / 1000));
    } else {
        weft_format(out, 24, "%lld.%lld s", (long long)((ms + 50) / 1000),
                    (long long)((ms + 50) % 1000 / 100));
    }
    return out;
}

/* Describes how the first data hangs where a probe of Weft had no answer. The limits are
 * connect.cc's IB_TIMEOUT and IB_RETRY_CNT, or what the other two programs request. */
static void hang(enum weft_policy policy, const struct nccl_met_settings *settings,
                 char *out, size_t cap)
{
    struct rdma_patience patience = {.timeout = 18, .retry_cnt = 7};
    char after[24];

    if (weft_policy_is_nccl(policy)) {
        patience.timeout = (uint8_t)within(nccl_number(settings->timeout, 20), 31);
        patience.retry_cnt = (uint8_t)within(nccl_number(settings->retry_cnt, 7), 7);
    } else if (policy == WEFT_POLICY_MESH_PLUGIN_2026_01) {
        mesh_plugin_patience(settings->fast_fail, &patience);
    } else {
        mooncake_patience(&patience);
    }
    if (patience.timeout == 0) {
        weft_format(out, cap, "%s sends no probe: its data hangs here for ever",
                    weft_policy_name(policy));
        return;
    }
    weft_format(
        out, cap,
        "%s sends no probe: its data hangs here, and ends after %s with completion "
        "status "
        "12 (timeout %u, retry_cnt %u%s)",
        weft_policy_name(policy),
        seconds(TIMER_QP_NS(patience.timeout, patience.retry_cnt) / TIMER_MS, after),
        patience.timeout, patience.retry_cnt,
        weft_policy_is_nccl(policy) ? ": NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT" : "");
}

/* Describes how the step to RTR hangs because the program retries it. NCCL calls modify_qp again
 * after pauses of 1, 2, 3 ... times a length (ibvwrap.cc). mesh_connect_qp tries five times, with
 * pauses of 10, 20, 40 and 80 ms. Returns false if the program does not retry. */
static bool repeat(enum weft_policy policy, const struct nccl_met_settings *settings,
                   char *out, size_t cap)
{
    char after[24];

    if (weft_policy_is_nccl(policy)) {
        int64_t n = within(nccl_number(settings->step_retry_cnt, 34), 10000);
        int64_t pause = within(nccl_number(settings->step_retry_ms, 100), 100000);

        weft_format(out, cap,
                    "%s repeats this step: it hangs, and ends after about %s with errno "
                    "110 (NCCL_IB_MQP_RETRY_CNT %lld, _SLEEP_MSEC %lld)",
                    weft_policy_name(policy),
                    seconds((n + 1) * RESOLVE_MS + n * (n + 1) / 2 * pause, after),
                    (long long)n, (long long)pause);
        return true;
    }
    if (policy == WEFT_POLICY_MESH_PLUGIN_2026_01) {
        weft_format(
            out, cap,
            "%s tries this step five times, and ends after about %s with errno 110",
            weft_policy_name(policy), seconds(5 * RESOLVE_MS + 150, after));
        return true;
    }
    return false;
}

bool nccl_as_met(enum weft_policy policy, const struct nccl_met_settings *settings,
                 const struct weft_error *error, char *out, size_t cap)
{
    if (policy == WEFT_POLICY_WEFT) {
        return false;
    }
    if (error->phase == WEFT_PHASE_PROBE && error->status == WEFT_ERR_TIMEOUT) {
        hang(policy, settings, out, cap);
        return true;
    }
    return error->phase == WEFT_PHASE_RTR && error->sys_errno == ETIMEDOUT &&
           repeat(policy, settings, out, cap);
}
