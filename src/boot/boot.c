#include "boot/boot.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/mesh.h"
#include "boot/private.h"

static weft_status check_config(const struct boot_config *config, uint32_t n_members,
                                struct weft_error *error)
{
    if (config->n_ranks == 0 || config->n_ranks > n_members ||
        config->rank >= n_members) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_BOOT, "rank %u of %u",
                         config->rank, config->n_ranks);
    }
    for (uint32_t i = 0; config->mode == BOOT_STATIC && i < config->n_neighbours; i++) {
        uint32_t member = config->neighbours[i].member;

        if (member >= n_members || member == config->rank) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_BOOT,
                             "rank %u is no neighbour of rank %u of %u", member,
                             config->rank, config->n_ranks);
        }
    }
    return WEFT_OK;
}

weft_status boot_open(struct io_env *env, const struct boot_config *config, int task_kind,
                      struct boot **out, struct weft_error *error)
{
    uint32_t n_members = config->n_members == 0 ? config->n_ranks : config->n_members;
    weft_status status = check_config(config, n_members, error);
    struct boot *boot;

    *out = NULL;
    if (status != WEFT_OK) {
        return status;
    }
    boot = weft_calloc(1, sizeof(*boot));
    io_task_init(&boot->task, env->loop, env->host, task_kind);
    boot->env = env;
    boot->config = *config;
    boot->n_members = n_members;
    boot->opened_ns = io_now(env);
    boot->ended_ns = WEFT_NEVER;
    boot->unreported_ns = WEFT_NEVER;
    if (config->mode != BOOT_RENDEZVOUS) {
        status = mesh_open(boot, error);
    } else if (config->rank == 0) {
        status = boot_server_open(boot, error);
    } else {
        boot_client_open(boot);
    }
    if (status != WEFT_OK) {
        boot_close(boot);
        return status;
    }
    io_task_wake(&boot->task);
    *out = boot;
    return WEFT_OK;
}

struct io_task *boot_task(struct boot *boot)
{
    return &boot->task;
}

static void gather(struct boot *boot, const void *mine, size_t n_bytes, bool to_first)
{
    weft_check(!boot->is_active);
    weft_check(n_bytes <= BOOT_BLOB_MAX);
    boot->is_active = true;
    boot->needs_all = false;
    /* Flooding reaches all members anyway. */
    boot->to_first = to_first && boot->mesh == NULL;
    boot->round++;
    boot->started_ns = io_now(boot->env);
    boot->each = (uint32_t)n_bytes;
    boot->mine = weft_realloc(boot->mine, n_bytes + 1);
    if (n_bytes > 0) {
        memcpy(boot->mine, mine, n_bytes);
    }
    boot->result = weft_realloc(boot->result, boot->n_members * n_bytes + 1);
    if (boot->mesh != NULL) {
        mesh_gather(boot);
    } else if (boot->server != NULL) {
        boot_server_gather(boot);
    } else {
        boot_client_gather(boot);
    }
    io_task_wake(&boot->task);
}

void boot_gather(struct boot *boot, const void *mine, size_t n_bytes)
{
    gather(boot, mine, n_bytes, false);
}

void boot_gather_after(struct boot *boot, const void *mine, size_t n_bytes,
                       weft_ns work_ns)
{
    gather(boot, mine, n_bytes, false);
    if (boot->due_ns == NULL) { /* the others do not work without one that has ended */
        boot->started_ns += work_ns;
    }
}

void boot_gather_last(struct boot *boot, const void *mine, size_t n_bytes,
                      weft_ns work_ns)
{
    boot->is_last = true;
    boot_gather_after(boot, mine, n_bytes, work_ns);
}

void boot_gather_to_first(struct boot *boot, const void *mine, size_t n_bytes)
{
    gather(boot, mine, n_bytes, true);
}

bool boot_first_left(const struct boot *boot)
{
    return boot->client != NULL && boot->client->server_left;
}

bool boot_is_absent(const struct boot *boot, uint32_t member)
{
    if (boot->mesh != NULL) {
        return boot->mesh->members[member].is_absent;
    }
    return boot->server != NULL && boot->server->ranks[member].is_absent;
}

bool boot_awaits(const struct boot *boot, uint32_t member)
{
    if (boot->mesh != NULL) {
        return mesh_awaits(boot, member);
    }
    return boot->server != NULL ? boot_server_awaits(boot, member) : member == 0;
}

static void trace_failure(const struct boot *boot)
{
    const struct weft_value *rank = weft_error_value(&boot->error, WEFT_VALUE_RANK);

    weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                     "failed", "rank=%lld status=%s",
                     rank == NULL ? -1 : (long long)rank->number,
                     weft_status_name(boot->error.status));
}

/* ---- members that ended ---- */

void boot_ended(struct boot *boot, uint32_t member)
{
    weft_ns now = io_now(boot->env);

    if (member >= boot->n_members || member == boot->config.rank) {
        return;
    }
    if (boot->is_active && boot->started_ns > now) {
        boot->started_ns = now; /* the others do not work without it */
    }
    if (boot->due_ns == NULL) {
        boot->due_ns = weft_calloc(boot->n_members, sizeof(*boot->due_ns));
        for (uint32_t m = 0; m < boot->n_members; m++) {
            boot->due_ns[m] = WEFT_NEVER;
        }
    }
    if (boot->due_ns[member] != WEFT_NEVER) {
        return;
    }
    if (boot->client != NULL && boot->unreported_ns == WEFT_NEVER) {
        boot->first_ended = member;
        boot->unreported_ns = now + boot_limit(boot, BOOT_UNREPORTED_NS);
    }
    boot->due_ns[member] = now + boot_limit(boot, BOOT_ENDED_NS);
    if (boot->due_ns[member] < boot->ended_ns) {
        boot->ended_ns = boot->due_ns[member];
    }
    io_task_wake(&boot->task);
}

void boot_expect_all(struct boot *boot)
{
    boot->needs_all = true;
}

/* Returns true if `member` has joined. Its stream then reports its end, and the launcher's report
 * counts only if the member is cut off (find_cut_off). A client waits only for rank 0, so it counts
 * every other member as joined. */
static bool has_come(const struct boot *boot, uint32_t member)
{
    if (boot->mesh != NULL) {
        return boot->mesh->members[member].is_known ||
               boot->mesh->members[member].is_absent;
    }
    if (boot->server != NULL) {
        return boot->server->ranks[member].joined;
    }
    return member != 0 || boot->client->state == BOOT_DIAL_JOINED;
}

/* Returns the lowest ended member that did not join by its deadline, or n_members. Such a member,
 * and those that joined, have no deadline any more. */
static uint32_t take_late(struct boot *boot)
{
    uint32_t late = boot->n_members;

    boot->ended_ns = WEFT_NEVER;
    for (uint32_t m = 0; m < boot->n_members; m++) {
        weft_ns *due = &boot->due_ns[m];

        if (*due == BOOT_ENDED_JOINED) {
            continue;
        }
        if (*due <= io_now(boot->env) && has_come(boot, m)) {
            *due = BOOT_ENDED_JOINED;
            continue;
        }
        if (*due <= io_now(boot->env) && late == boot->n_members) {
            *due = WEFT_NEVER;
            late = m;
        }
        boot->ended_ns = *due < boot->ended_ns ? *due : boot->ended_ns;
    }
    return late;
}

static bool needs_all(const struct boot *boot)
{
    return boot->mesh != NULL ? boot->needs_all || mesh_needs_all(boot)
                              : boot->server != NULL && !boot->config.may_miss &&
                                    boot_server_gathers(boot);
}

/* Returns the lowest member that is needed for the next round, but has ended after it joined, and
 * cannot report that because no control stream leads to it; n_members if there is none. */
static uint32_t find_cut_off(const struct boot *boot)
{
    bool are_all_needed = needs_all(boot);

    for (uint32_t m = 0; are_all_needed && m < boot->n_members; m++) {
        const struct mesh_member *member =
            boot->mesh == NULL ? NULL : &boot->mesh->members[m];
        bool is_lacking = member == NULL ? boot_server_awaits(boot, m)
                                         : !member->is_reached && !member->is_absent &&
                                               member->gone == MESH_HERE;

        if (boot->due_ns[m] == BOOT_ENDED_JOINED && is_lacking) {
            return m;
        }
    }
    return boot->n_members;
}

/* Returns until when this client waits for rank 0 to report why a member ended, because no round
 * can be completed without that member. WEFT_NEVER if none ended, or in the first round, in which
 * only rank 0 knows whether the member has joined. */
static weft_ns unreported_end(const struct boot *boot)
{
    bool is_waiting = boot->client != NULL && !boot->config.may_miss && boot->is_active &&
                      boot->round > 1 && boot->client->state == BOOT_DIAL_JOINED;

    return is_waiting ? boot->unreported_ns : WEFT_NEVER;
}

static weft_status give_up_ended(struct boot *boot)
{
    const char *what = "ended before it came";
    uint32_t member = boot->n_members;
    weft_status status;

    if (boot->due_ns == NULL) {
        return WEFT_AGAIN;
    }
    if (io_now(boot->env) >= boot->ended_ns) {
        member = take_late(boot);
    }
    if (member == boot->n_members) {
        member = find_cut_off(boot);
        what = "ended, and no control stream leads to it";
        if (member < boot->n_members && boot->mesh != NULL &&
            (status = mesh_miss_silenced(boot)) != WEFT_AGAIN) {
            return status;
        }
    }
    if (member == boot->n_members && io_now(boot->env) >= unreported_end(boot)) {
        member = boot->first_ended;
        what = "ended, and rank 0 does not report why";
    }
    if (member == boot->n_members) {
        return WEFT_AGAIN;
    }
    if (boot->server != NULL && boot->config.may_miss) {
        boot_server_drop(boot, member);
        return WEFT_AGAIN;
    }
    if (boot->mesh != NULL) {
        status = mesh_blame(boot, WEFT_ERR_CLOSED, member, what);
    } else {
        status = boot_fail(boot, WEFT_ERR_CLOSED, member, what);
    }
    if (boot->server != NULL) {
        boot_server_notify_all(boot, member, what);
    }
    if (boot->client != NULL) {
        boot->error.sys_errno = boot->client->last_errno;
    }
    if (status < 0) {
        weft_error_int(&boot->error, WEFT_VALUE_ENDED, 1);
        weft_error_int(&boot->error, WEFT_VALUE_WAITED_NS,
                       io_now(boot->env) - boot->opened_ns);
    }
    return status;
}

/* ---- progress ---- */

static weft_status progress(struct boot *boot)
{
    if (boot->mesh != NULL) {
        return mesh_progress(boot);
    }
    return boot->server != NULL ? boot_server_progress(boot) : boot_client_progress(boot);
}

static weft_ns deadline_of(const struct boot *boot)
{
    if (boot->mesh != NULL) {
        return mesh_deadline(boot);
    }
    return boot->server != NULL ? boot_server_deadline(boot) : boot_client_deadline(boot);
}

static weft_ns deadline(const struct boot *boot)
{
    weft_ns at = deadline_of(boot), unreported = unreported_end(boot);

    at = unreported < at ? unreported : at;
    return boot->ended_ns < at ? boot->ended_ns : at;
}

/* Ends the wait for work of others in the last round once no rank is missing. A relay has no rows
 * of its own, and none to carry any more. */
static void expect_relays(struct boot *boot)
{
    weft_ns now;

    if (!boot->is_active || !boot->is_last) {
        return;
    }
    now = io_now(boot->env);
    if (boot->started_ns <= now) {
        return;
    }
    for (uint32_t r = 0; r < boot->config.n_ranks; r++) {
        if (r != boot->config.rank && boot_awaits(boot, r)) {
            return;
        }
    }
    boot->started_ns = now;
}

weft_status boot_progress(struct boot *boot, struct weft_error *error)
{
    weft_status status = boot->error.status;
    bool failed_before = status != WEFT_OK;

    if (!failed_before) {
        status = progress(boot);
        expect_relays(boot);
        status = status == WEFT_AGAIN ? give_up_ended(boot) : status;
    }
    if (status < 0) {
        if (!failed_before) {
            trace_failure(boot);
        }
        if (error != NULL && error->status == WEFT_OK) {
            *error = boot->error;
        }
        io_task_deadline(&boot->task, WEFT_NEVER);
        return status;
    }
    if (status == WEFT_OK && boot->is_active) {
        boot->is_active = false;
        weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                         "gathered", "round=%u each=%u ranks=%u", boot->round, boot->each,
                         boot->n_members);
    }
    if (status == WEFT_AGAIN && !boot->is_active && boot->round > 0) {
        status = WEFT_OK; /* still complete; the wake-up was spurious */
    }
    io_task_deadline(&boot->task, deadline(boot));
    return status;
}

const uint8_t *boot_result(const struct boot *boot)
{
    return boot->to_first && boot->config.rank != 0 ? NULL : boot->result;
}

int boot_accept_errno(const struct boot *boot)
{
    return boot->mesh != NULL     ? boot->mesh->door.short_errno
           : boot->server != NULL ? boot->server->door.short_errno
                                  : 0;
}

void boot_abort(struct boot *boot, const char *reason)
{
    if (boot->error.status == WEFT_OK) {
        if (boot->mesh != NULL) {
            mesh_give_up(boot, boot->config.rank, reason);
        } else if (boot->server != NULL) {
            boot_server_notify_all(boot, 0, reason);
        } else {
            boot_client_give_up(boot, reason);
        }
    }
    weft_fail(&boot->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "gave up here: %s", reason);
    weft_error_int(&boot->error, WEFT_VALUE_RANK, boot->config.rank);
    weft_error_text(&boot->error, WEFT_VALUE_REASON, reason);
}

void boot_close(struct boot *boot)
{
    if (boot == NULL) {
        return;
    }
    if (boot->mesh != NULL) {
        mesh_close(boot);
    }
    if (boot->server != NULL) {
        boot_server_close(boot);
    }
    if (boot->client != NULL) {
        boot_client_close(boot);
    }
    io_task_fini(&boot->task);
    auth_forget(boot->config.job_key, sizeof(boot->config.job_key));
    free(boot->due_ns);
    free(boot->mine);
    free(boot->result);
    free(boot);
}
