#include "boot/boot.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/private.h"

weft_status boot_fail(struct boot *boot, weft_status status, uint32_t rank,
                      const char *message)
{
    weft_fail(&boot->error, status, "boot", "rank %u %s", rank, message);
    weft_error_object(&boot->error, "rank %u of %u", boot->config.rank,
                      boot->config.n_ranks);
    weft_error_int(&boot->error, "rank", rank);
    return boot->error.status;
}

weft_status boot_open(struct io_env *env, const struct boot_config *config, int task_kind,
                      struct boot **out, struct weft_error *error)
{
    struct boot *boot;
    weft_status status = WEFT_OK;

    *out = NULL;
    if (config->n_ranks == 0 || config->rank >= config->n_ranks) {
        return weft_fail(error, WEFT_ERR_INPUT, "boot", "rank %u of %u", config->rank,
                         config->n_ranks);
    }
    boot = weft_calloc(1, sizeof(*boot));
    io_task_init(&boot->task, env->loop, env->host, task_kind);
    boot->env = env;
    boot->config = *config;
    boot->opened_ns = io_now(env);
    if (config->rank == 0) {
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

void boot_gather(struct boot *boot, const void *mine, size_t n_bytes)
{
    weft_check(!boot->is_active);
    weft_check(n_bytes <= BOOT_BLOB_MAX);
    boot->is_active = true;
    boot->round++;
    boot->started_ns = io_now(boot->env);
    boot->each = (uint32_t)n_bytes;
    boot->mine = weft_realloc(boot->mine, n_bytes + 1);
    if (n_bytes > 0) {
        memcpy(boot->mine, mine, n_bytes);
    }
    boot->result = weft_realloc(boot->result, boot->config.n_ranks * n_bytes + 1);
    if (boot->server != NULL) {
        boot_server_gather(boot);
    } else {
        boot_client_gather(boot);
    }
    io_task_wake(&boot->task);
}

static void trace_failure(const struct boot *boot)
{
    const struct weft_value *rank = weft_error_value(&boot->error, "rank");

    weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                     "failed", "rank=%lld status=%s",
                     rank == NULL ? -1 : (long long)rank->number,
                     weft_status_name(boot->error.status));
}

weft_status boot_progress(struct boot *boot, struct weft_error *error)
{
    weft_status status = boot->error.status;
    bool failed_before = status != WEFT_OK;
    weft_ns next;

    if (!failed_before) {
        status = boot->server != NULL ? boot_server_progress(boot)
                                      : boot_client_progress(boot);
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
                         boot->config.n_ranks);
    }
    if (status == WEFT_AGAIN && !boot->is_active && boot->round > 0) {
        status = WEFT_OK; /* still complete: a wake-up may have come late */
    }
    next = boot->server != NULL ? boot_server_deadline(boot) : boot_client_deadline(boot);
    io_task_deadline(&boot->task, next);
    return status;
}

const uint8_t *boot_result(const struct boot *boot)
{
    return boot->result;
}

void boot_abort(struct boot *boot, const char *reason)
{
    if (boot->error.status == WEFT_OK) {
        if (boot->server != NULL) {
            boot_server_tell_all(boot, 0, reason);
        } else {
            boot_client_give_up(boot, reason);
        }
    }
    weft_fail(&boot->error, WEFT_ERR_CLOSED, "boot", "gave up here: %s", reason);
    weft_error_int(&boot->error, "rank", boot->config.rank);
    weft_error_text(&boot->error, "reason", reason);
}

void boot_close(struct boot *boot)
{
    if (boot == NULL) {
        return;
    }
    if (boot->server != NULL) {
        boot_server_close(boot);
    }
    if (boot->client != NULL) {
        boot_client_close(boot);
    }
    io_task_fini(&boot->task);
    auth_forget(boot->config.job_key, sizeof(boot->config.job_key));
    free(boot->mine);
    free(boot->result);
    free(boot);
}
