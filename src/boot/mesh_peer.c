/* One neighbour. The member with the lower number dials, trying each address in turn. A stream is
 * used until it ends or falls silent; then the next address is tried. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "boot/mesh.h"
#include "io/oob.h"

/* ---- the end of a stream, or of an attempt ---- */

weft_ns mesh_peer_verdict_ns(const struct boot *boot, const struct mesh_peer *peer)
{
    const struct mesh_member *member = &boot->mesh->members[peer->member];

    return peer->is_suspect && peer->was_ended && !member->is_reached &&
                   member->gone == MESH_HERE
               ? peer->suspect_ns + boot_limit(boot, MESH_DIED_NS)
               : WEFT_NEVER;
}

weft_ns mesh_peer_awaited_ns(const struct boot *boot, const struct mesh_peer *peer)
{
    const struct mesh_member *member = &boot->mesh->members[peer->member];

    return peer->suspect_ns != 0 && !peer->was_ended && peer->state != MESH_UP &&
                   member->gone == MESH_HERE && !member->is_reached
               ? peer->suspect_ns + boot_limit(boot, MESH_AWAIT_NS)
               : 0;
}

/* Returns true if the neighbour's process is dead, because connections to the listener of that very
 * process are refused. */
static bool is_dead(const struct boot *boot, const struct mesh_peer *peer, int error)
{
    uint64_t nonce = peer->dialled_nonce;

    return error == ECONNREFUSED && peer->is_suspect &&
           (nonce == 0 || nonce == boot->mesh->members[peer->member].identity.nonce);
}

/* ---- dialling ---- */

/* Returns true if the candidate should be dialled. A process that is gone is not dialled again, but
 * its successor is. */
static bool is_worth_it(const struct boot *boot, const struct mesh_peer *peer,
                        const struct mesh_candidate *candidate)
{
    const struct mesh_member *member = &boot->mesh->members[peer->member];

    return mesh_candidate_is_fresh(boot, candidate) &&
           (member->gone == MESH_HERE || candidate->nonce != member->identity.nonce);
}

/* Returns the next candidate to dial, or n_candidates. The member with the higher number dials only
 * to test whether a suspect exists. */
static uint32_t choose(const struct boot *boot, const struct mesh_peer *peer)
{
    bool may = boot->config.rank < peer->member || peer->is_suspect;

    for (uint32_t i = 0; may && i < peer->n_candidates; i++) {
        uint32_t at = (peer->next + i) % peer->n_candidates;

        if (is_worth_it(boot, peer, &peer->candidates[at])) {
            return at;
        }
    }
    return peer->n_candidates;
}

static weft_status dial(struct boot *boot, struct mesh_peer *peer)
{
    uint32_t chosen = choose(boot, peer);
    struct io_stream *tcp = NULL;
    int error;

    if (chosen == peer->n_candidates || io_now(boot->env) < peer->resume_ns) {
        return WEFT_AGAIN;
    }
    peer->dialled_nonce = peer->candidates[chosen].nonce;
    peer->next = chosen + 1;
    peer->attempt++;
    peer->is_probe = boot->config.rank > peer->member;
    peer->port = peer->candidates[chosen].port;
    peer->peer_port = peer->candidates[chosen].peer_port;
    error = boot->env->oob->connect(boot->env, NULL, &peer->candidates[chosen].at,
                                    &boot->task, &tcp);
    if (error != 0) {
        peer->last_errno = error;
        mesh_peer_retry(boot, peer);
        return WEFT_AGAIN;
    }
    frame_init(&peer->stream.link, boot->env, tcp, AUTH_CONNECTOR, peer->stream.rx,
               sizeof(peer->stream.rx), peer->stream.tx, sizeof(peer->stream.tx));
    peer->step_ns = io_now(boot->env) + boot_limit(boot, MESH_DIAL_NS);
    mesh_peer_enter(boot, peer, MESH_TCP);
    return WEFT_OK;
}

static weft_status say_hello(struct boot *boot, struct mesh_peer *peer)
{
    int error = boot->env->oob->connected(peer->stream.link.stream);
    struct codec_hello hello = {.id = peer->id, .attempt = peer->attempt};

    if (error == EAGAIN) {
        return WEFT_AGAIN;
    }
    peer->last_errno = error;
    if (error != 0 || peer->is_probe) {
        if (is_dead(boot, peer, error)) {
            boot->mesh->members[peer->member].gone = MESH_DIED;
        }
        if (error == 0) {
            /* Its process exists, and dials again. */
            peer->is_suspect = false;
            peer->was_ended = false;
        }
        mesh_peer_retry(boot, peer);
        return WEFT_AGAIN;
    }
    memcpy(hello.host_id, boot->mesh->self.identity.host_id, sizeof(hello.host_id));
    prove_hello(&peer->stream.link, boot->mesh->door.identity.key, &hello, peer->hello);
    mesh_peer_enter(boot, peer, MESH_CHALLENGE);
    return WEFT_OK;
}

/* Returns the number of the port with the stream's local address. */
static uint8_t port_of_stream(const struct boot *boot, const struct mesh_peer *peer)
{
    const struct io_hostinfo *info = boot->env->ops->hostinfo(boot->env);
    const struct mesh *mesh = boot->mesh;
    struct io_endpoint local;

    boot->env->oob->endpoints(peer->stream.link.stream, &local, NULL);
    for (uint32_t i = 0; i < mesh->n_ports; i++) {
        const struct io_netdev *netdev = io_hostinfo_netdev(info, mesh->ports[i].ifindex);

        for (uint32_t j = 0; netdev != NULL && j < netdev->n_addresses; j++) {
            if (io_ip_equal(&netdev->addresses[j].ip, &local.ip)) {
                return mesh->ports[i].number;
            }
        }
    }
    return RECORD_PORT_NONE;
}

static void greet(struct boot *boot, struct mesh_peer *peer)
{
    struct record_greeting greeting = {.self = boot->mesh->self};
    uint8_t body[CODEC_BODY_MAX];
    bool queued;

    if (peer->port == RECORD_PORT_NONE && boot->config.mode == BOOT_STATIC) {
        peer->port = port_of_stream(boot, peer);
    }
    greeting.port = peer->port;
    greeting.peer_port = peer->peer_port;
    queued = frame_send(&peer->stream.link, CODEC_MEMBER, body,
                        record_encode_greeting(&greeting, body));
    weft_check(queued);
}

static weft_status prove(struct boot *boot, struct mesh_peer *peer)
{
    struct weft_error why = {0};
    weft_status status = frame_flush(&peer->stream.link, &why);

    if (status == WEFT_OK) {
        status = prove_answer(&peer->stream.link, boot->mesh->door.identity.key,
                              peer->hello, &why);
    }
    if (status == WEFT_AGAIN) {
        return status;
    }
    if (status != WEFT_OK) {
        weft_log(boot->env->log, WEFT_LOG_WARN, "boot: rank %u did not prove itself: %s",
                 peer->member, why.message);
        mesh_peer_retry(boot, peer);
        return WEFT_AGAIN;
    }
    greet(boot, peer);
    mesh_peer_enter(boot, peer, MESH_GREET);
    return WEFT_OK;
}

/* ---- up ---- */

/* `took_ns` is how long the stream took to come up. */
static void go_up(struct boot *boot, struct mesh_peer *peer, weft_ns took_ns)
{
    mesh_peer_enter(boot, peer, MESH_UP);
    peer->up_ns = io_now(boot->env);
    peer->was_quick = took_ns < MESH_QUICK_NS;
    peer->heard_ns = peer->up_ns;
    peer->said_ns = peer->heard_ns;
    peer->backoff_ns = BOOT_BACKOFF_NS;
    peer->is_suspect = false;
    peer->has_round = 0;
    peer->told_round = 0;
    memset(peer->links_told, 0, boot->n_members * sizeof(*peer->links_told));
    memset(peer->absent_told, 0, boot->n_members * sizeof(*peer->absent_told));
    memset(peer->known, 0, boot->n_members * sizeof(*peer->known));
}

static weft_status check_greeting(struct boot *boot,
                                  const struct record_greeting *greeting,
                                  struct weft_error *error)
{
    const struct record_self *self = &boot->mesh->self;

    if (greeting->self.n_members != self->n_members ||
        greeting->self.n_ranks != self->n_ranks) {
        return codec_bad_field(error, WEFT_PHASE_MEMBER, "n_members",
                               greeting->self.n_members, "another job's");
    }
    return mesh_meet(boot, greeting->self.member, &greeting->self.identity);
}

static weft_status hear_greeting(struct boot *boot, struct mesh_peer *peer)
{
    struct record_greeting greeting;
    struct weft_error why = {0};
    struct frame frame;
    weft_status status = frame_receive(&peer->stream.link, &frame, &why);

    if (status == WEFT_AGAIN) {
        return status;
    }
    if (status == WEFT_OK && frame.type != CODEC_MEMBER) {
        status = weft_fail(&why, WEFT_ERR_PROTOCOL, WEFT_PHASE_MEMBER,
                           "a %s message instead", codec_type_name(frame.type));
    }
    if (status == WEFT_OK) {
        status = record_decode_greeting(frame.body, frame.n_bytes, &greeting, &why);
    }
    if (status == WEFT_OK && greeting.self.member != peer->member) {
        status = codec_bad_field(&why, WEFT_PHASE_MEMBER, "member", greeting.self.member,
                                 "not who was dialled");
    }
    if (status == WEFT_OK) {
        status = check_greeting(boot, &greeting, &why);
    }
    if (boot->error.status != WEFT_OK) {
        return boot->error.status;
    }
    if (status != WEFT_OK) {
        mesh_peer_retry(boot, peer);
        return WEFT_AGAIN;
    }
    if (greeting.port != RECORD_PORT_NONE) {
        peer->peer_port = greeting.port;
    }
    go_up(boot, peer,
          boot_limit(boot, MESH_DIAL_NS) - (peer->step_ns - io_now(boot->env)));
    return WEFT_OK;
}

weft_status mesh_peer_accept(struct boot *boot, struct client *client,
                             const struct frame *frame, struct weft_error *error)
{
    struct record_greeting greeting;
    struct mesh_peer *peer;
    weft_status status;
    weft_ns took_ns;

    if (frame->type != CODEC_MEMBER) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_MEMBER,
                         "a %s message instead", codec_type_name(frame->type));
    }
    status = record_decode_greeting(frame->body, frame->n_bytes, &greeting, error);
    if (status == WEFT_OK && greeting.self.member >= boot->config.rank) {
        status = codec_bad_field(error, WEFT_PHASE_MEMBER, "member", greeting.self.member,
                                 "the lower of two dials");
    }
    if (status == WEFT_OK) {
        status = check_greeting(boot, &greeting, error);
    }
    if (status == WEFT_AGAIN) {
        status = weft_fail(error, WEFT_ERR_AUTH, WEFT_PHASE_STALE,
                           "an earlier process of rank %u", greeting.self.member);
    }
    if (status != WEFT_OK) {
        return status;
    }
    took_ns = boot_limit(boot, BOOT_AUTHENTICATE_NS) -
              (client->deadline_ns - io_now(boot->env));
    peer = mesh_peer_of(boot, greeting.self.member);
    if (peer == NULL) {
        return weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_LIMIT,
                         "more than %d neighbours", MESH_PEERS_MAX);
    }
    /* The dialler has given up the old stream, and a probe is no longer needed. */
    mesh_peer_drop(boot, peer, NULL);
    boot_door_hand_over(client, &peer->stream);
    boot->mesh->members[peer->member].gone = MESH_HERE;
    peer->port = greeting.peer_port;
    peer->peer_port = greeting.port;
    greet(boot, peer);
    go_up(boot, peer, took_ns);
    return WEFT_OK;
}

static weft_status listen_to(struct boot *boot, struct mesh_peer *peer)
{
    while (peer->state == MESH_UP) {
        struct weft_error why = {0};
        struct frame frame;
        weft_status status = frame_receive(&peer->stream.link, &frame, &why);

        if (status == WEFT_AGAIN) {
            return WEFT_AGAIN;
        }
        if (status == WEFT_OK) {
            peer->heard_ns = io_now(boot->env);
            status = mesh_take(boot, peer, &frame, &why);
        }
        if (boot->error.status != WEFT_OK) {
            return boot->error.status;
        }
        if (status < 0) {
            if (status != WEFT_ERR_CLOSED) {
                weft_log(boot->env->log, WEFT_LOG_WARN,
                         "boot: the stream to rank %u ends: %s", peer->member,
                         why.message);
            }
            mesh_peer_drop(boot, peer, &why);
        }
    }
    return WEFT_AGAIN;
}

weft_status mesh_peer_step(struct boot *boot, struct mesh_peer *peer)
{
    weft_ns now = io_now(boot->env);
    weft_status status = WEFT_OK;

    while (status == WEFT_OK) {
        switch (peer->state) {
        case MESH_IDLE:
            status = dial(boot, peer);
            break;
        case MESH_TCP:
            status = say_hello(boot, peer);
            break;
        case MESH_CHALLENGE:
            status = prove(boot, peer);
            break;
        case MESH_GREET:
            status = frame_flush(&peer->stream.link, NULL) < 0
                         ? WEFT_AGAIN
                         : hear_greeting(boot, peer);
            break;
        case MESH_UP:
            status = listen_to(boot, peer);
            break;
        }
    }
    if (status < 0) {
        return status;
    }
    if (peer->state == MESH_UP &&
        now - peer->heard_ns >= boot_limit(boot, MESH_SILENT_NS)) {
        mesh_peer_drop(boot, peer, NULL);
    } else if (peer->state != MESH_UP && peer->state != MESH_IDLE &&
               now >= peer->step_ns) {
        peer->last_errno = peer->state == MESH_TCP ? ETIMEDOUT : peer->last_errno;
        mesh_peer_retry(boot, peer);
    }
    return WEFT_OK;
}

/* Sends ALIVE if this process has been silent for long enough, or has completed another round. */
static bool say_alive(struct boot *boot, struct mesh_peer *peer)
{
    struct record_alive alive = {.round = boot->mesh->whole_round};
    weft_ns silence = io_now(boot->env) - peer->said_ns;
    uint8_t body[CODEC_BODY_MAX];

    if (alive.round == peer->told_round &&
        (silence < MESH_ALIVE_NS || frame_queued(&peer->stream.link) > 0)) {
        return false;
    }
    if (!frame_send(&peer->stream.link, CODEC_ALIVE, body,
                    record_encode_alive(&alive, body))) {
        return false;
    }
    peer->told_round = alive.round;
    return true;
}

void mesh_peer_pump(struct boot *boot, struct mesh_peer *peer)
{
    struct weft_error why = {0};
    weft_status status = WEFT_OK;
    bool told = true;

    while (peer->state == MESH_UP && told) {
        /* Make room first, because no event follows once the stream has accepted all. */
        status = frame_flush(&peer->stream.link, &why);
        told = status == WEFT_OK && (mesh_tell_next(boot, peer) || say_alive(boot, peer));
        peer->said_ns = told ? io_now(boot->env) : peer->said_ns;
    }
    if (status < 0) {
        mesh_peer_drop(boot, peer, &why);
    }
}

uint32_t mesh_peer_silenced(const struct mesh_peer *peer)
{
    bool is_used = peer->state == MESH_UP &&
                   (!peer->was_quick || peer->heard_ns - peer->up_ns >= MESH_QUICK_NS);

    return is_used ? 0 : peer->n_silenced;
}

weft_ns mesh_peer_deadline(const struct boot *boot, const struct mesh_peer *peer)
{
    weft_ns silent = peer->heard_ns + boot_limit(boot, MESH_SILENT_NS);
    weft_ns alive = peer->said_ns + MESH_ALIVE_NS;

    if (peer->state == MESH_UP) {
        bool is_full = frame_queued(&peer->stream.link) > 0;

        return is_full || silent < alive ? silent : alive;
    }
    if (peer->state == MESH_IDLE) {
        return choose(boot, peer) < peer->n_candidates ? peer->resume_ns : WEFT_NEVER;
    }
    return peer->step_ns;
}
