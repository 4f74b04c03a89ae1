/* Authenticates the clients of a listener and makes connections of them: HELLO, CHALLENGE, AUTH,
 * FACTS. All steps share one deadline. Until a client has proved that it knows the key, at most 64
 * received bytes are held for it. */
#include "conn/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "conn/private.h"
#include "conn/prove.h"
#include "io/oob.h"

#define ACCEPTS_MAX 256

struct conn *conn_from_client(struct rdma *rdma, const struct conn_config *config,
                              int task_kind, struct frame_link *link,
                              const struct codec_hello *hello,
                              const struct codec_facts *facts, struct weft_error *error)
{
    struct conn *conn = conn_new(rdma, config, task_kind, false);
    struct conn_private *private = conn->private;
    struct codec_facts own;
    uint8_t body[CODEC_BODY_MAX];
    weft_status status = WEFT_OK;

    conn->id = hello->id;
    frame_move(link, private->rx, sizeof(private->rx), private->tx, sizeof(private->tx));
    private->link = *link;
    link->stream = NULL;
    private->deadline_ns = io_now(rdma->env) + config->total_ns;
    conn_watch_peer(conn);
    private->got |= UINT64_C(1) << CODEC_FACTS;
    rdma->env->oob->set_task(private->link.stream, &conn->task);
    conn_enter(conn, CONN_AUTH);
    if (memcmp(facts->peer.host_id, hello->host_id, sizeof(hello->host_id)) != 0) {
        status = codec_bad_field(&conn->error, WEFT_PHASE_FACTS, "host_id", 0,
                                 "other than in HELLO");
    }
    if (status == WEFT_OK) {
        status = conn_take_facts(conn, facts);
    }
    if (status == WEFT_OK) {
        conn_facts_body(conn, &own);
        status = conn_send(conn, CODEC_FACTS, body, codec_encode_facts(&own, body));
    }
    if (status != WEFT_OK) {
        conn_fail(conn);
        if (error->status == WEFT_OK) {
            *error = conn->error;
        }
        conn_destroy(conn);
        return NULL;
    }
    conn_enter(conn, CONN_META);
    io_task_wake(&conn->task);
    return conn;
}

void client_start(struct client *client, struct io_env *env, struct io_stream *stream,
                  weft_ns deadline_ns)
{
    *client = (struct client){.state = CLIENT_HELLO, .deadline_ns = deadline_ns};
    env->oob->endpoints(stream, NULL, &client->source);
    frame_init(&client->link, env, stream, AUTH_LISTENER, client->rx, sizeof(client->rx),
               client->tx, sizeof(client->tx));
}

/* Clients are counted per source, by a hash of the address under the listener's key. */
enum { SOURCE_BUCKETS = 1024 };

static uint32_t bucket_of(const struct client_identity *identity,
                          const struct io_ip *source)
{
    return (uint32_t)auth_bucket(identity->key, source->bytes, sizeof(source->bytes)) %
           SOURCE_BUCKETS;
}

/* Degree to which a client has shown that it knows the key. */
enum shown {
    SHOWN_NOTHING,
    SHOWN_HELLO,   /* sent a HELLO, which needs no key */
    SHOWN_VOUCHER, /* sent a HELLO that was made with the key, or a copy of one */
    SHOWN_PROOF    /* authenticated */
};

static enum shown shown_by(const struct client *client)
{
    if (client->state == CLIENT_HELLO) {
        return SHOWN_NOTHING;
    }
    if (client->state == CLIENT_AUTH) {
        return client->is_vouched ? SHOWN_VOUCHER : SHOWN_HELLO;
    }
    return SHOWN_PROOF;
}

/* The clients among which one must be refused to free a slot. */
struct crowd {
    const struct client_identity *identity;
    enum shown up_to; /* clients that have shown more keep their slots */
    uint16_t of_source[SOURCE_BUCKETS]; /* number of clients of each source */
    uint16_t most;                      /* largest number of clients of one source */
    uint32_t bucket;                    /* source of the new client */
    bool is_newcomers;                  /* the new client's source must give up a slot */
    enum shown least;      /* the least that a client of the crowd has shown */
    uint32_t n_with_least; /* number of clients that have shown `least` */
};

/* Returns true if the client belongs to the crowd: it has shown at most `up_to`, and its source
 * must give up a slot. */
static bool is_of_crowd(const struct crowd *crowd, const struct client *client)
{
    uint32_t bucket;

    if (shown_by(client) > crowd->up_to) {
        return false;
    }
    bucket = bucket_of(crowd->identity, &client->source.ip);
    return crowd->is_newcomers ? bucket == crowd->bucket
                               : crowd->of_source[bucket] == crowd->most;
}

static void count_sources(struct crowd *crowd, const struct client *clients, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (shown_by(&clients[i]) <= crowd->up_to) {
            uint32_t bucket = bucket_of(crowd->identity, &clients[i].source.ip);
            uint16_t count = ++crowd->of_source[bucket];

            crowd->most = count > crowd->most ? count : crowd->most;
        }
    }
    /* The new client counts, so a source with as many clients as the largest one gives up a slot of
     * its own. */
    crowd->is_newcomers = crowd->of_source[crowd->bucket] > 0 &&
                          crowd->of_source[crowd->bucket] + 1 >= crowd->most;
}

static void count_least(struct crowd *crowd, const struct client *clients, uint32_t n)
{
    crowd->least = SHOWN_PROOF;
    for (uint32_t i = 0; i < n; i++) {
        if (is_of_crowd(crowd, &clients[i]) && shown_by(&clients[i]) <= crowd->least) {
            bool is_lower = shown_by(&clients[i]) < crowd->least;

            crowd->n_with_least = is_lower ? 1 : crowd->n_with_least + 1;
            crowd->least = shown_by(&clients[i]);
        }
    }
}

int client_accept(struct io_env *env, struct io_listener *listener, struct io_task *task,
                  uint32_t *n, struct io_stream **out)
{
    int result = EINTR;

    while ((result == EINTR || result == ECONNABORTED) && *n < ACCEPTS_MAX) {
        result = env->oob->accept(listener, task, out);
        ++*n;
    }
    if (result == EINTR || result == ECONNABORTED) {
        io_task_wake(task);
        return EAGAIN;
    }
    return result;
}

struct client *client_place(struct client *clients, uint32_t n_clients,
                            struct io_env *env, const struct client_identity *identity,
                            const struct io_ip *source)
{
    struct client *free_one = client_find(clients, n_clients, CLIENT_NONE);
    struct crowd crowd = {.n_with_least = 0};
    uint32_t chosen;

    if (free_one != NULL) {
        return free_one;
    }
    for (enum shown up_to = SHOWN_HELLO; up_to < SHOWN_PROOF && crowd.n_with_least == 0;
         up_to++) {
        crowd = (struct crowd){
            .identity = identity, .up_to = up_to, .bucket = bucket_of(identity, source)};
        count_sources(&crowd, clients, n_clients);
        count_least(&crowd, clients, n_clients);
    }
    if (crowd.n_with_least == 0) {
        return NULL;
    }
    env->ops->random(env, &chosen, sizeof(chosen));
    chosen %= crowd.n_with_least;
    for (uint32_t i = 0;; i++) {
        if (is_of_crowd(&crowd, &clients[i]) && shown_by(&clients[i]) == crowd.least &&
            chosen-- == 0) {
            return &clients[i];
        }
    }
}

struct client *client_find(struct client *clients, uint32_t n_clients,
                           enum client_state state)
{
    for (uint32_t i = 0; i < n_clients; i++) {
        if (clients[i].state == state) {
            return &clients[i];
        }
    }
    return NULL;
}

void client_fini(struct client *client, bool reset)
{
    frame_close(&client->link, reset);
    auth_forget(client->session, sizeof(client->session));
    free(client->member);
    client->member = NULL;
    client->state = CLIENT_NONE;
}

void client_refuse(struct client *client, const struct weft_error *error)
{
    const struct weft_value *field = weft_error_value(error, WEFT_VALUE_FIELD);
    bool stranger = field != NULL && strcmp(field->text, "magic") == 0;
    struct codec_abort abort = {.status = error->status,
                                .sys_errno = (uint32_t)error->sys_errno};
    uint8_t body[CODEC_BODY_MAX];

    if (!stranger && client->link.stream != NULL && error->status != WEFT_ERR_CLOSED) {
        weft_format(abort.phase, sizeof(abort.phase), "%s",
                    weft_phase_name(error->phase));
        if (frame_send(&client->link, CODEC_ABORT, body,
                       codec_encode_abort(&abort, body)) &&
            frame_flush(&client->link, NULL) < 0) {
            stranger = true; /* the stream is broken, so reset it */
        }
    }
    client_fini(client, stranger);
}

static weft_status unexpected(const struct frame *frame, enum weft_phase wanted,
                              struct weft_error *error)
{
    weft_status status =
        weft_fail(error, WEFT_ERR_PROTOCOL, wanted, "a %s message instead of %s",
                  codec_type_name(frame->type), weft_phase_name(wanted));

    weft_error_text(error, WEFT_VALUE_FIELD, "type");
    return status;
}

/* Returns true if the client rejects what this listener sent: its proof, a message, or a version. A
 * relay reports failures of other connections in the same way. */
static bool is_rejected(const struct codec_abort *abort)
{
    return abort->status == WEFT_ERR_AUTH ||
           ((abort->status == WEFT_ERR_PROTOCOL ||
             abort->status == WEFT_ERR_UNSUPPORTED) &&
            weft_phase_find(abort->phase) != WEFT_PHASE_RELAY);
}

/* Fails with the contents of the client's ABORT. Adds the value "gave_up" unless the client rejects
 * what this listener sent. */
static weft_status gave_up(const struct frame *frame, struct weft_error *error)
{
    struct codec_abort abort;
    weft_status status = codec_decode_abort(frame->body, frame->n_bytes, &abort, error);

    if (status != WEFT_OK) {
        return status;
    }
    if (abort.status == WEFT_ERR_AUTH) {
        return weft_fail(error, abort.status, WEFT_PHASE_AUTH,
                         "the client does not accept this listener's proof");
    }
    status =
        weft_fail(error, abort.status, WEFT_PHASE_AUTH, "the client gave up: %s in %s",
                  weft_status_name(abort.status), abort.phase);
    if (!is_rejected(&abort)) {
        weft_error_text(error, WEFT_VALUE_GAVE_UP, abort.phase);
    }
    return status;
}

/* Handles HELLO: sends CHALLENGE, with a nonce and the proof that this listener knows the key. */
static weft_status challenge(struct client *client,
                             const struct client_identity *identity,
                             const struct frame *frame, struct weft_error *error)
{
    struct io_env *env = client->link.env;
    struct codec_challenge challenge;
    uint8_t body[CODEC_CHALLENGE_BYTES];
    weft_status status =
        codec_decode_hello(frame->body, frame->n_bytes, &client->hello, error);
    size_t whole = CODEC_HEADER_BYTES + CODEC_CHALLENGE_BYTES;
    const uint8_t *sent;
    bool queued;

    if (status != WEFT_OK) {
        return status;
    }
    if (client->hello.epoch != identity->epoch) {
        return weft_fail(error, WEFT_ERR_AUTH, WEFT_PHASE_STALE,
                         "a handle of another listener");
    }
    env->ops->random(env, challenge.nonce, sizeof(challenge.nonce));
    auth_prove(identity->key, AUTH_LISTENER, frame->bytes, frame->whole_bytes,
               challenge.nonce, sizeof(challenge.nonce), challenge.proof);
    queued = frame_send(&client->link, CODEC_CHALLENGE, body,
                        codec_encode_challenge(&challenge, body));
    weft_check(queued);
    sent = frame_last_sent(&client->link, whole);
    auth_prove(identity->key, AUTH_CONNECTOR, frame->bytes, frame->whole_bytes, sent,
               whole, client->proof);
    auth_prove(identity->key, AUTH_SESSION, frame->bytes, frame->whole_bytes, sent, whole,
               client->session);
    client->is_vouched = prove_is_vouched(&client->hello, identity->key);
    client->state = CLIENT_AUTH;
    return frame_flush(&client->link, error) < 0 ? error->status : WEFT_OK;
}

/* Handles AUTH. A client whose proof is valid is a member of the job, so it gets larger buffers. */
static weft_status authenticate(struct client *client, const struct frame *frame,
                                struct weft_error *error)
{
    struct codec_auth auth;
    weft_status status = codec_decode_auth(frame->body, frame->n_bytes, &auth, error);

    if (status != WEFT_OK) {
        return status;
    }
    if (!auth_equal(client->proof, auth.proof)) {
        return weft_fail(error, WEFT_ERR_AUTH, WEFT_PHASE_AUTH,
                         "the client does not know this listener's key");
    }
    client->member = weft_calloc(1, sizeof(*client->member));
    frame_move(&client->link, client->member->rx, sizeof(client->member->rx),
               client->member->tx, sizeof(client->member->tx));
    frame_seal(&client->link, client->session);
    client->state = CLIENT_FACTS;
    return WEFT_OK;
}

weft_status client_step(struct client *client, const struct client_identity *identity,
                        struct weft_error *error)
{
    struct frame frame;
    weft_status status = frame_flush(&client->link, error);

    if (status < 0) {
        return status;
    }
    status = frame_receive(&client->link, &frame, error);
    if (status != WEFT_OK) {
        return status;
    }
    if (frame.type == CODEC_ABORT) {
        return gave_up(&frame, error);
    }
    switch (client->state) {
    case CLIENT_HELLO:
        return frame.type == CODEC_HELLO ? challenge(client, identity, &frame, error)
                                         : unexpected(&frame, WEFT_PHASE_HELLO, error);
    case CLIENT_AUTH:
        return frame.type == CODEC_AUTH ? authenticate(client, &frame, error)
                                        : unexpected(&frame, WEFT_PHASE_AUTH, error);
    case CLIENT_FACTS:
        if (frame.type != CODEC_FACTS) {
            return unexpected(&frame, WEFT_PHASE_FACTS, error);
        }
        status =
            codec_decode_facts(frame.body, frame.n_bytes, &client->member->facts, error);
        client->state = status == WEFT_OK ? CLIENT_DONE : client->state;
        return status;
    case CLIENT_NONE:
    case CLIENT_DONE:
        break;
    }
    weft_check(!"a client that waits for something");
    return WEFT_AGAIN;
}
