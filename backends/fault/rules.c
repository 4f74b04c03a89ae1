/* Decides which faults apply to a call. */
#include <errno.h>

#include "backends/fault/private.h"

/* Rare delays are powers of two below this one, in nanoseconds. */
#define RARE_DELAY_BITS 18

/* Excludes calls that only ask for news, because they cannot be refused and their number depends
 * on timing. */
static bool is_counted_as_any(enum world_call call)
{
    return call != WORLD_CALL_POLL_CQ && call != WORLD_CALL_CONNECTED;
}

static bool is_about(const struct fault_rule *rule, const struct fault_env *env,
                     uint32_t device, enum world_call call)
{
    const struct world_fault *spec = rule->spec;

    if (rule->spec->call == WORLD_CALL_ANY ? !is_counted_as_any(call)
                                           : rule->spec->call != call) {
        return false;
    }
    return !spec->has_port ||
           env->world->spec->hosts[env->host].ports[spec->port].device == device;
}

static void add_to(struct fault_verdict *verdict, const struct world_fault *spec)
{
    switch ((int)spec->kind) {
    case WORLD_FAULT_CALL_SLOW:
    case WORLD_FAULT_VERB_SLOW:
        verdict->by_ns = spec->by_ns > verdict->by_ns ? spec->by_ns : verdict->by_ns;
        break;
    case WORLD_FAULT_CALL_SHORT:
        verdict->cap = spec->size_bytes < verdict->cap ? spec->size_bytes : verdict->cap;
        break;
    case WORLD_FAULT_CALL_LOST:
        verdict->is_lost = true;
        break;
    default:
        verdict->error = verdict->error == 0 ? spec->error : verdict->error;
    }
}

/* Chooses a rare but legal outcome for calls that can have one: nothing yet, less than requested,
 * or later. Draws from the process's own random stream. */
static void add_rare(struct fault_env *env, enum world_call call,
                     struct fault_verdict *verdict)
{
    bool is_stream = call == WORLD_CALL_SEND || call == WORLD_CALL_RECV;
    bool is_asking = call == WORLD_CALL_POLL_CQ || call == WORLD_CALL_ACCEPT ||
                     call == WORLD_CALL_HEAR;
    bool is_verb = call >= WORLD_CALL_ALLOC_PD && call <= WORLD_CALL_DESTROY_QP;

    if ((!is_stream && !is_asking && !is_verb) ||
        !weft_rng_chance(&env->rng, env->world->spec->rare_ppb)) {
        return;
    }
    if ((is_stream || call == WORLD_CALL_POLL_CQ) && weft_rng_below(&env->rng, 2) == 0) {
        verdict->cap = 1 + (size_t)weft_rng_below(&env->rng, 7);
        return;
    }
    verdict->by_ns = (weft_ns)(UINT64_C(1) << weft_rng_below(&env->rng, RARE_DELAY_BITS));
}

struct fault_verdict fault_judge(struct fault_env *env, uint32_t device,
                                 enum world_call call)
{
    struct fault_verdict verdict = {.cap = SIZE_MAX};

    env->n_calls[call]++;
    env->n_calls[WORLD_CALL_ANY] += is_counted_as_any(call);
    if (env->world->spec->rare_ppb > 0) {
        add_rare(env, call, &verdict);
    }
    for (struct fault_rule *rule = env->rules; rule != NULL; rule = rule->next) {
        const struct world_fault *spec = rule->spec;
        uint32_t n = spec->n_calls == 0 ? 1 : spec->n_calls;

        if (!is_about(rule, env, device, call) || ++rule->n_seen < spec->nth ||
            rule->n_seen - spec->nth >= n || io_now(env->inner) >= rule->until) {
            continue;
        }
        add_to(&verdict, spec);
        env->n_hits++;
        env->last_hit = call;
        weft_trace_event(
            env->io.trace, io_now(env->inner), env->io.name,
            device < env->io.n_devices ? env->io.devices[device]->name : "host",
            "call_fault", "kind=%s call=%s nth=%u errno=%d", world_fault_name(spec->kind),
            world_call_name(call), (unsigned)rule->n_seen, spec->error);
    }
    return verdict;
}
