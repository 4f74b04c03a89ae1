/* The boot of a rank other than 0: connects to the rendezvous, joins, sends its blobs and receives
 * results. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/private.h"
#include "io/oob.h"

void boot_client_open(struct boot *boot)
{
    struct boot_client *client = weft_calloc(1, sizeof(*client));

    boot->client = client;
    client->backoff_ns = BOOT_BACKOFF_NS;
    client->resume_ns = boot->config.may_miss ? boot->opened_ns + BOOT_AGAIN_NS : 0;
    auth_boot_key(boot->config.job_key, client->key);
    boot->env->ops->random(boot->env, &client->id, sizeof(client->id));
}

static void enter(struct boot *boot, enum boot_dial next)
{
    static const char *const names[] = {"idle", "tcp", "challenge", "joined"};
    struct boot_client *client = boot->client;

    weft_check(next == BOOT_DIAL_IDLE || next == client->state + 1);
    client->state = next;
    weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                     names[next], "rank=%u attempt=%u", boot->config.rank,
                     client->attempt);
}

/* Returns true if this process or machine lacks a resource, which can be temporary. */
static bool is_short(int error_number)
{
    return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
           error_number == ENOMEM;
}

/* Returns true if an interface of this host that is up has an address: one in the subnet of `peer`,
 * or, if that is NULL, one that is not link-local. */
static bool has_address(struct boot *boot, const struct io_ip *peer)
{
    const struct io_hostinfo *info = boot->env->ops->hostinfo(boot->env);

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        const struct io_netdev *netdev = &info->netdevs[i];

        for (uint32_t k = 0; netdev->is_up && k < netdev->n_addresses; k++) {
            const struct io_prefix *address = &netdev->addresses[k];

            if (peer == NULL
                    ? !io_ip_is_link_local(&address->ip)
                    : io_ip_same_subnet(&address->ip, peer, address->prefix_len)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_loopback(const struct io_ip *ip)
{
    static const uint8_t v6[16] = {[15] = 1};

    return io_ip_is_v4(ip) ? ip->bytes[12] == 127
                           : memcmp(ip->bytes, v6, sizeof(v6)) == 0;
}

/* Returns true if no connection from this host can reach rank 0. Without a route (ENETUNREACH) that
 * is so only if the host is on some network, because otherwise a network, and the route with it,
 * can still come up. */
static bool is_hopeless(struct boot *boot, int error_number)
{
    const struct boot_config *config = &boot->config;

    if (config->hopeless_ns == 0) {
        return false;
    }
    return error_number == ENETUNREACH
               ? has_address(boot, NULL)
               : error_number == ECONNREFUSED && config->first_is_elsewhere &&
                     is_loopback(&config->rendezvous.ip);
}

/* Returns true if rank 0's machine exists, as far as this host knows, but does not answer. If its
 * address is on a subnet of this host but the machine does not exist, an attempt soon fails with
 * EHOSTUNREACH instead: the kernel gives up resolving after 3 s, and within 20 s attempts last
 * longer than that. Behind a router the two cannot be distinguished. */
static bool is_ignored(struct boot *boot, int error_number)
{
    return boot->config.ignored_ns != 0 && error_number == ETIMEDOUT &&
           (boot->client->state == BOOT_DIAL_CHALLENGE ||
            has_address(boot, &boot->config.rendezvous.ip));
}

/* Ends the present attempt and schedules the next one after a pause. */
static weft_status retry(struct boot *boot, int error_number)
{
    struct boot_client *client = boot->client;
    weft_ns now = io_now(boot->env);
    /* Pause less if rank 0 listens but is overloaded, because an attempt then costs little. */
    bool is_crowded = client->state == BOOT_DIAL_CHALLENGE || error_number == ETIMEDOUT;
    weft_ns backoff_max_ns = is_crowded ? BOOT_BACKOFF_CROWD_NS : BOOT_BACKOFF_MAX_NS;

    frame_close(&client->stream.link, true);
    client->last_errno = error_number;
    client->short_ns = io_since(client->short_ns, is_short(error_number), now);
    client->refused_ns = io_since(client->refused_ns, error_number == ECONNREFUSED, now);
    client->hopeless_ns =
        io_since(client->hopeless_ns, is_hopeless(boot, error_number), now);
    client->ignored_ns =
        io_since(client->ignored_ns, is_ignored(boot, error_number), client->dialled_ns);
    if (client->state != BOOT_DIAL_IDLE) {
        enter(boot, BOOT_DIAL_IDLE);
    }
    client->resume_ns = now + client->backoff_ns;
    client->backoff_ns =
        2 * client->backoff_ns < backoff_max_ns ? 2 * client->backoff_ns : backoff_max_ns;
    return WEFT_AGAIN;
}

static weft_status dial(struct boot *boot)
{
    struct boot_client *client = boot->client;
    struct boot_stream *stream = &client->stream;
    struct io_stream *tcp = NULL;
    int result;

    if (io_now(boot->env) < client->resume_ns) {
        return WEFT_AGAIN;
    }
    client->attempt++;
    client->dialled_ns = io_now(boot->env);
    result = boot->env->oob->connect(boot->env, NULL, &boot->config.rendezvous,
                                     &boot->task, &tcp);
    if (result != 0) {
        return retry(boot, result);
    }
    frame_init(&stream->link, boot->env, tcp, AUTH_CONNECTOR, stream->rx,
               sizeof(stream->rx), stream->tx, sizeof(stream->tx));
    client->step_ns = io_now(boot->env) + prove_dial_ns(client->n_timeouts);
    enter(boot, BOOT_DIAL_TCP);
    return WEFT_OK;
}

static weft_status say_hello(struct boot *boot)
{
    struct boot_client *client = boot->client;
    struct codec_hello hello = {.id = client->id, .attempt = client->attempt};
    int result = boot->env->oob->connected(client->stream.link.stream);

    if (result == EAGAIN && io_now(boot->env) < client->step_ns) {
        return WEFT_AGAIN;
    }
    client->n_timeouts = result == EAGAIN ? client->n_timeouts + 1 : 0;
    if (result != 0) {
        return retry(boot, result == EAGAIN ? ETIMEDOUT : result);
    }
    memcpy(hello.host_id, io_host_id(boot->env), sizeof(hello.host_id));
    prove_hello(&client->stream.link, client->key, &hello, client->hello);
    client->step_ns = io_now(boot->env) + boot_limit(boot, BOOT_AUTHENTICATE_NS);
    enter(boot, BOOT_DIAL_CHALLENGE);
    return WEFT_OK;
}

static weft_status join(struct boot *boot)
{
    struct boot_client *client = boot->client;
    struct frame_link *link = &client->stream.link;
    struct message_join join = {.rank = boot->config.rank, .n_ranks = boot->n_members};
    struct weft_error why = {0};
    uint8_t body[CODEC_BODY_MAX];
    bool queued;
    weft_status status = frame_flush(link, &why);

    if (status == WEFT_OK) {
        status = prove_answer(link, client->key, client->hello, &why);
    }
    if (status == WEFT_AGAIN) {
        return io_now(boot->env) < client->step_ns ? WEFT_AGAIN : retry(boot, ETIMEDOUT);
    }
    if (status != WEFT_OK &&
        (why.phase == WEFT_PHASE_STREAM || prove_may_ask_after(&why))) {
        return retry(boot, why.sys_errno);
    }
    if (status != WEFT_OK) {
        boot->error = why;
        weft_error_int(&boot->error, WEFT_VALUE_RANK, 0);
        return status;
    }
    queued = frame_send(link, CODEC_JOIN, body, message_encode_join(&join, body));
    weft_check(queued);
    client->last_errno = 0;
    client->joined_ns = io_now(boot->env);
    boot->env->oob->endure(link->stream, boot_limit(boot, TIMER_STREAM_NS));
    enter(boot, BOOT_DIAL_JOINED);
    return WEFT_OK;
}

/* ---- joined ---- */

static void send_blob(struct boot *boot)
{
    struct boot_client *client = boot->client;
    uint8_t body[CODEC_BODY_MAX];

    while (boot->is_active && !client->blob_sent) {
        uint32_t left = boot->each - client->sent;
        struct message_blob blob = {
            .round = boot->round,
            .each = boot->each,
            .offset = client->sent,
            .n_bytes = left < MESSAGE_CHUNK_MAX ? left : MESSAGE_CHUNK_MAX,
            .bytes = boot->mine + client->sent,
        };

        if (!frame_send(&client->stream.link, CODEC_BLOB, body,
                        message_encode_blob(&blob, body))) {
            return;
        }
        client->sent += blob.n_bytes;
        client->blob_sent = client->sent == boot->each;
    }
}

static weft_status take_result(struct boot *boot, const struct frame *frame)
{
    struct boot_client *client = boot->client;
    struct message_blob blob;
    weft_status status = message_decode_blob(frame->body, frame->n_bytes, boot->n_members,
                                             &blob, &boot->error);

    if (status == WEFT_OK &&
        (!boot->is_active || !client->blob_sent || blob.round != boot->round ||
         blob.each != boot_result_each(boot) || blob.offset != client->received)) {
        status = codec_bad_field(&boot->error, WEFT_PHASE_BLOB, "round", blob.round,
                                 "not the piece that was due");
    }
    if (status != WEFT_OK) {
        weft_error_int(&boot->error, WEFT_VALUE_RANK, 0);
        return status;
    }
    memcpy(boot->result + blob.offset, blob.bytes, blob.n_bytes);
    client->received += blob.n_bytes;
    return client->received == boot_result_each(boot) * boot->n_members ? WEFT_OK
                                                                        : WEFT_AGAIN;
}

static weft_status told_to_give_up(struct boot *boot, const struct frame *frame)
{
    struct message_give_up give_up;
    weft_status status = message_decode_give_up(frame->body, frame->n_bytes,
                                                boot->n_members, &give_up, &boot->error);

    if (status != WEFT_OK) {
        weft_error_int(&boot->error, WEFT_VALUE_RANK, 0);
        return status;
    }
    status = weft_fail(&boot->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "rank %u: %s",
                       give_up.rank, give_up.reason);
    weft_error_int(&boot->error, WEFT_VALUE_RANK, give_up.rank);
    weft_error_text(&boot->error, WEFT_VALUE_REASON, give_up.reason);
    return status;
}

/* Handles one message. Returns WEFT_OK if it completes the gather. */
static weft_status take(struct boot *boot, const struct frame *frame)
{
    if (frame->type == CODEC_BLOB) {
        return take_result(boot, frame);
    }
    if (frame->type == CODEC_GIVE_UP) {
        return told_to_give_up(boot, frame);
    }
    if (frame->type == CODEC_BYE && frame->n_bytes == 0) {
        boot->client->server_left = true;
        return WEFT_AGAIN;
    }
    weft_fail(&boot->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_BOOT,
              "a %s message from rank 0", codec_type_name(frame->type));
    weft_error_int(&boot->error, WEFT_VALUE_RANK, 0);
    return WEFT_ERR_PROTOCOL;
}

static weft_status died(struct boot *boot)
{
    weft_status status = boot_fail(boot, WEFT_ERR_CLOSED, 0, "died: its stream ended");

    weft_error_int(&boot->error, WEFT_VALUE_STREAM_ENDED, 1);
    return status;
}

/* Fails because the stream to rank 0 ended for the reason `why`. */
static weft_status lost(struct boot *boot, const struct weft_error *why)
{
    if (frame_is_unanswered(why)) {
        weft_status status = boot_fail(boot, WEFT_ERR_TIMEOUT, 0, BOOT_CUT_OFF);

        boot->error.sys_errno = ETIMEDOUT;
        return status;
    }
    return boot->error.sys_errno == 0
               ? died(boot)
               : boot_fail(boot, WEFT_ERR_SYSTEM, 0,
                           "is cut off: a call on the stream to it failed here");
}

/* Connects again from the start. Rank 0 can still be in its previous rendezvous, where this rank
 * has joined already (may_miss), or it lost the stream before this rank was identified. */
static weft_status try_again(struct boot *boot)
{
    struct boot_client *client = boot->client;

    if (boot->error.status != WEFT_OK) {
        weft_format(client->why, sizeof(client->why), "%s", boot->error.message);
    }
    boot->error = (struct weft_error){0};
    client->sent = 0;
    client->received = 0;
    client->blob_sent = false;
    client->server_left = false;
    return retry(boot, EPROTO);
}

/* Returns true if rank 0, which has sent nothing after authentication, might have refused this rank
 * as an unknown client: for lack of memory or slots, or because JOIN did not arrive. If rank 0 died
 * instead, the next connection is refused. */
static bool may_be_unknown(const struct boot *boot)
{
    const struct boot_client *client = boot->client;

    return !boot->config.may_miss && boot->round == 1 && boot->is_active &&
           client->received == 0 && !client->server_left && client->lost_ns == 0;
}

static weft_status exchange(struct boot *boot)
{
    struct boot_client *client = boot->client;
    struct weft_error why = {0};
    struct frame frame = {.n_bytes = 0};
    weft_status status = WEFT_AGAIN, received;

    do {
        received = frame_receive(&client->stream.link, &frame, &why);
        if (received == WEFT_OK) {
            status = take(boot, &frame);
        }
    } while (received == WEFT_OK && status == WEFT_AGAIN);
    if (received == WEFT_AGAIN) {
        do {
            send_blob(boot);
            received = frame_flush(&client->stream.link, &why);
        } while (received == WEFT_OK && boot->is_active && !client->blob_sent);
    }
    if (status != WEFT_AGAIN) {
        return status;
    }
    if (received == WEFT_ERR_CLOSED && client->server_left && !boot->is_active) {
        return WEFT_AGAIN;
    }
    boot_own_errno(boot, &why);
    if ((received == WEFT_ERR_CLOSED ||
         (received == WEFT_ERR_PROTOCOL && prove_may_ask_again(&frame))) &&
        may_be_unknown(boot)) {
        client->lost_ns = io_now(boot->env);
        return try_again(boot);
    }
    if (received == WEFT_ERR_CLOSED) {
        if (client->server_left) {
            return boot_fail(boot, WEFT_ERR_CLOSED, 0, "left");
        }
        return lost(boot, &why);
    }
    if (received < 0) {
        boot->error = why;
        weft_error_int(&boot->error, WEFT_VALUE_RANK, 0);
        return received;
    }
    return WEFT_AGAIN;
}

/* Returns the earlier of `end` and `since` + `limit_ns`; `end` if `since` is 0. */
static weft_ns lowered(weft_ns end, weft_ns since, weft_ns limit_ns)
{
    return since != 0 && since + limit_ns < end ? since + limit_ns : end;
}

/* Returns the time at which a client that has not joined gives up. */
static weft_ns end_of_calls(const struct boot *boot)
{
    const struct boot_client *client = boot->client;
    const struct boot_config *config = &boot->config;
    weft_ns end = boot->opened_ns + config->patience_ns;

    if (client->lost_ns != 0) {
        return client->last_errno == ECONNREFUSED
                   ? 0
                   : client->lost_ns + boot_limit(boot, BOOT_GONE_NS);
    }
    end = lowered(end, client->short_ns, config->step_ns);
    end = lowered(end, client->hopeless_ns, config->hopeless_ns);
    end = lowered(end, client->ignored_ns, config->ignored_ns);
    return config->may_miss
               ? lowered(end, client->refused_ns, boot_limit(boot, BOOT_GONE_NS))
               : end;
}

/* Returns the time at which rank 0 counts as missing. It is later than rank 0's own limits, so that
 * rank 0 can first report which rank is late. Rank 0's patience began before this rank joined. */
static weft_ns limit(const struct boot *boot)
{
    weft_ns patience =
        boot->client->joined_ns + boot->config.patience_ns + boot->config.step_ns;
    weft_ns step = boot->started_ns + 2 * boot->config.step_ns;

    if (boot->client->state != BOOT_DIAL_JOINED) {
        return end_of_calls(boot);
    }
    if (!boot->is_active) {
        return WEFT_NEVER;
    }
    return boot->round == 1 && patience > step ? patience : step;
}

/* Fails because rank 0 is missing. */
static weft_status is_missing(struct boot *boot)
{
    struct boot_client *client = boot->client;
    char what[WEFT_LENGTH(boot->error.message)];
    weft_status status;

    weft_format(what, sizeof(what), "%s%s%s",
                client->state == BOOT_DIAL_JOINED ? "does not answer"
                                                  : "cannot be reached",
                client->why[0] == '\0' ? "" : "; an attempt ended with: ", client->why);
    status = boot_fail(boot, WEFT_ERR_TIMEOUT, 0, what);
    weft_error_text(&boot->error, WEFT_VALUE_MISSING, "0");
    boot->error.sys_errno = client->last_errno;
    return status;
}

weft_status boot_client_progress(struct boot *boot)
{
    struct boot_client *client = boot->client;
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && client->state != BOOT_DIAL_JOINED) {
        switch (client->state) {
        case BOOT_DIAL_IDLE:
            status = dial(boot);
            break;
        case BOOT_DIAL_TCP:
            status = say_hello(boot);
            break;
        case BOOT_DIAL_CHALLENGE:
            status = join(boot);
            break;
        case BOOT_DIAL_JOINED:
            break;
        }
    }
    if (client->state == BOOT_DIAL_JOINED && status >= 0) {
        status = exchange(boot);
    }
    if (status < 0 && boot->config.may_miss && boot->round <= 1 && boot->is_active) {
        status = try_again(boot);
    }
    if (status == WEFT_AGAIN && client->lost_ns != 0 &&
        client->state != BOOT_DIAL_JOINED && io_now(boot->env) >= limit(boot)) {
        return died(boot);
    }
    return status == WEFT_AGAIN && io_now(boot->env) >= limit(boot) ? is_missing(boot)
                                                                    : status;
}

void boot_client_gather(struct boot *boot)
{
    boot->client->sent = 0;
    boot->client->received = 0;
    boot->client->blob_sent = false;
}

void boot_client_give_up(struct boot *boot, const char *reason)
{
    struct message_give_up give_up = {.rank = boot->config.rank};
    uint8_t body[CODEC_BODY_MAX];

    if (boot->client->state != BOOT_DIAL_JOINED) {
        return; /* no member knows of this rank yet */
    }
    weft_format(give_up.reason, sizeof(give_up.reason), "%s", reason);
    if (frame_send(&boot->client->stream.link, CODEC_GIVE_UP, body,
                   message_encode_give_up(&give_up, body)) &&
        frame_flush(&boot->client->stream.link, NULL) < 0) {
        return; /* rank 0 is gone */
    }
}

void boot_client_close(struct boot *boot)
{
    struct frame_link *link = &boot->client->stream.link;

    if (boot->client->state == BOOT_DIAL_JOINED && boot->error.status == WEFT_OK &&
        frame_send(link, CODEC_BYE, NULL, 0) && frame_flush(link, NULL) < 0) {
        boot->client->server_left = true;
    }
    frame_close(link, false);
    auth_forget(boot->client->key, sizeof(boot->client->key));
    free(boot->client);
    boot->client = NULL;
}

weft_ns boot_client_deadline(const struct boot *boot)
{
    const struct boot_client *client = boot->client;
    weft_ns at = limit(boot);
    weft_ns step = WEFT_NEVER;

    if (client->state == BOOT_DIAL_IDLE) {
        step = client->resume_ns;
    } else if (client->state != BOOT_DIAL_JOINED) {
        step = client->step_ns;
    }
    return step < at ? step : at;
}
