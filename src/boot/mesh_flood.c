/* Flooding: records and blobs of all members are received from neighbours and forwarded. A record
 * replaces older ones of the same process by its sequence number; a blob grows from its start.
 * Blobs of at most two rounds are kept. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/mesh.h"

/* ---- identities ---- */

/* Discards everything known of the earlier process of a member. */
static void forget(struct boot *boot, uint32_t m)
{
    struct mesh *mesh = boot->mesh;
    struct mesh_member *member = &mesh->members[m];

    for (int i = 0; i < 2; i++) {
        free(member->blobs[i].bytes);
        member->blobs[i] = (struct mesh_blob){.round = 0};
    }
    member->sequence = 0;
    member->n_entries = 0;
    member->gone = MESH_HERE;
    /* An absent member stays counted, because its new process will never become known. */
    mesh->n_known -= member->is_known && !member->is_absent ? 1 : 0;
    member->is_known = false;
    mesh->graph_is_stale = true;
    for (uint32_t i = 0; i < boot->n_members; i++) {
        struct mesh_peer *peer = mesh->members[i].peer;

        if (peer != NULL) {
            peer->links_told[m] = 0;
            memset(peer->known[m], 0, sizeof(peer->known[m]));
        }
    }
    if (member->peer != NULL && member->peer->state == MESH_UP) {
        mesh_peer_drop(boot, member->peer, NULL);
    }
}

/* Handles a claim to a member's number by a second host. The member has moved if the first host has
 * been gone for some time and no round was completed with it. Otherwise the boot fails, because it
 * is undetermined which claim is right. */
static weft_status conflict(struct boot *boot, uint32_t m)
{
    struct mesh_member *member = &boot->mesh->members[m];
    bool is_done_with = boot->round > 1 || (boot->round == 1 && !boot->is_active);
    bool is_here =
        member->is_reached ||
        io_now(boot->env) - member->since_ns < boot_limit(boot, MESH_SILENT_NS) ||
        (member->peer != NULL && member->peer->state == MESH_UP);

    if (m != boot->config.rank && !is_here && !is_done_with) {
        forget(boot, m);
        return WEFT_OK;
    }
    return mesh_blame(boot, WEFT_ERR_PROTOCOL, m, "is claimed by processes of two hosts");
}

weft_status mesh_meet(struct boot *boot, uint32_t m,
                      const struct record_identity *identity)
{
    struct mesh_member *member = &boot->mesh->members[m];
    const struct record_identity *known = &member->identity;
    bool is_done_with = boot->round > 1 || (boot->round == 1 && !boot->is_active);
    weft_status status = WEFT_OK;

    if (known->nonce == identity->nonce) {
        return WEFT_OK;
    }
    if (known->nonce != 0) {
        if (memcmp(known->host_id, identity->host_id, sizeof(known->host_id)) != 0) {
            status = conflict(boot, m);
        } else if (identity->started_ns <= known->started_ns) {
            return WEFT_AGAIN;
        } else if (m == boot->config.rank || is_done_with) {
            return mesh_blame(boot, WEFT_ERR_CLOSED, m,
                              "died: another process was started in its place");
        } else {
            forget(boot, m);
        }
    }
    if (status == WEFT_OK) {
        member->identity = *identity;
        member->since_ns = io_now(boot->env);
        weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                         "met", "rank=%u", m);
    }
    return status;
}

/* ---- receiving ---- */

static weft_status take_links(struct boot *boot, struct mesh_peer *peer,
                              const struct frame *frame, struct weft_error *error)
{
    struct mesh *mesh = boot->mesh;
    struct record_links links;
    struct mesh_member *member;
    weft_status status =
        record_decode_links(frame->body, frame->n_bytes, boot->n_members, &links, error);

    if (status == WEFT_OK && links.member == peer->member &&
        links.identity.nonce != mesh->members[peer->member].identity.nonce) {
        status = codec_bad_field(error, WEFT_PHASE_LINKS, "nonce", 0,
                                 "other than it greeted with");
    }
    if (status != WEFT_OK) {
        return status;
    }
    status = mesh_meet(boot, links.member, &links.identity);
    if (status != WEFT_OK || links.member == boot->config.rank) {
        return status < 0 ? status : WEFT_OK;
    }
    member = &mesh->members[links.member];
    if (links.sequence > peer->links_told[links.member]) {
        peer->links_told[links.member] = links.sequence;
    }
    if (links.sequence <= member->sequence || member->is_absent) {
        return WEFT_OK;
    }
    if (!member->is_known) {
        member->is_known = true;
        mesh->n_known++;
        mesh->known_ns = io_now(boot->env);
    }
    member->sequence = links.sequence;
    member->n_entries = links.n_entries;
    member->entries =
        weft_realloc(member->entries, (links.n_entries + 1) * sizeof(*member->entries));
    memcpy(member->entries, links.entries, links.n_entries * sizeof(*member->entries));
    mesh->graph_is_stale = true;
    return WEFT_OK;
}

/* Notes that the neighbour has the blob at least up to the end of `piece`. */
static void note_known(struct mesh_peer *peer, const struct record_piece *piece)
{
    struct mesh_known *known = &peer->known[piece->member][piece->round & 1];
    uint32_t end = piece->offset + piece->n_bytes;

    if (known->round != piece->round) {
        *known = (struct mesh_known){.round = piece->round};
    }
    known->n_bytes = end > known->n_bytes ? end : known->n_bytes;
    known->whole = known->whole || end == piece->each;
}

static weft_status grow(struct mesh_blob *blob, const struct record_piece *piece,
                        struct weft_error *error)
{
    uint32_t end = piece->offset + piece->n_bytes;

    if (blob->round != piece->round) {
        blob->round = piece->round;
        blob->each = piece->each;
        blob->received = 0;
        blob->whole = false;
        blob->bytes = weft_realloc(blob->bytes, (size_t)piece->each + 1);
    }
    if (piece->offset > blob->received) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "offset", piece->offset,
                               "not a piece that was due");
    }
    if (end > blob->received) {
        memcpy(blob->bytes + piece->offset, piece->bytes, piece->n_bytes);
        blob->received = end;
    }
    blob->whole = blob->received == blob->each;
    return WEFT_OK;
}

static weft_status take_piece(struct boot *boot, struct mesh_peer *peer,
                              const struct frame *frame, struct weft_error *error)
{
    struct record_piece piece;
    struct mesh_member *member;
    const struct mesh_blob *blob;
    bool is_mine;
    weft_status status =
        record_decode_piece(frame->body, frame->n_bytes, boot->n_members, &piece, error);

    if (status != WEFT_OK) {
        return status;
    }
    member = &boot->mesh->members[piece.member];
    if (!member->is_known || member->identity.nonce != piece.nonce) {
        /* From an earlier process; the neighbour will learn of the new one. */
        return WEFT_OK;
    }
    /* No member is two rounds ahead, because it would need this process's blob of the round
     * between. This process's own blob exists only in rounds that it has begun. */
    is_mine = piece.member == boot->config.rank;
    if (piece.round > boot->round + 1 || (is_mine && piece.round > boot->round)) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "round", piece.round,
                               "not open yet");
    }
    blob = &member->blobs[piece.round & 1];
    if (blob->round == piece.round && blob->each != piece.each) {
        return codec_bad_field(error, WEFT_PHASE_PIECE, "each", piece.each,
                               "another size than that of the blob");
    }
    note_known(peer, &piece);
    if (piece.round < boot->round || is_mine) {
        return WEFT_OK;
    }
    return grow(&member->blobs[piece.round & 1], &piece, error);
}

/* Records the last complete round of a neighbour, which is an earlier one again if the process of a
 * member is replaced. Rejects a round that this process has not started, because it cannot be
 * complete without this process's blob. With may_miss it can: the others use zeros for this
 * process. */
static weft_status take_alive(const struct boot *boot, struct mesh_peer *peer,
                              const struct frame *frame, struct weft_error *error)
{
    struct record_alive alive;
    weft_status status = record_decode_alive(frame->body, frame->n_bytes, &alive, error);

    if (status == WEFT_OK && alive.round > boot->round && !boot->config.may_miss) {
        return codec_bad_field(error, WEFT_PHASE_ALIVE, "round", alive.round,
                               "not open yet");
    }
    if (status == WEFT_OK) {
        peer->has_round = alive.round;
    }
    return status;
}

static weft_status take_give_up(struct boot *boot, struct mesh_peer *peer,
                                const struct frame *frame, struct weft_error *error)
{
    struct message_give_up give_up;
    weft_status status = message_decode_give_up(frame->body, frame->n_bytes,
                                                boot->n_members, &give_up, error);

    if (status != WEFT_OK) {
        return status;
    }
    if (boot->config.may_miss && give_up.rank != boot->config.rank) {
        mesh_miss(boot, give_up.rank);
        return WEFT_OK;
    }
    weft_fail(&boot->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "rank %u: %s", give_up.rank,
              give_up.reason);
    weft_error_int(&boot->error, WEFT_VALUE_RANK, give_up.rank);
    weft_error_text(&boot->error, WEFT_VALUE_REASON, give_up.reason);
    weft_error_int(&boot->error, WEFT_VALUE_TOLD_BY, peer->member);
    if (!boot->config.may_miss) {
        mesh_give_up(boot, give_up.rank, give_up.reason);
    }
    return boot->error.status;
}

weft_status mesh_take(struct boot *boot, struct mesh_peer *peer,
                      const struct frame *frame, struct weft_error *error)
{
    if (frame->type == CODEC_LINKS) {
        return take_links(boot, peer, frame, error);
    }
    if (frame->type == CODEC_PIECE) {
        return take_piece(boot, peer, frame, error);
    }
    if (frame->type == CODEC_GIVE_UP) {
        return take_give_up(boot, peer, frame, error);
    }
    if (frame->type == CODEC_ALIVE) {
        return take_alive(boot, peer, frame, error);
    }
    if (frame->type == CODEC_BYE && frame->n_bytes == 0) {
        boot->mesh->members[peer->member].gone = MESH_LEFT;
        return WEFT_OK;
    }
    return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_BOOT,
                     "a %s message from rank %u", codec_type_name(frame->type),
                     peer->member);
}

/* ---- forwarding ---- */

static bool tell_links(struct boot *boot, struct mesh_peer *peer, uint32_t m)
{
    const struct mesh_member *member = &boot->mesh->members[m];
    struct record_links links = {.member = m,
                                 .identity = member->identity,
                                 .sequence = member->sequence,
                                 .n_entries = member->n_entries};
    uint8_t body[CODEC_BODY_MAX];

    memcpy(links.entries, member->entries, member->n_entries * sizeof(*links.entries));
    if (!frame_send(&peer->stream.link, CODEC_LINKS, body,
                    record_encode_links(&links, body))) {
        return false;
    }
    peer->links_told[m] = member->sequence;
    return true;
}

static bool lacks(const struct mesh_peer *peer, uint32_t m, const struct mesh_blob *blob)
{
    const struct mesh_known *known = &peer->known[m][blob->round & 1];

    if (blob->round <= peer->has_round || m == peer->member) {
        return false;
    }
    return known->round != blob->round ||
           (!known->whole && (blob->whole || blob->received > known->n_bytes));
}

static bool tell_piece(struct boot *boot, struct mesh_peer *peer, uint32_t m,
                       const struct mesh_blob *blob)
{
    struct mesh_known *known = &peer->known[m][blob->round & 1];
    uint32_t from = known->round == blob->round ? known->n_bytes : 0;
    uint32_t left = blob->received - from;
    struct record_piece piece = {
        .member = m,
        .nonce = boot->mesh->members[m].identity.nonce,
        .round = blob->round,
        .each = blob->each,
        .offset = from,
        .n_bytes = left < RECORD_PIECE_MAX ? left : RECORD_PIECE_MAX,
        .bytes = blob->bytes + from,
    };
    uint8_t body[CODEC_BODY_MAX];

    if (!frame_send(&peer->stream.link, CODEC_PIECE, body,
                    record_encode_piece(&piece, body))) {
        return false;
    }
    note_known(peer, &piece);
    return true;
}

static bool tell_absent(struct mesh_peer *peer, uint32_t m)
{
    struct message_give_up give_up = {.rank = m, .reason = MESH_ABSENT};
    uint8_t body[CODEC_BODY_MAX];

    peer->absent_told[m] = frame_send(&peer->stream.link, CODEC_GIVE_UP, body,
                                      message_encode_give_up(&give_up, body));
    return peer->absent_told[m];
}

bool mesh_tell_next(struct boot *boot, struct mesh_peer *peer)
{
    const struct mesh *mesh = boot->mesh;

    for (uint32_t m = 0; m < boot->n_members; m++) {
        if (mesh->members[m].is_absent && !peer->absent_told[m]) {
            return tell_absent(peer, m);
        }
    }
    /* Send records first, because pieces of an unknown member are dropped. */
    for (uint32_t m = 0; m < boot->n_members; m++) {
        const struct mesh_member *member = &mesh->members[m];

        if (member->is_known && m != peer->member &&
            peer->links_told[m] < member->sequence) {
            return tell_links(boot, peer, m);
        }
    }
    for (uint32_t ahead = 0; ahead < 3; ahead++) {
        /* The last, the present and the next round. */
        uint32_t round = boot->round + ahead - 1;

        for (uint32_t m = 0; m < boot->n_members && boot->round + ahead > 1; m++) {
            const struct mesh_blob *blob = &mesh->members[m].blobs[round & 1];

            if (blob->round == round && lacks(peer, m, blob) &&
                (blob->received > 0 || blob->whole)) {
                return tell_piece(boot, peer, m, blob);
            }
        }
    }
    return false;
}
