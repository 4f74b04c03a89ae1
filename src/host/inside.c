#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "host/private.h"

/* Returns, for each member, the first member with the same host ID. The caller frees the array. */
static uint32_t *find_hosts(const struct host *host)
{
    uint32_t n = host->config.n_members;
    uint32_t *host_of = weft_calloc((size_t)n + 1, sizeof(*host_of));

    for (uint32_t i = 0; i < n; i++) {
        host_of[i] = i;
        for (uint32_t k = 0; k < i; k++) {
            if (host_of[k] == k && memcmp(host->peers[i].host_id, host->peers[k].host_id,
                                          sizeof(host->peers[i].host_id)) == 0) {
                host_of[i] = k;
                break;
            }
        }
    }
    return host_of;
}

static weft_status open_inside(struct host *host, const uint32_t *host_of)
{
    uint32_t n = host->config.n_ranks;
    uint32_t *channels = weft_calloc(2 * (size_t)n + 1, sizeof(*channels));
    struct inside_config config = {.rank = host->config.rank,
                                   .n_ranks = n,
                                   .n_members = host->config.n_members,
                                   .host_of = host_of,
                                   .n_channels = host->config.mesh->n_channels,
                                   .task_kind = HOST_TASK_INSIDE,
                                   .patience = host->config.boot.patience,
                                   .merges_nics =
                                       host->config.conn.policy == WEFT_POLICY_NCCL_2_25};
    weft_status status = WEFT_OK;

    memcpy(config.job_key, host->config.boot.job_key, sizeof(config.job_key));
    if (host->config.rank < n) {
        status = host_jobs_channels(host, channels, channels + n);
        config.send_channels = channels;
        config.receive_channels = channels + n;
    }
    if (status == WEFT_OK) {
        status =
            inside_open(host->env, &config, &host->task, &host->inside, &host->error);
    }
    free(channels);
    return status;
}

weft_status host_inside_open(struct host *host)
{
    uint32_t *host_of = find_hosts(host);
    weft_status status = WEFT_OK;

    if (inside_is_needed(host_of, host->config.n_ranks)) {
        status = open_inside(host, host_of);
    }
    free(host_of);
    return status;
}

static weft_status blame(struct host *host, weft_status status)
{
    uint32_t peer = inside_error_peer(host->inside);

    if (status < 0) {
        host->error_peer = peer == UINT32_MAX ? HOST_NO_MEMBER : peer;
        host->error_is_hearsay = host_is_hearsay(&host->error);
    }
    return status;
}

weft_status host_inside_round(struct host *host)
{
    const uint8_t *bytes;
    size_t n_bytes;
    weft_status status = inside_round(host->inside, &bytes, &n_bytes, &host->error);

    if (status == WEFT_OK && n_bytes > 0) {
        boot_gather(host->boot, bytes, n_bytes);
    }
    host->private->is_gathered = status == WEFT_OK && n_bytes == 0;
    return blame(host, status);
}

weft_status host_inside_take(struct host *host)
{
    weft_status status = inside_take(host->inside, boot_result(host->boot), &host->error);

    return status == WEFT_OK ? host_inside_round(host) : blame(host, status);
}

bool host_inside_is_gathered(const struct host *host)
{
    return host->private->is_gathered;
}

void host_inside_why(const struct host *host, uint32_t rank,
                     char out[TRANSPORT_WHY_BYTES])
{
    const struct transport_choice *choice =
        host->inside == NULL ? NULL : inside_choice(host->inside, rank, true);

    if (choice != NULL) {
        transport_why(choice, out);
    } else {
        weft_format(out, TRANSPORT_WHY_BYTES, "net: another host");
    }
}

/* Returns the number of channels with a connector to `rank`. */
static uint32_t count_channels(const struct host *host, uint32_t rank)
{
    uint32_t n = 0;

    for (uint32_t c = 0; c < host->config.mesh->n_channels; c++) {
        n += inside_connector(host->inside, rank, true, c) != NULL;
    }
    return n;
}

/* Notes that memory of the GPU of `rank` could not be opened, if data go over shared memory of the
 * host because of it. */
static void note_fallback(struct host *host, uint32_t rank)
{
    const struct transport_choice *choice = inside_choice(host->inside, rank, true);
    struct host_left_out *out;

    if (choice == NULL || choice->kind != WEFT_TRANSPORT_SHM ||
        choice->reasons[WEFT_TRANSPORT_P2P] != TRANSPORT_NOT_OPENED) {
        return;
    }
    host->left_out = weft_realloc(host->left_out, ((size_t)host->n_left_out + 1) *
                                                      sizeof(*host->left_out));
    out = &host->left_out[host->n_left_out++];
    *out = (struct host_left_out){.peer = rank};
    weft_fail_errno(&out->why, choice->sys_errno, WEFT_PHASE_IPC,
                    "memory of the peer's GPU was not opened");
}

/* Notes the connectors inside the host for the report, one entry per rank. */
static void note_all(struct host *host)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        struct host_connection of = {.to = rank,
                                     .n_channels = count_channels(host, rank)};

        if (of.n_channels > 0) {
            of.transport = inside_choice(host->inside, rank, true)->kind;
            host_inside_why(host, rank, of.why);
            host_note(host, &of);
            note_fallback(host, rank);
        }
    }
}

weft_status host_inside_progress(struct host *host, struct io_task *task)
{
    weft_status status;
    bool was_up;

    if (host->inside == NULL) {
        return WEFT_OK;
    }
    was_up = inside_is_up(host->inside);
    status = blame(host, inside_progress(host->inside, task, &host->error));
    if (!was_up && inside_is_up(host->inside)) {
        note_all(host);
    }
    if (status < 0 && host->state == HOST_CLOSE) {
        host_forgive(host); /* it is no failure if a peer closes first */
        return WEFT_OK;
    }
    return host->state == HOST_CLOSE ? WEFT_OK : status;
}

bool host_inside_leaves(const struct host *host, uint32_t rank, bool is_sender)
{
    const struct transport_choice *choice =
        host->inside == NULL ? NULL : inside_choice(host->inside, rank, is_sender);

    return choice == NULL || choice->kind == WEFT_TRANSPORT_NET;
}

bool host_inside_is_up(const struct host *host)
{
    return host->inside == NULL || inside_is_up(host->inside);
}

void host_inside_stop(struct host *host)
{
    char reason[128];

    if (host->inside == NULL) {
        return;
    }
    weft_error_format(&host->error, reason, sizeof(reason));
    inside_stop(host->inside, host->error.status < 0 ? reason : NULL);
}
