/* Tests of mesh boot with faults of cables and processes. */
#include <errno.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "boot/mesh_testing.h"
#include "io/oob.h"

static const struct town_cable line[] = {{.a = 0, .b = 1}, {.a = 1, .b = 2}};
static const struct town_cable ring[] = {
    {.a = 0, .b = 1}, {.a = 1, .b = 2}, {.a = 2, .b = 3}, {.a = 0, .b = 3}};
static const struct town_cable twins[] = {{.a = 0, .b = 1}, {.a = 0, .b = 1}};
static const struct town_config line_of_3 = {.n_hosts = 3, .n_cables = 2, .cables = line};
static const struct town_config ring_of_4 = {.n_hosts = 4, .n_cables = 4, .cables = ring};

static const char *text_of(const struct town *town, uint32_t i)
{
    return town->members[i].error.message;
}

/* ---- cables ---- */

START_TEST(a_grid_with_dead_cables_still_boots)
{
    const struct town_cable grid[] = {{0, 1, true},  {1, 2, false}, {3, 4, false},
                                      {4, 5, true},  {6, 7, false}, {7, 8, false},
                                      {0, 3, false}, {3, 6, true},  {1, 4, true},
                                      {4, 7, false}, {2, 5, false}, {5, 8, false}};
    struct town_config config = {.n_hosts = 9, .n_cables = 12, .cables = grid};
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 3000);
    town_round(&town, 2, 0);
    ck_assert_str_eq(town_pairs(&town, 0), "0-3 1-2 2-5 3-4 4-7 5-8 6-7 7-8");
    town_close(&town);
}
END_TEST

/* A cable goes down in the middle of a round and comes back later. */
START_TEST(a_cable_that_goes_is_gone_round)
{
    struct town town;
    uint64_t changes;

    town_open(&town, &ring_of_4);
    town_open_all(&town);
    town_round(&town, 1, 8);
    town_run(&town, TOWN_S, NULL);
    changes = boot_links_changes(town.members[2].boot);
    for (uint32_t i = 0; i < 4; i++) {
        town_gather(&town, i, 2, 65536);
    }
    town_run(&town, 5 * TOWN_MS / 1000, NULL);
    ck_assert(!town_all_done(&town));
    town_inject(&town, WORLD_FAULT_DOWN, 0);
    ck_assert(town_run(&town, 10 * TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 4; i++) {
        town_check(&town, i, 2, 65536);
    }
    town_run(&town, 6 * TOWN_S, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_str_eq(town_pairs(&town, i), "0-3 1-2 2-3");
        ck_assert(boot_reaches(town.members[i].boot, (i + 1) % 4));
    }
    ck_assert_uint_gt(boot_links_changes(town.members[2].boot), changes);
    town_round(&town, 3, 100);
    town_inject(&town, WORLD_FAULT_UP, 0);
    town_run(&town, 5 * TOWN_S, NULL);
    ck_assert_str_eq(town_pairs(&town, 2), "0-1 0-3 1-2 2-3");
    town_round(&town, 4, 0);
    town_close(&town);
}
END_TEST

START_TEST(the_stream_moves_to_the_other_twin)
{
    struct town_config config = {.n_hosts = 2, .n_cables = 2, .cables = twins};
    struct boot_link links[4];
    struct town town;
    uint8_t port;

    town_open(&town, &config);
    town_open_all(&town);
    town_round(&town, 1, 8);
    town_run(&town, TOWN_S, NULL);
    ck_assert_uint_eq(boot_links(town.members[1].boot, links, 4), 2);
    ck_assert_int_eq(links[0].carries + links[1].carries, 1);
    port = links[0].carries ? links[0].a_port : links[1].a_port;
    town_inject(&town, WORLD_FAULT_DOWN, port);
    town_run(&town, 8 * TOWN_S, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(boot_links(town.members[i].boot, links, 4), 1);
        ck_assert(links[0].carries);
        ck_assert_uint_eq(links[0].a_port, 1 - port);
        ck_assert_uint_eq(links[0].b_port, 1 - port);
    }
    town_round(&town, 2, 65536);
    town_close(&town);
}
END_TEST

START_TEST(a_partition_is_named_on_both_sides)
{
    bool from_the_start = _i == 1;
    const struct town_cable cut[] = {{.a = 0, .b = 1},
                                     {.a = 1, .b = 2, .is_down = from_the_start}};
    struct town_config config = {.n_hosts = 3, .n_cables = 2, .cables = cut};
    weft_ns limit = from_the_start ? 60 * TOWN_S : 20 * TOWN_S, since;
    struct town town;

    town_open(&town, &config);
    town_open_all(&town);
    if (!from_the_start) {
        town_round(&town, 1, 8);
        town_inject(&town, WORLD_FAULT_DOWN, 1);
        town_run(&town, TOWN_S, NULL);
    }
    since = town_now(&town);
    for (uint32_t i = 0; i < 3; i++) {
        town_gather(&town, i, 2, 8);
    }
    ck_assert(town_run(&town, 2 * limit, town_all_done));
    ck_assert_int_le(town_now(&town) - since, limit + TOWN_S);
    ck_assert_int_ge(town_now(&town) - since, limit - TOWN_S);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_lt(town.members[i].status, 0);
        ck_assert_int_eq(town_rank_at_fault(&town, i), i < 2            ? 2
                                                       : from_the_start ? 0
                                                                        : 1);
        ck_assert_ptr_nonnull(
            strstr(text_of(&town, i), from_the_start ? "never heard of" : "cut off"));
    }
    ck_assert_int_eq(town.members[2].status, WEFT_ERR_TIMEOUT);
    if (!from_the_start) { /* the one beside the gap reports first */
        ck_assert_int_eq(town.members[1].status, WEFT_ERR_TIMEOUT);
        ck_assert_int_eq(town.members[0].status, WEFT_ERR_CLOSED);
    }
    ck_assert_str_eq(town_missing(&town, 2), "0,1");
    town_close(&town);
}
END_TEST

/* Every cable loses 10 % of its frames. */
START_TEST(lost_frames_cost_time_only)
{
    struct world_fault loss = {.kind = WORLD_FAULT_LOSS, .share_ppb = 100000000};
    struct town town;

    town_open(&town, &ring_of_4);
    for (uint32_t i = 0; i < 4; i++) {
        loss.host = ring[i].a;
        loss.has_port = true;
        loss.port = town.ports[i][0];
        ck_assert_int_eq(backend_sim.inject(town.world, &loss), 0);
    }
    town_open_all(&town);
    town_round(&town, 1, 5000);
    town_round(&town, 2, 0);
    town_close(&town);
}
END_TEST

static bool one_is_done(const struct town *town)
{
    for (uint32_t i = 0; i < town->n_members; i++) {
        if (town->members[i].boot != NULL && town->members[i].status != WEFT_AGAIN) {
            return true;
        }
    }
    return false;
}

/* The cable between members 1 and 2 loses all but small frames. Streams come up on it again and
 * again, and no blob arrives. Loop 1: nor is it member 0, which ended, that member 2 names before
 * the step is over. */
START_TEST(a_cable_that_passes_small_frames_only_is_named_at_its_ends)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_PATH_LIMIT, .host = 1, .has_port = true, .size_bytes = 1500};
    struct town town;

    town_open(&town, &line_of_3);
    fault.port = town.ports[1][0];
    ck_assert_int_eq(backend_sim.inject(town.world, &fault), 0);
    town_open_all(&town);
    for (uint32_t i = 0; i < 3; i++) {
        town_gather(&town, i, 1, 4000);
    }
    if (_i == 1) {
        town_run(&town, 9 * TOWN_S, NULL);
        town_member_close(&town, 0);
        boot_ended(town.members[2].boot, 0);
    }
    ck_assert(_i == 1 ? town_run(&town, 9 * TOWN_S, one_is_done)
                      : town_run(&town, 25 * TOWN_S, town_all_done));
    for (uint32_t i = 2; i > (uint32_t)_i; i--) {
        const struct weft_value *silenced =
            weft_error_value(&town.members[i].error, WEFT_VALUE_SILENCED);

        ck_assert_int_eq(town.members[i].status, WEFT_ERR_TIMEOUT);
        ck_assert_int_eq(town_rank_at_fault(&town, i), 3 - i);
        ck_assert_ptr_nonnull(strstr(text_of(&town, i), "no data comes from it"));
        ck_assert_ptr_nonnull(silenced);
        ck_assert_int_ge(silenced->number, 2);
    }
    town_close(&town);
}
END_TEST

/* ---- processes ---- */

START_TEST(who_is_late_is_named)
{
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    town_gather(&town, 0, 2, 8);
    town_gather(&town, 1, 2, 8);
    ck_assert(!town_run(&town, 19 * TOWN_S, town_all_done));
    ck_assert(town_run(&town, 2 * TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(town_rank_at_fault(&town, i), 2);
        ck_assert_ptr_nonnull(strstr(text_of(&town, i), "is late"));
    }
    town_close(&town);
}
END_TEST

/* Member 1 is late because it waits for member 2, which is lost. */
START_TEST(who_is_lost_is_named_before_who_is_late)
{
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    town_inject(&town, WORLD_FAULT_DOWN, 1);
    town_gather(&town, 0, 2, 8);
    ck_assert(town_run(&town, 21 * TOWN_S, town_all_done));
    ck_assert_int_eq(town_rank_at_fault(&town, 0), 2);
    ck_assert_ptr_nonnull(strstr(text_of(&town, 0), "is cut off"));
    ck_assert_str_eq(town_missing(&town, 0), "1,2");
    town_close(&town);
}
END_TEST

/* Checks that a member whose neighbour died, and only such a one, says that its stream ended. */
static void check_ends(const struct town *town, uint32_t gone, bool has_died)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < 3; i++) {
        n += i != gone &&
             weft_error_value(&town->members[i].error, WEFT_VALUE_STREAM_ENDED) != NULL;
    }
    ck_assert_int_eq(n > 0, has_died);
}

/* A member closes, exits, loses its power or gives up; the others report which member and why. */
START_TEST(who_goes_is_named_to_all)
{
    uint32_t gone = (uint32_t)_i % 3;
    int way = _i / 3;
    struct town town;
    weft_ns since;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    town_run(&town, TOWN_S, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != gone) {
            town_gather(&town, i, 2, 8);
        }
    }
    since = town_now(&town);
    if (way == 0) {
        town_member_close(&town, gone);
    } else if (way == 1) { /* without BYE; the kernel closes its streams */
        town.members[gone].boot->error.status = WEFT_ERR_SYSTEM;
        town_member_close(&town, gone);
    } else if (way == 2) {
        struct world_fault kill = {.kind = WORLD_FAULT_KILL, .host = gone};

        ck_assert_int_eq(backend_sim.inject(town.world, &kill), 0);
        town.members[gone].status = WEFT_OK;
    } else {
        boot_abort(town.members[gone].boot, "out of luck");
        town.members[gone].status = WEFT_ERR_CLOSED;
    }
    ck_assert(town_run(&town, 30 * TOWN_S, town_all_done));
    check_ends(&town, gone, way == 1 || way == 2);
    ck_assert_int_lt(town_now(&town) - since, (way == 2 ? 4000 : 50) * TOWN_MS);
    for (uint32_t i = 0; i < 3; i++) {
        static const char *const words[] = {"left", "died", "died", "out of luck"};

        if (i != gone) {
            ck_assert_int_eq(town.members[i].status, WEFT_ERR_CLOSED);
            ck_assert_int_eq(town_rank_at_fault(&town, i), gone);
            ck_assert_ptr_nonnull(strstr(text_of(&town, i), words[way]));
        }
    }
    town_close(&town);
}
END_TEST

/* Returns true if the neighbours of `i` in a line have the whole round. */
static bool neighbours_have(const struct town *town, uint32_t i, uint32_t round)
{
    for (uint32_t j = i == 0 ? 0 : i - 1; j <= i + 1 && j < town->n_members; j++) {
        const struct boot *boot = town->members[j].boot;

        if (boot != NULL && boot->mesh->whole_round < round) {
            return false;
        }
    }
    return true;
}

START_TEST(leaving_when_all_is_done_is_no_failure)
{
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    for (uint32_t i = 0; i < 3; i++) {
        town_gather(&town, i, 2, 30000);
    }
    /* A member that has the result closes at once; the others still get theirs. */
    for (uint32_t n = 0; n < 3;) {
        ck_assert(town_run(&town, 5 * TOWN_S, one_is_done));
        for (uint32_t i = 0; i < 3; i++) {
            if (town.members[i].boot != NULL && town.members[i].status != WEFT_AGAIN) {
                town_check(&town, i, 2, 30000);
                ck_assert(neighbours_have(&town, i, 2));
                town_member_close(&town, i);
                n++;
            }
        }
    }
    town_close(&town);
}
END_TEST

/* Makes the cable between members 1 and 2 lose all that 1 sends; `share_ppb` is 0 to end that. */
static void lose_one_way(struct town *town, uint32_t share_ppb)
{
    struct world_fault fault = {.kind = WORLD_FAULT_LOSS,
                                .host = 1,
                                .has_port = true,
                                .port = town->ports[1][0],
                                .direction = WORLD_OUTWARDS,
                                .share_ppb = share_ppb};

    ck_assert_int_eq(backend_sim.inject(town->world, &fault), 0);
}

static void gather_last(struct town *town, uint32_t i)
{
    struct town_member *member = &town->members[i];
    uint8_t mine[8];

    memset(mine, (int)(32 + i), sizeof(mine)); /* as town_check() expects of round 2 */
    member->status = WEFT_AGAIN;
    boot_gather_last(member->boot, mine, sizeof(mine), 0);
}

/* The cable goes down when one end has the other's blob, and comes back after the stream was
 * dropped; the round that is complete at one end is not at the other. If the cable stays down, the
 * wait ends. If it is dead in one direction only, the end that hears nothing resets the stream,
 * which is not the end of its process. */
START_TEST(who_has_the_round_waits_for_a_silent_neighbour)
{
    static const struct {
        const char *what;
        uint32_t silent; /* 2 is dialled, 0 dials */
        bool is_one_way, stays_down;
        weft_ns after_ns; /* from the end of the round to when the cable comes back */
    } rows[] = {
        {"the silent end is dialled", 2, false, false, TOWN_S},
        {"and the cable stays down", 2, false, true, TOWN_S},
        {"the silent end dials and only probed", 0, false, false, TOWN_S},
        {"100 ms later", 0, false, false, 1100 * TOWN_MS},
        {"200 ms later", 0, false, false, 1200 * TOWN_MS},
        {"300 ms later", 0, false, false, 1300 * TOWN_MS},
        {"400 ms later", 0, false, false, 1400 * TOWN_MS},
        {"500 ms later", 0, false, false, 1500 * TOWN_MS},
        {"600 ms later", 0, false, false, 1600 * TOWN_MS},
        {"700 ms later", 0, false, false, 1700 * TOWN_MS},
        {"800 ms later", 0, false, false, 1800 * TOWN_MS},
        {"900 ms later", 0, false, false, 1900 * TOWN_MS},
        {"one direction is dead", 2, true, false, TOWN_S},
        {"one direction stays dead", 2, true, true, TOWN_S},
    };
    bool is_one_way = rows[_i].is_one_way, comes_back = !rows[_i].stays_down;
    uint32_t silent = rows[_i].silent;
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    gather_last(&town, 1);
    gather_last(&town, silent);
    town_run(&town, TOWN_S, NULL);
    if (is_one_way) {
        lose_one_way(&town, 1000000000);
    } else {
        town_inject(&town, WORLD_FAULT_DOWN, silent / 2);
    }
    town_run(&town, 3500 * TOWN_MS, NULL);
    gather_last(&town, 2 - silent);
    town_run(&town, rows[_i].after_ns, NULL);
    ck_assert_msg(strcmp(town_pairs(&town, 1), silent == 2 ? "0-1" : "1-2") == 0, "%s",
                  rows[_i].what);
    ck_assert_int_eq(town.members[1].status, WEFT_AGAIN);
    if (comes_back && is_one_way) {
        lose_one_way(&town, 0);
    } else if (comes_back) {
        town_inject(&town, WORLD_FAULT_UP, silent / 2);
    }
    for (uint32_t n_done = 0; n_done < (comes_back ? 3 : 2);) {
        ck_assert(town_run(&town, 6 * TOWN_S, one_is_done));
        for (uint32_t i = 0; i < 3; i++) {
            if (town.members[i].boot != NULL && town.members[i].status != WEFT_AGAIN) {
                town_check(&town, i, 2, 8);
                town_member_close(&town, i);
                n_done++;
            }
        }
    }
    ck_assert_int_eq(town.members[silent].boot == NULL, comes_back);
    town_close(&town);
}
END_TEST

/* Member 2 has no rank. Its cable goes down and stays so when all are in the last round; in loop 1
 * before the others have its blob. It cannot relay and has no result, so it ends well, and so do
 * the others, as soon as one of them has waited long enough. A rank in its place (loops 2 and 3)
 * names the neighbour that it lost. */
START_TEST(a_relay_that_is_cut_off_in_the_last_round_ends)
{
    bool is_rank = _i >= 2, is_before = _i % 2 == 1;
    struct town town;
    weft_ns since;

    town_open(&town, &line_of_3);
    for (uint32_t i = 0; i < 3; i++) {
        town.members[i].config.n_members = 3;
        town.members[i].config.n_ranks = is_rank ? 3 : 2;
    }
    town_open_all(&town);
    town_round(&town, 1, 8);
    for (uint32_t i = 1; i < 3 && !is_before; i++) {
        gather_last(&town, i);
    }
    town_run(&town, TOWN_S, NULL);
    town_inject(&town, WORLD_FAULT_DOWN, 1);
    town_run(&town, 5 * TOWN_S, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        if (town.members[i].status != WEFT_AGAIN) {
            gather_last(&town, i);
        }
    }
    since = town_now(&town);
    ck_assert(town_run(&town, 30 * TOWN_S, town_all_done));
    ck_assert_int_le(town_now(&town) - since, 21 * TOWN_S);
    for (uint32_t i = 0; i < 3; i++) {
        bool fails = is_rank && (i == 2 || is_before);

        ck_assert_int_eq(town.members[i].status < 0, fails);
        ck_assert(!fails || town_rank_at_fault(&town, i) == (i == 2 ? 1 : 2));
    }
    town_close(&town);
}
END_TEST

/* Member 1 dies after it gave its blob, when member 3 is still to come, so that the round can
 * neither complete nor fail because of a missing blob of the dead one. */
START_TEST(who_dies_after_it_gave_is_named)
{
    static const struct town_cable cables[] = {
        {.a = 0, .b = 1}, {.a = 1, .b = 2}, {.a = 2, .b = 3}};
    struct town_config config = {.n_hosts = 4, .n_cables = 3, .cables = cables};
    struct world_fault kill = {.kind = WORLD_FAULT_KILL, .host = 1};
    struct town town;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 3; i++) {
        town_member_open(&town, i);
        town_gather(&town, i, 1, 8);
    }
    town_run(&town, TOWN_S, NULL);
    ck_assert_int_eq(backend_sim.inject(town.world, &kill), 0);
    town.members[1].status = WEFT_OK;
    ck_assert(town_run(&town, 4 * TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 3; i += 2) {
        ck_assert_int_eq(town.members[i].status, WEFT_ERR_CLOSED);
        ck_assert_int_eq(town_rank_at_fault(&town, i), 1);
    }
    town_close(&town);
}
END_TEST

static const struct io_oob_ops *real_oob;
static bool is_full; /* the streams of this process accept nothing */

static int send_unless_full(struct io_stream *stream, const void *bytes, size_t n_bytes,
                            size_t *out_n)
{
    return is_full ? EAGAIN : real_oob->send(stream, bytes, n_bytes, out_n);
}

/* A stream had no room for some time. Once it has, all is sent at once, because a real stream that
 * accepts all raises no further event. */
START_TEST(a_full_stream_goes_on_at_once)
{
    struct mesh_peer *peer;
    struct io_oob_ops oob;
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    real_oob = town.members[1].env->oob;
    oob = *real_oob;
    oob.send = send_unless_full;
    town.members[1].env->oob = &oob;
    is_full = true;
    town_gather(&town, 0, 2, 30000);
    town_gather(&town, 1, 2, 30000);
    town_run(&town, 20 * TOWN_MS, NULL);
    peer = town.members[1].boot->mesh->members[2].peer;
    ck_assert_uint_gt(frame_queued(&peer->stream.link), 0);
    is_full = false;
    mesh_peer_pump(town.members[1].boot, peer);
    ck_assert(peer->known[0][0].whole && peer->known[1][0].whole);
    town_gather(&town, 2, 2, 30000);
    ck_assert(town_run(&town, TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 3; i++) {
        town_check(&town, i, 2, 30000);
    }
    town.members[1].env->oob = real_oob;
    town_close(&town);
}
END_TEST

/* A stopped process is not taken for a dead one. */
START_TEST(a_process_that_slept_comes_back)
{
    struct world_fault stop = {
        .kind = WORLD_FAULT_STOP, .host = 1, .for_ns = 12 * TOWN_S};
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    town_round(&town, 1, 8);
    for (uint32_t i = 0; i < 3; i++) {
        town_gather(&town, i, 2, 30000);
    }
    ck_assert_int_eq(backend_sim.inject(town.world, &stop), 0);
    town_run(&town, 11 * TOWN_S, NULL);
    ck_assert(!town_all_done(&town));
    ck_assert_str_eq(town_pairs(&town, 0), "");
    ck_assert(town_run(&town, 5 * TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 3; i++) {
        town_check(&town, i, 2, 30000);
    }
    town_round(&town, 3, 0);
    town_close(&town);
}
END_TEST

START_TEST(blobs_of_different_sizes_are_told)
{
    struct town town;

    town_open(&town, &line_of_3);
    town_open_all(&town);
    for (uint32_t i = 0; i < 3; i++) {
        town_gather(&town, i, 1, i == 2 ? 4 : 8);
    }
    ck_assert(town_run(&town, TOWN_S, town_all_done));
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_lt(town.members[i].status, 0);
    }
    town_close(&town);
}
END_TEST

START_TEST(one_rank_on_two_hosts_is_told)
{
    struct town town;

    town_open(&town, &line_of_3);
    for (uint32_t i = 0; i < 3; i++) {
        town.members[i].config.n_ranks = 2;
        town.members[i].config.rank = i % 2;
    }
    town_open_all(&town);
    for (uint32_t i = 0; i < 3; i++) {
        town_gather(&town, i, 1, 8);
    }
    ck_assert(town_run(&town, 90 * TOWN_S, town_all_done));
    ck_assert_int_eq(town.members[1].status, WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(town_rank_at_fault(&town, 1), 0);
    ck_assert_ptr_nonnull(strstr(text_of(&town, 1), "two hosts"));
    town_close(&town);
}
END_TEST

/* Before a round is complete, a new process replaces the member's earlier one. */
START_TEST(a_process_that_is_started_again_is_the_member)
{
    struct town town;

    town_open(&town, &line_of_3);
    town_member_open(&town, 0);
    town_member_open(&town, 1);
    town_run(&town, TOWN_S, NULL);
    town.members[1].boot->error.status = WEFT_ERR_SYSTEM; /* no BYE */
    town_member_close(&town, 1);
    town_run(&town, TOWN_S, NULL);
    town_member_open(&town, 1);
    town_member_open(&town, 2);
    town_run(&town, TOWN_S, NULL);
    town_round(&town, 1, 8);
    town_close(&town);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh, faults");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_grid_with_dead_cables_still_boots);
    tcase_add_test(tcase, a_cable_that_goes_is_gone_round);
    tcase_add_test(tcase, the_stream_moves_to_the_other_twin);
    tcase_add_loop_test(tcase, a_relay_that_is_cut_off_in_the_last_round_ends, 0, 4);
    tcase_add_test(tcase, who_is_lost_is_named_before_who_is_late);
    tcase_add_test(tcase, who_dies_after_it_gave_is_named);
    tcase_add_loop_test(tcase, a_partition_is_named_on_both_sides, 0, 2);
    tcase_add_test(tcase, lost_frames_cost_time_only);
    tcase_add_loop_test(tcase, a_cable_that_passes_small_frames_only_is_named_at_its_ends,
                        0, 2);
    tcase_add_test(tcase, who_is_late_is_named);
    tcase_add_loop_test(tcase, who_goes_is_named_to_all, 0, 12);
    tcase_add_test(tcase, leaving_when_all_is_done_is_no_failure);
    tcase_add_loop_test(tcase, who_has_the_round_waits_for_a_silent_neighbour, 0, 14);
    tcase_add_test(tcase, a_full_stream_goes_on_at_once);
    tcase_add_test(tcase, a_process_that_slept_comes_back);
    tcase_add_test(tcase, blobs_of_different_sizes_are_told);
    tcase_add_test(tcase, one_rank_on_two_hosts_is_told);
    tcase_add_test(tcase, a_process_that_is_started_again_is_the_member);
    return suite_run(suite);
}
