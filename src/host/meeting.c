#include "host/meeting.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/wire.h"
#include "host/host.h"

/* Bytes of a text in one gather, limited because each member holds a piece of every member. */
#define PIECE_BYTES 16384u
/* Maximum length of a text; longer ones are rejected. */
#define TEXT_MAX (16u << 20)
/* Limit of meeting_part; rank 0 closes once it has sent the last result. */
#define PART_NS INT64_C(5000000000)

struct meeting {
    struct world *world; /* Not owned */
    struct io_env *env;  /* Not owned */
    struct boot *boot;   /* Owned */
    uint32_t rank, n_members;
};

weft_status meeting_open(struct world *world, struct io_env *env,
                         const struct boot_config *config, struct meeting **out,
                         struct weft_error *error)
{
    struct meeting *meeting = weft_calloc(1, sizeof(*meeting));
    weft_status status;

    *out = NULL;
    meeting->world = world;
    meeting->env = env;
    meeting->rank = config->rank;
    meeting->n_members = config->n_members == 0 ? config->n_ranks : config->n_members;
    status = boot_open(env, config, HOST_TASK_BOOT, &meeting->boot, error);
    if (status != WEFT_OK) {
        meeting_close(meeting);
        return status;
    }
    *out = meeting;
    return WEFT_OK;
}

weft_status meeting_gather(struct meeting *meeting, const void *mine, size_t n_bytes,
                           bool to_first, const uint8_t **out_all,
                           struct weft_error *error)
{
    const struct world_ops *ops = meeting->world->ops;
    weft_status status;

    if (to_first) {
        boot_gather_to_first(meeting->boot, mine, n_bytes);
    } else {
        boot_gather(meeting->boot, mine, n_bytes);
    }
    for (;;) {
        while (io_loop_pop(ops->loop(meeting->world)) != NULL) {
            /* The only task is boot's. */
        }
        status = boot_progress(meeting->boot, error);
        if (status != WEFT_AGAIN) {
            break;
        }
        status = ops->step(meeting->world, WEFT_NEVER);
        if (status < 0) {
            return weft_fail(error, status, WEFT_PHASE_MEETING, "the world cannot go on");
        }
    }
    if (out_all != NULL) {
        *out_all = boot_result(meeting->boot);
    }
    return status;
}

/* Gathers a number from each member. Numbers above TEXT_MAX are rejected. */
static weft_status gather_numbers(struct meeting *meeting, uint32_t mine, uint32_t *out,
                                  struct weft_error *error)
{
    uint8_t bytes[4];
    struct wire_writer writer = wire_writer_init(bytes, sizeof(bytes));
    struct wire_reader reader;
    const uint8_t *all;
    weft_status status;

    wire_put_u32(&writer, mine);
    status = meeting_gather(meeting, bytes, sizeof(bytes), false, &all, error);
    if (status != WEFT_OK) {
        return status;
    }
    reader = wire_reader_init(all, meeting->n_members * sizeof(bytes));
    for (uint32_t i = 0; i < meeting->n_members; i++) {
        out[i] = wire_get_u32(&reader);
        if (out[i] > TEXT_MAX) {
            weft_fail(error, WEFT_ERR_PROTOCOL, WEFT_PHASE_MEETING,
                      "rank %u announced %u bytes, %u are allowed", i, out[i], TEXT_MAX);
            weft_error_int(error, WEFT_VALUE_RANK, i);
            return WEFT_ERR_PROTOCOL;
        }
    }
    return WEFT_OK;
}

/* Gathers the lengths of all texts, and the longest one known to the lowest member, because members
 * that disagree on who is absent must still gather equally often. */
static weft_status gather_lengths(struct meeting *meeting, size_t n_bytes,
                                  uint32_t *lengths, uint32_t *out_longest,
                                  struct weft_error *error)
{
    uint32_t *known = weft_calloc(meeting->n_members, sizeof(*known));
    weft_status status = gather_numbers(meeting, (uint32_t)n_bytes, lengths, error);
    uint32_t longest = 0;

    for (uint32_t i = 0; i < meeting->n_members && status == WEFT_OK; i++) {
        longest = lengths[i] > longest ? lengths[i] : longest;
    }
    if (status == WEFT_OK) {
        status = gather_numbers(meeting, longest, known, error);
    }
    *out_longest = known[meeting_first(meeting)];
    free(known);
    return status;
}

static weft_status gather_piece(struct meeting *meeting, const struct weft_text *mine,
                                bool to_first, uint32_t at, uint32_t n_piece,
                                const uint32_t *lengths, struct weft_text *out,
                                struct weft_error *error)
{
    uint8_t piece[PIECE_BYTES] = {0};
    const uint8_t *all;
    weft_status status;

    if (at < mine->n) {
        memcpy(piece, mine->bytes + at, mine->n - at < n_piece ? mine->n - at : n_piece);
    }
    status = meeting_gather(meeting, piece, n_piece, to_first, &all, error);
    if (status != WEFT_OK || all == NULL) {
        return status;
    }
    for (uint32_t i = 0; i < meeting->n_members; i++) {
        uint32_t left = lengths[i] > at ? lengths[i] - at : 0;

        weft_text_add_bytes(&out[i], (const char *)all + (size_t)i * n_piece,
                            left < n_piece ? left : n_piece);
    }
    return WEFT_OK;
}

weft_status meeting_gather_texts(struct meeting *meeting, const struct weft_text *mine,
                                 bool to_first, struct weft_text *out,
                                 weft_ns *out_gathered_ns, struct weft_error *error)
{
    uint32_t *lengths = weft_calloc(meeting->n_members, sizeof(*lengths));
    uint32_t longest = 0;
    weft_status status = gather_lengths(meeting, mine->n, lengths, &longest, error);

    *out_gathered_ns = io_now(meeting->env);
    for (uint32_t at = 0; at < longest && status == WEFT_OK; at += PIECE_BYTES) {
        uint32_t left = longest - at;

        status =
            gather_piece(meeting, mine, to_first, at,
                         left < PIECE_BYTES ? left : PIECE_BYTES, lengths, out, error);
    }
    /* Discard incomplete texts of members that became absent meanwhile. */
    for (uint32_t i = 0; i < meeting->n_members; i++) {
        if (boot_is_absent(meeting->boot, i)) {
            weft_text_fini(&out[i]);
        }
    }
    free(lengths);
    return status;
}

void meeting_part(struct meeting *meeting)
{
    const struct world_ops *ops = meeting->world->ops;
    weft_ns until = ops->now(meeting->world) + PART_NS;

    while (meeting->rank != 0 && !boot_first_left(meeting->boot) &&
           ops->now(meeting->world) < until) {
        while (io_loop_pop(ops->loop(meeting->world)) != NULL) {
            /* The only task is boot's. */
        }
        if (boot_progress(meeting->boot, NULL) < 0 ||
            (!boot_first_left(meeting->boot) && ops->step(meeting->world, until) < 0)) {
            return;
        }
    }
}

uint32_t meeting_first(const struct meeting *meeting)
{
    return boot_first(meeting->boot);
}

void meeting_ended(struct meeting *meeting, uint32_t member)
{
    boot_ended(meeting->boot, member);
}

void meeting_close(struct meeting *meeting)
{
    if (meeting != NULL) {
        boot_close(meeting->boot);
        free(meeting);
    }
}
