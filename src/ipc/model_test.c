/* Model check of two ends that negotiate CUDA IPC as link.h does: explores all interleavings
 * while messages are lost, ends are killed and devices change. From every state both ends can
 * still reach the right result. The argument `deep` checks larger limits, which takes minutes
 * and is not part of `make test`. smcuda_test.c checks the original. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "ipc/machine.h"
#include "ipc/walk_testing.h"

static bool is_deep;

/* ---- Weft's machine ---- */

#define WAY_MAX 12

struct ours_config {
    /* [side][later]: the result of judging in a first epoch, and in later ones */
    bool can[2][2];
    bool is_ready[2]; /* at the start; otherwise at any later time */
    uint8_t n_losses, n_renewals, n_deaths;
};

struct ours_side {
    struct ipc_machine machine;
    uint8_t judging; /* the epoch that is being judged; 0 if none */
    uint8_t n_renewals;
    bool is_dead;
    uint8_t n_way; /* number of messages in transit to it */
    uint8_t way[WAY_MAX];
};

struct ours {
    struct ours_side sides[2];
    uint8_t n_losses, n_deaths;
};

/* Packs a message into a byte: verdict or hello, again, accepts, about (2 bits), epoch (2 bits). */
static uint8_t pack_message(const struct ipc_event *event)
{
    bool is_verdict = event->input == IPC_VERDICT_IN;

    weft_check(event->epoch < 4 && event->about < 4);
    return (uint8_t)((is_verdict ? 0x40u : 0) | (event->is_again ? 0x20u : 0) |
                     (event->accepts ? 0x10u : 0) | event->about << 2 | event->epoch);
}

static struct ipc_event unpack_message(uint8_t byte)
{
    return (struct ipc_event){.input = byte & 0x40 ? IPC_VERDICT_IN : IPC_HELLO_IN,
                              .is_again = byte & 0x20,
                              .accepts = byte & 0x10,
                              .about = byte >> 2 & 3,
                              .epoch = byte & 3};
}

static void pack_ours(const struct ours *ours, struct walk_state *out)
{
    uint8_t *at = out->bytes;

    memset(out, 0, sizeof(*out));
    for (int i = 0; i < 2; i++) {
        const struct ours_side *side = &ours->sides[i];
        const struct ipc_machine *machine = &side->machine;

        *at++ = (uint8_t)machine->state;
        *at++ = (uint8_t)(machine->is_wanted | machine->is_ready << 1 |
                          machine->is_gone << 2 | side->is_dead << 3 |
                          (int)machine->own << 4 | (int)machine->peer << 6);
        *at++ = (uint8_t)(machine->epoch | machine->peer_epoch << 4);
        *at++ = side->judging;
        *at++ = side->n_renewals;
        *at++ = side->n_way;
        memcpy(at, side->way, side->n_way);
        at += WAY_MAX;
    }
    *at++ = ours->n_losses;
    *at = ours->n_deaths;
}

static void unpack_ours(const struct walk_state *state, struct ours *out)
{
    const uint8_t *at = state->bytes;

    *out = (struct ours){0};
    for (int i = 0; i < 2; i++) {
        struct ours_side *side = &out->sides[i];

        side->machine = (struct ipc_machine){.state = at[0],
                                             .is_wanted = at[1] & 1,
                                             .is_ready = at[1] >> 1 & 1,
                                             .is_gone = at[1] >> 2 & 1,
                                             .epoch = at[2] & 0xf,
                                             .peer_epoch = at[2] >> 4,
                                             .own = at[1] >> 4 & 3,
                                             .peer = at[1] >> 6};
        side->is_dead = at[1] >> 3 & 1;
        side->judging = at[3];
        side->n_renewals = at[4];
        side->n_way = at[5];
        memcpy(side->way, at + 6, WAY_MAX);
        at += 6 + WAY_MAX;
    }
    out->n_losses = at[0];
    out->n_deaths = at[1];
}

static void say(struct ours *ours, int to, struct ipc_event event)
{
    struct ours_side *side = &ours->sides[to];

    if (!side->is_dead) {
        weft_check(side->n_way < WAY_MAX);
        side->way[side->n_way++] = pack_message(&event);
    }
}

/* Steps the machine, and puts the messages of its actions in transit. */
static void happen(struct walk *walk, const struct ours *before, int i,
                   const struct ipc_event *event)
{
    struct ours ours = *before;
    struct ipc_machine *machine = &ours.sides[i].machine;
    struct ipc_actions actions = ipc_machine_step(machine, event);
    struct walk_state state;

    if (actions.says_hello) {
        say(&ours, 1 - i,
            (struct ipc_event){.input = IPC_HELLO_IN,
                               .epoch = machine->epoch,
                               .is_again = actions.is_again});
    }
    if (actions.says_verdict) {
        say(&ours, 1 - i,
            (struct ipc_event){.input = IPC_VERDICT_IN,
                               .epoch = machine->epoch,
                               .about = machine->peer_epoch,
                               .accepts = machine->own == IPC_ACCEPT,
                               .is_again = actions.is_again});
    }
    if (actions.judges) {
        ours.sides[i].judging = (uint8_t)machine->peer_epoch;
    } else if (event->input == IPC_JUDGED || machine->state != IPC_ACKING) {
        /* Results that arrive late are ignored; link_test.c tests them. */
        ours.sides[i].judging = 0;
    }
    pack_ours(&ours, &state);
    walk_next(walk, &state);
}

static void simply(struct walk *walk, const struct ours *ours, int i,
                   enum ipc_input input)
{
    happen(walk, ours, i, &(struct ipc_event){.input = input});
}

static bool finds(const struct ours_config *config, const struct ours *ours, int i)
{
    const struct ipc_machine *machine = &ours->sides[i].machine;

    return config->can[i][machine->epoch + machine->peer_epoch > 2];
}

static void take_message(struct walk *walk, const struct ours *ours, int i, bool is_lost)
{
    struct ours next = *ours;
    struct ours_side *side = &next.sides[i];
    struct ipc_event event = unpack_message(side->way[0]);
    struct walk_state state;

    side->n_way--;
    memmove(side->way, side->way + 1, side->n_way);
    side->way[side->n_way] = 0;
    if (!is_lost) {
        happen(walk, &next, i, &event);
        return;
    }
    next.n_losses--;
    pack_ours(&next, &state);
    walk_next(walk, &state);
}

static void die(struct walk *walk, const struct ours *ours, int i)
{
    struct ours next = *ours;
    struct walk_state state;

    next.n_deaths--;
    next.sides[i].is_dead = true;
    next.sides[i].judging = 0;
    next.sides[i].n_way = 0;
    memset(next.sides[i].way, 0, WAY_MAX);
    pack_ours(&next, &state);
    walk_next(walk, &state);
}

static void expand_side(struct walk *walk, const struct ours *ours, int i,
                        const struct ours_config *config)
{
    const struct ours_side *side = &ours->sides[i], *other = &ours->sides[1 - i];
    const struct ipc_machine *machine = &side->machine;

    if (!machine->is_wanted) {
        simply(walk, ours, i, IPC_WANTED);
    }
    if (!machine->is_ready) {
        simply(walk, ours, i, IPC_READY);
    }
    if (side->judging != 0) {
        happen(walk, ours, i,
               &(struct ipc_event){.input = IPC_JUDGED,
                                   .about = side->judging,
                                   .accepts = finds(config, ours, i)});
    }
    if (side->n_way > 0) {
        take_message(walk, ours, i, false);
        if (ours->n_losses > 0) {
            take_message(walk, ours, i, true);
        }
    }
    if (side->n_renewals > 0 && machine->epoch != 0 && !machine->is_gone &&
        other->n_way + 1 < WAY_MAX) {
        struct ours next = *ours;

        next.sides[i].n_renewals--;
        simply(walk, &next, i, IPC_RENEW);
    }
    /* Timers are longer than transit times, so no message is in transit when one expires. */
    if (config->n_losses > 0 && other->n_way == 0 && side->n_way == 0 &&
        !other->is_dead && (machine->state == IPC_SENT || machine->state == IPC_ACKED)) {
        simply(walk, ours, i, IPC_TIMER);
    }
    if (ours->n_deaths > 0) {
        die(walk, ours, i);
    }
    if (other->is_dead && !machine->is_gone) {
        simply(walk, ours, i, IPC_GONE);
    }
}

static void expand_ours(struct walk *walk, const struct walk_state *state,
                        const void *context)
{
    struct ours ours;

    unpack_ours(state, &ours);
    for (int i = 0; i < 2; i++) {
        if (!ours.sides[i].is_dead) {
            expand_side(walk, &ours, i, context);
        }
    }
}

/* Returns true if both ends have the right result. An end whose peer was killed must be BAD. */
static bool is_settled(const struct walk_state *state, const void *context)
{
    const struct ours_config *config = context;
    struct ours ours;
    bool is_ok;

    unpack_ours(state, &ours);
    for (int i = 0; i < 2; i++) {
        if (ours.sides[i].is_dead) {
            return ours.sides[1 - i].is_dead ||
                   ours.sides[1 - i].machine.state == IPC_BAD;
        }
    }
    is_ok = finds(config, &ours, 0) && finds(config, &ours, 1);
    for (int i = 0; i < 2; i++) {
        if (ours.sides[i].machine.state != (is_ok ? IPC_OK : IPC_BAD) ||
            ours.sides[i].n_way > 0) {
            return false;
        }
    }
    return true;
}

/* Returns true unless an end is OK although the peer did not accept in the same epochs. */
static bool is_safe(const struct walk_state *state)
{
    struct ours ours;

    unpack_ours(state, &ours);
    for (int i = 0; i < 2; i++) {
        const struct ipc_machine *one = &ours.sides[i].machine;
        const struct ipc_machine *two = &ours.sides[1 - i].machine;
        bool is_same = one->peer_epoch == two->epoch && two->peer_epoch == one->epoch;

        if (one->state == IPC_OK && is_same && two->own != IPC_ACCEPT) {
            return false;
        }
    }
    return true;
}

struct totals {
    unsigned n_configs;
    uint64_t n_states, n_edges, n_stuck, n_unsafe;
    uint32_t depth;
};

static void walk_ours(const struct ours_config *config, struct totals *totals)
{
    const struct walk_system system = {expand_ours, config};
    struct ours first = {.n_losses = config->n_losses, .n_deaths = config->n_deaths};
    struct walk_state state;
    struct walk walk;
    bool *can;

    for (int i = 0; i < 2; i++) {
        first.sides[i].machine.is_ready = config->is_ready[i];
        first.sides[i].n_renewals = config->n_renewals;
    }
    pack_ours(&first, &state);
    walk_all(&walk, &system, &state);
    can = walk_can_reach(&walk, is_settled);
    for (uint32_t i = 0; i < walk.n_states; i++) {
        bool is_end = walk.n_next[i] == 0 && !is_settled(&walk.states[i], config);

        totals->n_stuck += !can[i] || is_end;
        totals->n_unsafe += !is_safe(&walk.states[i]);
    }
    totals->n_configs++;
    totals->n_states += walk.n_states;
    totals->n_edges += walk.n_edges;
    totals->depth = walk.depth > totals->depth ? walk.depth : totals->depth;
    free(can);
    walk_fini(&walk);
}

/* Walks all combinations of access at each end, before and after a device changes, and of
 * contexts at the start. */
static void walk_ours_all(uint8_t n_losses, uint8_t n_renewals, uint8_t n_deaths,
                          struct totals *totals)
{
    unsigned n_access = n_renewals > 0 ? 16 : 4;

    for (unsigned access = 0; access < n_access; access++) {
        for (unsigned ready = 0; ready < 4; ready++) {
            unsigned later = n_renewals > 0 ? access >> 2 : access;
            const struct ours_config config = {
                .can = {{access & 1, later & 1}, {access >> 1 & 1, later >> 1 & 1}},
                .is_ready = {ready & 1, ready >> 1},
                .n_losses = n_losses,
                .n_renewals = n_renewals,
                .n_deaths = n_deaths};

            walk_ours(&config, totals);
        }
    }
}

START_TEST(ours_settles_whatever_happens)
{
    static const struct {
        const char *name;
        uint8_t n_losses, n_renewals, n_deaths;
        bool is_deep;
    } kinds[] = {
        {"nothing goes wrong", 0, 0, 0, false},
        {"a death", 0, 0, 1, false},
        {"both die", 0, 0, 2, false},
        {"two messages lost", 2, 0, 0, false},
        {"a loss and a death", 1, 0, 1, false},
        {"a new epoch each", 0, 1, 0, false},
        {"a new epoch each and a death", 0, 1, 1, true},
        {"a new epoch each and a loss", 1, 1, 0, true},
        {"five messages lost and a death", 5, 0, 1, true},
        {"two new epochs each", 0, 2, 0, true},
        {"a new epoch each, three losses and a death", 3, 1, 1, true},
    };

    for (size_t i = 0; i < WEFT_LENGTH(kinds); i++) {
        struct totals totals = {0};

        if (kinds[i].is_deep && !is_deep) {
            continue;
        }
        walk_ours_all(kinds[i].n_losses, kinds[i].n_renewals, kinds[i].n_deaths, &totals);
        printf("ours, %s: %u cases, %llu states, %llu steps, depth %u: %llu stuck\n",
               kinds[i].name, totals.n_configs, (unsigned long long)totals.n_states,
               (unsigned long long)totals.n_edges, totals.depth,
               (unsigned long long)totals.n_stuck);
        ck_assert_uint_eq(totals.n_stuck, 0);
        ck_assert_uint_eq(totals.n_unsafe, 0);
    }
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite = suite_create("ipc model");
    TCase *tcase = tcase_create("model");

    is_deep = argc > 1 && strcmp(argv[1], "deep") == 0;
    tcase_set_timeout(tcase, is_deep ? 0 : 60);
    tcase_add_test(tcase, ours_settles_whatever_happens);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
