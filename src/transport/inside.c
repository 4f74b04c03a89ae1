#include "transport/inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "nccl/policies.h"
#include "transport/inside_private.h"

/* Returns the number of ranks on the host whose first member is `first`, and writes them to
 * `out` unless it is NULL. */
static uint32_t ranks_of(const uint32_t *host_of, uint32_t n_ranks, uint32_t first,
                         uint32_t *out)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        if (host_of[rank] == first) {
            if (out != NULL) {
                out[n] = rank;
            }
            n++;
        }
    }
    return n;
}

static uint32_t most_locals(const uint32_t *host_of, uint32_t n_ranks)
{
    uint32_t *n_of = weft_calloc((size_t)n_ranks + 1, sizeof(*n_of));
    uint32_t most = 0;

    for (uint32_t rank = 0; rank < n_ranks; rank++) {
        uint32_t first = host_of[rank];

        if (first < n_ranks && ++n_of[first] > most) {
            most = n_of[first];
        }
    }
    free(n_of);
    return most;
}

bool inside_is_needed(const uint32_t *host_of, uint32_t n_ranks)
{
    return most_locals(host_of, n_ranks) > 1;
}

/* ---- opening ---- */

static const char *get_setting(void *context, const char *name)
{
    struct io_env *env = context;

    return env->ops->setting(env, name);
}

/* Returns NCCL_BUFFSIZE per step, rounded down to whole pages and clamped to the limits. In NCCL -2
 * means the default; here every number below 1 does. */
static uint32_t step_bytes(const struct inside *inside)
{
    struct io_env *env = inside->env;
    int64_t n = nccl_number(env->ops->setting(env, "NCCL_BUFFSIZE"), 0);

    n = n <= 0 ? (int64_t)inside->config.buffer_bytes : n;
    n = (n == 0 ? STEPS_BUFFER_BYTES : n) / STEPS_N / STEPS_BYTES_MIN * STEPS_BYTES_MIN;
    n = n < STEPS_BYTES_MIN ? STEPS_BYTES_MIN : n;
    return (uint32_t)(n > STEPS_BYTES_MAX ? STEPS_BYTES_MAX : n);
}

static uint32_t *copy_channels(const uint32_t *from, uint32_t n)
{
    uint32_t *out = weft_calloc((size_t)n + 1, sizeof(*out));

    if (from != NULL) {
        memcpy(out, from, n * sizeof(*out));
    }
    return out;
}

static void copy_config(struct inside *inside, const struct inside_config *config)
{
    uint32_t n = config->n_members;

    inside->config = *config;
    inside->host_of = weft_calloc((size_t)n + 1, sizeof(*inside->host_of));
    memcpy(inside->host_of, config->host_of, n * sizeof(*inside->host_of));
    inside->config.n_channels = config->n_channels == 0 ? 1 : config->n_channels;
    weft_check(inside->config.n_channels <= 32);
    inside->send_channels = copy_channels(config->send_channels, config->n_ranks);
    inside->receive_channels = copy_channels(config->receive_channels, config->n_ranks);
    inside->locals = weft_calloc((size_t)config->n_ranks + 1, sizeof(*inside->locals));
    if (config->rank < config->n_ranks) {
        inside->n_locals = ranks_of(inside->host_of, config->n_ranks,
                                    inside->host_of[config->rank], inside->locals);
    }
    inside->self = inside_place(inside, config->rank);
    inside->n_locals_max = most_locals(inside->host_of, config->n_ranks);
}

static void open_tables(struct inside *inside)
{
    uint32_t n = inside->n_locals;
    size_t n_links = 2 * (size_t)n * inside->config.n_channels;
    struct io_env *env = inside->env;

    inside->n_pending = INSIDE_PENDING_MIN + 2 * (uint32_t)n_links;
    inside->pending = weft_calloc(inside->n_pending, sizeof(*inside->pending));
    inside->facts = weft_calloc((size_t)n + 1, sizeof(*inside->facts));
    inside->peers =
        weft_calloc((size_t)inside->config.n_members + 1, sizeof(*inside->peers));
    inside->links = weft_calloc(n_links + 1, sizeof(struct inside_link *));
    inside->order = weft_calloc(n_links + 1, sizeof(*inside->order));
    inside->peers_ipc = weft_calloc((size_t)n + 1, sizeof(struct inside_ipc *));
    inside->streams = weft_calloc(2 * (size_t)n + 1, sizeof(struct inside_stream *));
    io_task_init(&inside->door, env->loop, env->host, inside->config.task_kind);
}

weft_status inside_open(struct io_env *env, const struct inside_config *config,
                        struct io_task *task, struct inside **out,
                        struct weft_error *error)
{
    struct inside *inside = weft_calloc(1, sizeof(*inside));
    weft_status status = WEFT_OK;

    inside->env = env;
    inside->task = task;
    inside->error_peer = UINT32_MAX;
    copy_config(inside, config);
    inside->step_bytes = step_bytes(inside);
    topo_settings_read(topo_rules_find("2.25"), get_setting, env, &inside->settings);
    auth_hkdf("weft inside", 11, config->job_key, sizeof(config->job_key), "proxy", 5,
              inside->identity.key);
    open_tables(inside);
    inside->proxy = proxy_create(env, config->rank);
    status = inside_ipc_open(inside, error);
    if (status == WEFT_OK && inside->n_locals > 1) {
        status = inside_listen(inside, error);
    }
    *out = inside;
    if (status != WEFT_OK) {
        inside_destroy(inside);
        *out = NULL;
    }
    return status;
}

void inside_destroy(struct inside *inside)
{
    if (inside == NULL) {
        return;
    }
    if (inside->state != INSIDE_CLOSED && inside->state != INSIDE_FAILED) {
        inside_stop(inside, NULL);
    }
    inside_ipc_fini(inside);
    proxy_destroy(inside->proxy);
    topo_free(inside->system);
    free(inside->host_of);
    free(inside->send_channels);
    free(inside->receive_channels);
    free(inside->pending);
    free(inside->locals);
    free(inside->facts);
    free(inside->peers);
    for (uint32_t i = 0; i < 2 * inside->n_locals * inside->config.n_channels; i++) {
        free(inside->links[i]);
    }
    for (uint32_t i = 0; i < 2 * inside->n_locals; i++) {
        free(inside->streams[i]);
    }
    free(inside->links);
    free(inside->order);
    free(inside->streams);
    free(inside->strangers);
    free(inside->round_bytes);
    auth_forget(&inside->identity, sizeof(inside->identity));
    free(inside);
}

/* ---- progress ---- */

static weft_status progress_streams(struct inside *inside, const struct io_task *task)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < 2 * inside->n_locals && status == WEFT_OK; i++) {
        struct inside_stream *stream = inside->streams[i];

        if (stream != NULL && (task == NULL || task == &stream->task)) {
            status = inside_stream_progress(stream);
        }
    }
    return status;
}

/* Returns true once every peer has stopped its stream to this proxy. Until then a peer can still
 * send requests. */
static bool all_stopped(const struct inside *inside)
{
    for (uint32_t i = 0; i < 2 * inside->n_locals; i++) {
        const struct inside_stream *stream = inside->streams[i];

        if (stream != NULL && stream->state == INSIDE_STREAM_OPEN &&
            stream->rank != UINT32_MAX) {
            return false;
        }
    }
    return true;
}

static bool links_are_up(const struct inside *inside)
{
    for (uint32_t i = 0; i < inside->n_links; i++) {
        const struct inside_link *link = inside_link_at(inside, i);

        /* The bell needs a stream, even if set-up needed none. */
        if (link != NULL && (link->state != INSIDE_LINK_UP ||
                             inside->streams[inside_place(inside, link->peer)]->state !=
                                 INSIDE_STREAM_OPEN)) {
            return false;
        }
    }
    return true;
}

/* Closes the connectors whose steps this rank owns, or those whose steps are the peer's. */
static void close_links(struct inside *inside, bool is_owner)
{
    for (uint32_t i = 0; i < inside->n_links; i++) {
        struct inside_link *link = inside_link_at(inside, i);

        if (link != NULL && link->is_owner == is_owner) {
            inside_link_close(link);
        }
    }
}

static void end(struct inside *inside)
{
    close_links(inside, true);
    inside_streams_close(inside, false);
    io_task_fini(&inside->door);
    inside_enter(inside, INSIDE_CLOSED);
}

weft_status inside_progress(struct inside *inside, struct io_task *task,
                            struct weft_error *error)
{
    weft_status status;

    if (inside->state == INSIDE_CLOSED || inside->state == INSIDE_FAILED) {
        return WEFT_OK;
    }
    if (inside->listener != NULL && (task == NULL || task == &inside->door)) {
        inside_welcome(inside);
    }
    status = progress_streams(inside, task);
    if (status == WEFT_OK && inside->state == INSIDE_CONNECT) {
        status = inside_links_progress(inside);
    }
    if (status == WEFT_OK && inside->state < INSIDE_CLOSING) {
        status = inside_serve_pending(inside);
        inside_ipc_progress(inside);
    }
    if (status == WEFT_OK && inside->state == INSIDE_CONNECT && links_are_up(inside)) {
        inside_enter(inside, INSIDE_UP);
    }
    if (status == WEFT_OK && inside->state == INSIDE_CLOSING && all_stopped(inside)) {
        end(inside);
    }
    if (status < 0) {
        *error = inside->error;
    }
    return status;
}

uint32_t inside_error_peer(const struct inside *inside)
{
    return inside->error_peer;
}

bool inside_is_up(const struct inside *inside)
{
    return inside->state == INSIDE_UP;
}

static struct inside_link *find(const struct inside *inside, uint32_t peer,
                                bool is_sender, uint32_t channel)
{
    uint32_t place = inside_place(inside, peer);

    if (place == UINT32_MAX || place == inside->self ||
        channel >= inside->config.n_channels) {
        return NULL;
    }
    return inside->links[inside_link_index(inside, place, is_sender, channel)];
}

const struct transport_choice *inside_choice(const struct inside *inside, uint32_t peer,
                                             bool is_sender)
{
    const struct transport_choice *first = NULL;

    for (uint32_t c = 0; c < inside->config.n_channels; c++) {
        const struct inside_link *link = find(inside, peer, is_sender, c);

        if (link != NULL && link->has_fallen) {
            return &link->choice;
        }
        first = link != NULL && first == NULL ? &link->choice : first;
    }
    return first;
}

struct transport_connector *inside_connector(struct inside *inside, uint32_t peer,
                                             bool is_sender, uint32_t channel)
{
    struct inside_link *link = find(inside, peer, is_sender, channel);

    return link == NULL || link->state != INSIDE_LINK_UP ? NULL : &link->connector;
}

/* ---- ending ---- */

static void call_all(struct inside *inside, const struct proxy_call *call)
{
    for (uint32_t place = 0; place < inside->n_locals; place++) {
        if (inside->streams[place] != NULL) {
            (void)inside_ask(inside, place, call);
        }
    }
}

void inside_close(struct inside *inside)
{
    const struct proxy_call stop = {.type = PROXY_STOP};

    if (inside->state >= INSIDE_CLOSING) {
        return;
    }
    inside_enter(inside, INSIDE_CLOSING);
    inside_ipc_stop(inside);
    /* GPU memory must not be freed while another process has it open (cuIpcCloseMemHandle), and a
     * receiver may still copy from the sender's steps. So this rank's own steps are kept until the
     * peers have closed them and sent STOP. */
    close_links(inside, false);
    call_all(inside, &stop);
    for (uint32_t place = 0; place < inside->n_locals; place++) {
        struct inside_stream *stream = inside->streams[place];

        if (stream != NULL && stream->state == INSIDE_STREAM_OPEN) {
            frame_close(&stream->link, false);
            stream->state = INSIDE_STREAM_STOPPED;
        }
    }
}

bool inside_is_closed(const struct inside *inside)
{
    return inside->state == INSIDE_CLOSED || inside->state == INSIDE_FAILED;
}

void inside_stop(struct inside *inside, const char *reason)
{
    struct proxy_call call = {.type = PROXY_ABORT, .rank = inside->config.rank};

    if (inside_is_closed(inside)) {
        return;
    }
    if (reason != NULL) {
        weft_format(call.reason, sizeof(call.reason), "%s", reason);
        for (char *c = call.reason; *c != '\0'; c++) {
            *c = *c < ' ' || *c > '~' ? '?' : *c;
        }
        call_all(inside, &call);
    }
    inside_ipc_stop(inside);
    inside_streams_close(inside, false);
    io_task_fini(&inside->door);
    inside_enter(inside, INSIDE_FAILED);
}
