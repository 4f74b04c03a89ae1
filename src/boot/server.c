/* The boot of rank 0: admits ranks, gathers their blobs, sends the result to all, and reports which
 * rank is at fault when it cannot. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/private.h"
#include "io/oob.h"

weft_status boot_server_open(struct boot *boot, struct weft_error *error)
{
    struct boot_server *server = weft_calloc(1, sizeof(*server));
    struct io_endpoint real;

    boot->server = server;
    server->ranks = weft_calloc(boot->n_members, sizeof(*server->ranks));
    server->n_joined = 1;
    server->joined_ns = boot->opened_ns;
    return boot_door_open(boot, &server->door, &boot->config.rendezvous, &real, error);
}

/* Handles the client's first message, which must be JOIN. */
static weft_status take_join(struct boot *boot, struct client *client,
                             const struct frame *frame, struct weft_error *error)
{
    struct boot_server *server = boot->server;
    struct message_join join;
    struct boot_stream *stream;
    weft_status status;

    if (frame->type != CODEC_JOIN) {
        return weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_JOIN,
                         "a %s message instead of join", codec_type_name(frame->type));
    }
    status =
        message_decode_join(frame->body, frame->n_bytes, boot->n_members, &join, error);
    if (status == WEFT_OK && server->ranks[join.rank].joined) {
        status =
            codec_bad_field(error, WEFT_PHASE_JOIN, "rank", join.rank, "is here already");
    }
    if (status != WEFT_OK) {
        return status;
    }
    stream = weft_calloc(1, sizeof(*stream));
    boot_door_hand_over(client, stream);
    boot->env->oob->endure(stream->link.stream, boot_limit(boot, TIMER_STREAM_NS));
    server->ranks[join.rank].stream = stream;
    server->ranks[join.rank].joined = true;
    server->n_joined++;
    server->joined_ns = io_now(boot->env);
    weft_trace_event(boot->env->trace, server->joined_ns, boot->env->name, "boot", "join",
                     "rank=%u joined=%u", join.rank, server->n_joined);
    return WEFT_OK;
}

static void welcome(struct boot *boot)
{
    struct boot_door *door = &boot->server->door;
    struct client *client;
    struct frame frame;
    uint32_t at = 0;

    boot_door_welcome(boot, door);
    while ((client = boot_door_next(boot, door, &at, &frame)) != NULL) {
        struct weft_error error = {0};

        if (take_join(boot, client, &frame, &error) != WEFT_OK) {
            boot_door_refuse(boot, door, client, &error);
        }
    }
}

/* ---- reporting failures ---- */

static bool is_there(const struct boot *boot, uint32_t rank)
{
    return rank != 0 && boot->server->ranks[rank].stream != NULL;
}

static void tell(struct boot *boot, uint32_t to, uint32_t at_fault, const char *reason)
{
    struct message_give_up give_up = {.rank = at_fault};
    struct frame_link *link = &boot->server->ranks[to].stream->link;
    uint8_t body[CODEC_BODY_MAX];

    weft_format(give_up.reason, sizeof(give_up.reason), "%s", reason);
    if (frame_send(link, CODEC_GIVE_UP, body, message_encode_give_up(&give_up, body)) &&
        frame_flush(link, NULL) < 0) {
        return; /* the rank is gone */
    }
}

void boot_server_notify_all(struct boot *boot, uint32_t rank, const char *reason)
{
    for (uint32_t r = 1; r < boot->n_members; r++) {
        if (is_there(boot, r) && r != rank) {
            tell(boot, r, rank, reason);
        }
    }
}

void boot_server_drop(struct boot *boot, uint32_t r)
{
    struct boot_server *server = boot->server;
    struct boot_rank *rank = &server->ranks[r];

    if (rank->stream != NULL) {
        frame_close(&rank->stream->link, true);
        free(rank->stream);
        rank->stream = NULL;
    }
    if (!rank->joined) {
        rank->joined = true; /* joining later is refused */
        server->n_joined++;
        /* The limit of the remaining ranks counts from now. */
        server->joined_ns = io_now(boot->env);
    }
    if (!rank->contributed && server->round_known) {
        memset(server->blobs + (size_t)r * server->each, 0, server->each);
    }
    rank->is_absent = true;
    rank->contributed = true;
    weft_trace_event(boot->env->trace, io_now(boot->env), boot->env->name, "boot",
                     "absent", "rank=%u", r);
    io_task_wake(&boot->task);
}

/* Reports to all ranks that `rank` is at fault, and fails. With may_miss it only marks another rank
 * absent. */
static weft_status blame(struct boot *boot, weft_status status, uint32_t rank,
                         const char *what)
{
    if (boot->config.may_miss && rank != 0) {
        boot_server_drop(boot, rank);
        return WEFT_OK;
    }
    boot_server_notify_all(boot, rank, what);
    return boot_fail(boot, status, rank, what);
}

/* Fails because a call on the stream to `rank` failed for a reason at this host, and reports that
 * to all ranks. With may_miss it only marks `rank` absent. */
static weft_status cut_off(struct boot *boot, uint32_t rank, const struct weft_error *why)
{
    weft_status status;

    if (boot->config.may_miss) {
        boot_server_drop(boot, rank);
        return WEFT_OK;
    }
    boot_server_notify_all(boot, boot->config.rank, "failed: a call on a control stream");
    status = boot_fail(boot, WEFT_ERR_SYSTEM, rank,
                       "is cut off: a call on its stream failed here");
    boot_own_errno(boot, why);
    return status;
}

/* Handles the end of a stream without BYE or GIVE_UP. */
static weft_status blame_dead(struct boot *boot, uint32_t rank,
                              const struct weft_error *why)
{
    weft_status status;

    if (frame_failed_here(why)) {
        return cut_off(boot, rank, why);
    }
    if (frame_is_unanswered(why)) {
        status = blame(boot, WEFT_ERR_TIMEOUT, rank, BOOT_CUT_OFF);
        if (status < 0) {
            boot->error.sys_errno = ETIMEDOUT;
        }
        return status;
    }
    status = blame(boot, WEFT_ERR_CLOSED, rank, "died: its stream ended");
    if (status < 0) {
        weft_error_int(&boot->error, WEFT_VALUE_STREAM_ENDED, 1);
    }
    return status;
}

/* ---- gathering ---- */

/* Sets the blob size of the next round, unless a rank has set it already. */
static void know_round(struct boot *boot, uint32_t each)
{
    struct boot_server *server = boot->server;

    if (!server->round_known) {
        server->round_known = true;
        server->each = each;
        server->blobs = weft_realloc(server->blobs, (size_t)boot->n_members * each + 1);
        memset(server->blobs, 0, (size_t)boot->n_members * each + 1);
    }
}

/* Returns the round that ranks contribute to: this rank's present one, or the one that it will
 * start next. */
static uint32_t open_round(const struct boot *boot)
{
    return boot->is_active && !boot->server->handing_out ? boot->round : boot->round + 1;
}

void boot_server_gather(struct boot *boot)
{
    know_round(boot, boot->each);
    if (boot->server->each == boot->each) {
        memcpy(boot->server->blobs, boot->mine, boot->each);
    }
    boot->server->ranks[0].contributed = true;
}

static weft_status take_blob(struct boot *boot, uint32_t r, const struct frame *frame)
{
    struct boot_rank *rank = &boot->server->ranks[r];
    struct message_blob blob;
    weft_status status =
        message_decode_blob(frame->body, frame->n_bytes, 1, &blob, &boot->error);

    if (status == WEFT_OK && (blob.round != open_round(boot) || rank->contributed ||
                              blob.offset != rank->received)) {
        status = codec_bad_field(&boot->error, WEFT_PHASE_BLOB, "round", blob.round,
                                 "not the piece that was due");
    }
    if (status != WEFT_OK) {
        return status;
    }
    know_round(boot, blob.each);
    if (blob.each != boot->server->each) {
        return codec_bad_field(&boot->error, WEFT_PHASE_BLOB, "each", blob.each,
                               "other than the other ranks'");
    }
    memcpy(boot->server->blobs + (size_t)r * blob.each + blob.offset, blob.bytes,
           blob.n_bytes);
    rank->received += blob.n_bytes;
    rank->contributed = rank->received == blob.each;
    return WEFT_OK;
}

/* Handles one message of a rank. If the rank gave up, `reason` is set to its reason. */
static weft_status take(struct boot *boot, uint32_t r, const struct frame *frame,
                        char reason[MESSAGE_REASON_BYTES])
{
    struct message_give_up give_up;
    weft_status status;

    if (frame->type == CODEC_BLOB) {
        return take_blob(boot, r, frame);
    }
    if (frame->type == CODEC_BYE && frame->n_bytes == 0) {
        boot->server->ranks[r].left = true;
        return WEFT_OK;
    }
    if (frame->type != CODEC_GIVE_UP) {
        return weft_fail(&boot->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_BOOT,
                         "a %s message from rank %u", codec_type_name(frame->type), r);
    }
    status = message_decode_give_up(frame->body, frame->n_bytes, boot->n_members,
                                    &give_up, &boot->error);
    if (status == WEFT_OK && boot->config.may_miss) {
        return WEFT_ERR_CLOSED; /* the others need no report */
    }
    if (status == WEFT_OK) {
        memcpy(reason, give_up.reason, MESSAGE_REASON_BYTES);
        weft_error_text(&boot->error, WEFT_VALUE_REASON, give_up.reason);
        weft_fail(&boot->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "rank %u: %s", r,
                  give_up.reason);
        weft_error_int(&boot->error, WEFT_VALUE_RANK, r);
        status = WEFT_ERR_CLOSED;
    }
    return status;
}

static weft_status hear(struct boot *boot, uint32_t r)
{
    struct boot_rank *rank = &boot->server->ranks[r];
    char reason[MESSAGE_REASON_BYTES] = "";
    struct weft_error why = {0};
    struct frame frame;
    weft_status status;

    do {
        status = frame_receive(&rank->stream->link, &frame, &why);
        if (status == WEFT_OK) {
            status = take(boot, r, &frame, reason);
            if (status < 0 && boot->config.may_miss) {
                boot->error = (struct weft_error){0};
                boot_server_drop(boot, r);
                return WEFT_OK;
            }
            if (status < 0) {
                boot_server_notify_all(boot, r,
                                       reason[0] != '\0' ? reason : boot->error.message);
                weft_error_int(&boot->error, WEFT_VALUE_RANK, r);
                return status;
            }
        }
    } while (status == WEFT_OK);
    if (status == WEFT_AGAIN) {
        return WEFT_OK;
    }
    frame_close(&rank->stream->link, true);
    free(rank->stream);
    rank->stream = NULL;
    if (status == WEFT_ERR_CLOSED && rank->left) {
        return WEFT_OK;
    }
    if (status == WEFT_ERR_CLOSED && boot->server->handing_out && rank->result_sent) {
        /* It may have had no room to send BYE. It is only missed if there is another round. */
        rank->has_ended = true;
        return WEFT_OK;
    }
    return status == WEFT_ERR_CLOSED ? blame_dead(boot, r, &why)
                                     : blame(boot, status, r, "broke the protocol");
}

/* Sends the result to rank `r` until its stream is full. */
static weft_status send_result(struct boot *boot, uint32_t r)
{
    struct boot_rank *rank = &boot->server->ranks[r];
    struct frame_link *link = &rank->stream->link;
    struct weft_error why = {0};
    uint32_t all = boot_result_each(boot) * boot->n_members;
    uint8_t body[CODEC_BODY_MAX];
    weft_status status = WEFT_OK;

    while (status == WEFT_OK && !rank->result_sent) {
        uint32_t left = all - rank->sent;
        struct message_blob blob = {
            .round = boot->round,
            .each = boot_result_each(boot),
            .offset = rank->sent,
            .n_bytes = left < MESSAGE_CHUNK_MAX ? left : MESSAGE_CHUNK_MAX,
            .bytes = boot->result + rank->sent,
        };

        if (frame_send(link, CODEC_BLOB, body, message_encode_blob(&blob, body))) {
            rank->sent += blob.n_bytes;
            rank->result_sent = rank->sent == all;
        }
        status = frame_flush(link, &why);
    }
    if (status == WEFT_OK) {
        status = frame_flush(link, &why);
    }
    return status < 0 ? blame_dead(boot, r, &why) : status;
}

static bool all_joined(const struct boot *boot)
{
    return boot->server->n_joined == boot->n_members;
}

/* Returns true if the round waits for rank `r`: to join, or, if all have joined, to contribute or
 * to take the result. */
static bool is_late(const struct boot *boot, uint32_t r, bool have_joined)
{
    const struct boot_rank *rank = &boot->server->ranks[r];

    if (!have_joined) {
        return r != 0 && !rank->joined;
    }
    if (!boot->server->handing_out) {
        return !rank->contributed;
    }
    return is_there(boot, r) &&
           (!rank->result_sent || frame_queued(&rank->stream->link) > 0);
}

bool boot_server_gathers(const struct boot *boot)
{
    return all_joined(boot) && boot->is_active && !boot->server->handing_out;
}

bool boot_server_awaits(const struct boot *boot, uint32_t member)
{
    return is_late(boot, member, all_joined(boot));
}

/* Lists the ranks that are late. Returns the first; 0 if none is. */
static uint32_t list_late(const struct boot *boot, char *out, size_t out_bytes)
{
    struct weft_text text = {0};
    uint32_t first = 0;

    for (uint32_t r = 0; r < boot->n_members; r++) {
        if (is_late(boot, r, all_joined(boot))) {
            first = text.n == 0 ? r : first;
            weft_text_add(&text, "%s%u", text.n > 0 ? "," : "", r);
        }
    }
    weft_format(out, out_bytes, "%s", text.n > 0 ? text.bytes : "");
    weft_text_fini(&text);
    return first;
}

static weft_ns limit(const struct boot *boot)
{
    const struct boot_server *server = boot->server;

    if (!all_joined(boot)) {
        return boot->opened_ns + boot->config.patience_ns;
    }
    if (!boot->is_active) {
        return WEFT_NEVER;
    }
    return (boot->started_ns > server->joined_ns ? boot->started_ns : server->joined_ns) +
           boot->config.step_ns;
}

/* may_miss: marks the ranks absent that the round waits for. */
static weft_status drop_late(struct boot *boot)
{
    bool have_joined = all_joined(boot);

    for (uint32_t r = 1; r < boot->n_members; r++) {
        if (is_late(boot, r, have_joined)) {
            boot_server_drop(boot, r);
        }
    }
    boot->server->joined_ns = io_now(boot->env);
    return WEFT_AGAIN;
}

static weft_status check_limit(struct boot *boot)
{
    char missing[64];
    weft_status status;

    if (io_now(boot->env) < limit(boot)) {
        return WEFT_AGAIN;
    }
    if (boot->config.may_miss) {
        return drop_late(boot);
    }
    status = blame(boot, WEFT_ERR_TIMEOUT, list_late(boot, missing, sizeof(missing)),
                   !all_joined(boot)           ? "did not come to the rendezvous"
                   : boot->server->handing_out ? "is late: it does not take the result"
                                               : "is late");
    weft_error_text(&boot->error, WEFT_VALUE_MISSING, missing);
    return status;
}

/* Completes the round, because all have contributed. From now on ranks can contribute to the next
 * round. */
static void complete(struct boot *boot)
{
    struct boot_server *server = boot->server;

    memcpy(boot->result, server->blobs, (size_t)boot->each * boot->n_members);
    server->round_known = false;
    server->handing_out = true;
    for (uint32_t r = 0; r < boot->n_members; r++) {
        server->ranks[r].contributed = server->ranks[r].is_absent;
        server->ranks[r].received = 0;
        server->ranks[r].sent = 0;
        server->ranks[r].result_sent = false;
    }
}

/* Sends the result to all. Returns WEFT_OK once every stream has taken it. */
static weft_status hand_out(struct boot *boot)
{
    weft_status all = WEFT_OK;

    for (uint32_t r = 1; r < boot->n_members; r++) {
        weft_status status = is_there(boot, r) ? send_result(boot, r) : WEFT_OK;

        if (status < 0) {
            return status;
        }
        all = status == WEFT_OK ? all : status;
    }
    boot->server->handing_out = all != WEFT_OK;
    return all;
}

static weft_status find_gone(struct boot *boot)
{
    static const struct weft_error ended = {0};

    for (uint32_t r = 1; r < boot->n_members; r++) {
        const struct boot_rank *rank = &boot->server->ranks[r];

        if (rank->contributed || boot->server->handing_out) {
            continue;
        }
        if ((rank->left && blame(boot, WEFT_ERR_CLOSED, r, "left") < 0) ||
            (rank->has_ended && blame_dead(boot, r, &ended) < 0)) {
            return boot->error.status;
        }
    }
    return WEFT_OK;
}

weft_status boot_server_progress(struct boot *boot)
{
    struct boot_server *server = boot->server;
    uint32_t n_contributed = 0;
    struct weft_error why = {0};
    weft_status status = WEFT_OK;

    welcome(boot);
    for (uint32_t r = 1; r < boot->n_members && status == WEFT_OK; r++) {
        if (is_there(boot, r)) {
            status = hear(boot, r);
        }
        if (status == WEFT_OK && is_there(boot, r) &&
            frame_flush(&server->ranks[r].stream->link, &why) < 0) {
            status = blame_dead(boot, r, &why);
        }
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (boot->is_active && !server->handing_out) {
        if (server->each != boot->each) {
            return blame(boot, WEFT_ERR_PROTOCOL, 0, "gathers blobs of another size");
        }
        for (uint32_t r = 0; r < boot->n_members; r++) {
            n_contributed += server->ranks[r].contributed ? 1 : 0;
        }
        if (n_contributed == boot->n_members) {
            complete(boot);
        }
    }
    if (server->handing_out) {
        status = hand_out(boot);
    } else {
        status = boot->is_active ? find_gone(boot) : WEFT_OK;
        status = status == WEFT_OK ? WEFT_AGAIN : status;
    }
    return status == WEFT_AGAIN ? check_limit(boot) : status;
}

void boot_server_close(struct boot *boot)
{
    struct boot_server *server = boot->server;

    for (uint32_t r = 1; r < boot->n_members; r++) {
        if (is_there(boot, r)) {
            struct frame_link *link = &server->ranks[r].stream->link;

            if (boot->error.status == WEFT_OK && frame_send(link, CODEC_BYE, NULL, 0) &&
                frame_flush(link, NULL) < 0) {
                server->ranks[r].left = true;
            }
            frame_close(link, false);
            free(server->ranks[r].stream);
        }
    }
    boot_door_close(boot, &server->door);
    free(server->blobs);
    free(server->ranks);
    free(server);
    boot->server = NULL;
}

weft_ns boot_server_deadline(const struct boot *boot)
{
    weft_ns door = boot_door_deadline(&boot->server->door);
    weft_ns at = limit(boot);

    return door < at ? door : at;
}
