/* Tests the original machine step by step, and explores all interleavings of two of them with
 * eight sends each. docs/ipc.md must contain the table that this test generates of the states in
 * which they get stuck. */
#include "ipc/smcuda.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "ipc/walk_testing.h"

#define N_SENDS 8
#define WAY_MAX 8

struct config {
    bool can[2], is_ready[2];
};

struct side {
    struct smcuda_machine machine;
    uint8_t n_sends, n_way, way[WAY_MAX];
};

struct pair {
    struct side sides[2];
};

static void pack(const struct pair *pair, struct walk_state *out)
{
    uint8_t *at = out->bytes;

    memset(out, 0, sizeof(*out));
    for (int i = 0; i < 2; i++) {
        const struct side *side = &pair->sides[i];

        *at++ = (uint8_t)side->machine.state;
        *at++ = side->machine.n_tries;
        *at++ = (uint8_t)(side->machine.is_ready | side->machine.has_asserted << 1);
        *at++ = side->n_sends;
        *at++ = side->n_way;
        memcpy(at, side->way, side->n_way);
        at += WAY_MAX;
    }
}

static void unpack(const struct walk_state *state, struct pair *out)
{
    const uint8_t *at = state->bytes;

    *out = (struct pair){0};
    for (int i = 0; i < 2; i++) {
        struct side *side = &out->sides[i];

        side->machine = (struct smcuda_machine){.state = at[0],
                                                .n_tries = at[1],
                                                .is_ready = at[2] & 1,
                                                .has_asserted = at[2] >> 1,
                                                .is_higher = i == 1};
        side->n_sends = at[3];
        side->n_way = at[4];
        memcpy(side->way, at + 5, WAY_MAX);
        at += 5 + WAY_MAX;
    }
}

static void go_on(struct walk *walk, struct pair *pair, int from,
                  enum smcuda_message said)
{
    struct side *to = &pair->sides[1 - from];
    struct walk_state state;

    if (said != SMCUDA_NOTHING) {
        weft_check(to->n_way < WAY_MAX);
        to->way[to->n_way++] = (uint8_t)said;
    }
    pack(pair, &state);
    walk_next(walk, &state);
}

static void expand(struct walk *walk, const struct walk_state *state, const void *context)
{
    const struct config *config = context;
    struct pair pair;

    unpack(state, &pair);
    for (int i = 0; i < 2; i++) {
        struct pair next = pair;
        struct side *side = &next.sides[i];

        if (!side->machine.is_ready) {
            side->machine.is_ready = true;
            go_on(walk, &next, i, SMCUDA_NOTHING);
            next = pair;
        }
        if (side->n_sends > 0) {
            side->n_sends--;
            go_on(walk, &next, i, smcuda_send(&side->machine));
            next = pair;
        }
        if (side->n_way > 0) {
            enum smcuda_message message = side->way[0];

            side->n_way--;
            memmove(side->way, side->way + 1, side->n_way);
            side->way[side->n_way] = 0;
            go_on(walk, &next, i,
                  smcuda_receive(&side->machine, message, config->can[i]));
        }
    }
}

/* Explores a pair. Sets ends[state of the lower rank][of the higher] for all final states.
 * Returns the number of states. */
static uint32_t walk_pair(const struct config *config,
                          bool ends[IPC_N_STATES][IPC_N_STATES], bool *asserted)
{
    const struct walk_system system = {expand, config};
    struct pair first = {0};
    struct walk_state state;
    struct walk walk;
    uint32_t n_states;

    memset(ends, 0, IPC_N_STATES * sizeof(ends[0]));
    for (int i = 0; i < 2; i++) {
        first.sides[i].machine.is_ready = config->is_ready[i];
        first.sides[i].n_sends = N_SENDS;
    }
    pack(&first, &state);
    walk_all(&walk, &system, &state);
    for (uint32_t i = 0; i < walk.n_states; i++) {
        struct pair pair;

        unpack(&walk.states[i], &pair);
        *asserted |= pair.sides[0].machine.has_asserted;
        *asserted |= pair.sides[1].machine.has_asserted;
        if (walk.n_next[i] == 0) {
            ends[pair.sides[0].machine.state][pair.sides[1].machine.state] = true;
        }
    }
    n_states = walk.n_states;
    walk_fini(&walk);
    return n_states;
}

enum outcome { RIGHT, WRONG, STUCK, NOT_YET, N_OUTCOMES };

/* Both should reach ACKED if both can access the other's memory, and BAD otherwise. */
static enum outcome outcome_of(const struct config *config, int lower, int higher)
{
    bool should = config->can[0] && config->can[1];

    if (lower == IPC_ACKED && higher == IPC_ACKED) {
        return should ? RIGHT : WRONG;
    }
    if (lower == IPC_BAD && higher == IPC_BAD) {
        return should ? STUCK : RIGHT;
    }
    return lower == IPC_INIT && higher == IPC_INIT ? NOT_YET : STUCK;
}

static void add_row(struct weft_text *text, const struct config *config)
{
    static const char *const sides[] = {"neither", "lower", "higher", "both"};
    bool ends[IPC_N_STATES][IPC_N_STATES], asserted = false;
    uint32_t n_states = walk_pair(config, ends, &asserted);

    ck_assert(!asserted);
    weft_text_add(text, "| %s | %s | %u |", sides[config->can[0] + 2 * config->can[1]],
                  sides[config->is_ready[0] + 2 * config->is_ready[1]], n_states);
    for (int outcome = 0; outcome < N_OUTCOMES; outcome++) {
        for (int i = 0; i < IPC_N_STATES * IPC_N_STATES; i++) {
            int lower = i / IPC_N_STATES, higher = i % IPC_N_STATES;

            if (ends[lower][higher] &&
                outcome_of(config, lower, higher) == (enum outcome)outcome) {
                weft_text_add(text, " %s/%s", ipc_state_name((enum ipc_state)lower),
                              ipc_state_name((enum ipc_state)higher));
            }
        }
        weft_text_add(text, " |");
    }
    weft_text_add(text, "\n");
}

START_TEST(where_it_gets_stuck_is_as_the_document_says)
{
    struct weft_text table = {0}, page = {0};

    for (unsigned can = 4; can-- > 0;) {
        for (unsigned ready = 4; ready-- > 0;) {
            const struct config config = {.can = {can & 1, can >> 1},
                                          .is_ready = {ready & 1, ready >> 1}};

            add_row(&table, &config);
        }
    }
    ck_assert_int_eq(weft_text_add_file(&page, "docs/ipc.md", 1 << 20), 0);
    if (strstr(page.bytes, table.bytes) == NULL) {
        ck_abort_msg("docs/ipc.md does not have this table:\n%s", table.bytes);
    }
    weft_text_fini(&table);
    weft_text_fini(&page);
}
END_TEST

START_TEST(crossing_requests_are_answered_by_the_higher_rank)
{
    struct smcuda_machine low = {.is_ready = true};
    struct smcuda_machine high = {.is_ready = true, .is_higher = true};

    ck_assert_int_eq(smcuda_send(&low), SMCUDA_REQUEST);
    ck_assert_int_eq(smcuda_send(&high), SMCUDA_REQUEST);
    ck_assert_int_eq(smcuda_send(&low), SMCUDA_NOTHING); /* a request is in transit */
    ck_assert_int_eq(smcuda_receive(&low, SMCUDA_REQUEST, true), SMCUDA_NOTHING);
    ck_assert_int_eq(low.state, IPC_SENT);
    ck_assert_int_eq(smcuda_receive(&high, SMCUDA_REQUEST, true), SMCUDA_ACK);
    ck_assert_int_eq(smcuda_receive(&low, SMCUDA_ACK, true), SMCUDA_NOTHING);
    ck_assert(smcuda_is_up(&low) && smcuda_is_up(&high));
}
END_TEST

/* A peer that is not ready for five sends is never asked again. */
START_TEST(the_sixth_try_is_never_made)
{
    struct smcuda_machine low = {.is_ready = true}, high = {.is_higher = true};

    for (unsigned i = 0; i < SMCUDA_TRIES_MAX; i++) {
        ck_assert_int_eq(smcuda_send(&low), SMCUDA_REQUEST);
        ck_assert_int_eq(smcuda_receive(&high, SMCUDA_REQUEST, true), SMCUDA_NOT_READY);
        ck_assert_int_eq(high.state, IPC_INIT);
        ck_assert_int_eq(smcuda_receive(&low, SMCUDA_NOT_READY, true), SMCUDA_NOTHING);
        ck_assert_int_eq(low.state, IPC_INIT);
    }
    high.is_ready = true;
    ck_assert_int_eq(smcuda_send(&low), SMCUDA_NOTHING);
    ck_assert_int_eq(low.state, IPC_BAD);
    /* The other end sends a request, which is never answered. */
    ck_assert_int_eq(smcuda_send(&high), SMCUDA_REQUEST);
    ck_assert_int_eq(smcuda_receive(&low, SMCUDA_REQUEST, true), SMCUDA_NOTHING);
    ck_assert_int_eq(high.state, IPC_SENT);
}
END_TEST

START_TEST(who_refuses_does_not_answer)
{
    struct smcuda_machine low = {.is_ready = true};
    struct smcuda_machine high = {.is_ready = true, .is_higher = true};

    ck_assert_int_eq(smcuda_send(&low), SMCUDA_REQUEST);
    ck_assert_int_eq(smcuda_receive(&high, SMCUDA_REQUEST, false), SMCUDA_NOTHING);
    ck_assert_int_eq(high.state, IPC_BAD);
    ck_assert_int_eq(low.state, IPC_SENT); /* permanently */
    ck_assert_int_eq(smcuda_send(&low), SMCUDA_NOTHING);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("smcuda");
    TCase *tcase = tcase_create("smcuda");

    tcase_add_test(tcase, where_it_gets_stuck_is_as_the_document_says);
    tcase_add_test(tcase, crossing_requests_are_answered_by_the_higher_rank);
    tcase_add_test(tcase, the_sixth_try_is_never_made);
    tcase_add_test(tcase, who_refuses_does_not_answer);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
