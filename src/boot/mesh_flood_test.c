/* Tests of records and pieces from a neighbour: stale, early, with gaps, and of earlier
 * processes. */
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "boot/mesh_testing.h"

#define N 4 /* this process is member 0; member 1 is a neighbour, 2 and 3 are behind it */

struct stage {
    struct town town;
    struct boot *boot;
    struct mesh *mesh;
    struct mesh_peer *peer;
    struct weft_error error;
};

static struct record_identity process(uint8_t host, uint64_t started, uint64_t nonce)
{
    struct record_identity out = {.started_ns = started, .nonce = nonce};

    memset(out.host_id, host, sizeof(out.host_id));
    return out;
}

static void stage_open(struct stage *stage)
{
    static const struct town_config config = {.n_hosts = 1};
    struct record_identity first = process(1, 100, 11);

    memset(stage, 0, sizeof(*stage));
    town_open(&stage->town, &config);
    stage->town.members[0].config.n_ranks = N;
    town_member_open(&stage->town, 0);
    stage->boot = stage->town.members[0].boot;
    stage->mesh = stage->boot->mesh;
    stage->peer = mesh_peer_of(stage->boot, 1);
    ck_assert_int_eq(mesh_meet(stage->boot, 1, &first), WEFT_OK);
}

static void stage_close(struct stage *stage)
{
    town_close(&stage->town);
}

static weft_status take(struct stage *stage, enum codec_type type, const uint8_t *body,
                        size_t n_bytes)
{
    struct frame frame = {.type = type, .body = body, .n_bytes = n_bytes};

    weft_error_clear(&stage->error);
    return mesh_take(stage->boot, stage->peer, &frame, &stage->error);
}

static weft_status links(struct stage *stage, uint32_t member,
                         struct record_identity identity, uint64_t sequence,
                         uint32_t neighbour)
{
    struct record_links record = {.member = member,
                                  .identity = identity,
                                  .sequence = sequence,
                                  .n_entries = 1,
                                  .entries = {{.member = neighbour, .flags = 1}}};
    uint8_t body[CODEC_BODY_MAX];

    return take(stage, CODEC_LINKS, body, record_encode_links(&record, body));
}

static weft_status piece_of(struct stage *stage, uint32_t member, uint32_t round,
                            uint32_t each, uint32_t offset, const char *bytes)
{
    uint64_t nonce = stage->mesh->members[member].identity.nonce;
    struct record_piece record = {.member = member,
                                  .nonce = nonce,
                                  .round = round,
                                  .each = each,
                                  .offset = offset,
                                  .n_bytes = (uint32_t)strlen(bytes),
                                  .bytes = (const uint8_t *)bytes};
    uint8_t body[CODEC_BODY_MAX];

    return take(stage, CODEC_PIECE, body, record_encode_piece(&record, body));
}

static weft_status piece(struct stage *stage, uint64_t nonce, uint32_t round,
                         uint32_t offset, const char *bytes)
{
    struct record_piece record = {.member = 2,
                                  .nonce = nonce,
                                  .round = round,
                                  .each = 8,
                                  .offset = offset,
                                  .n_bytes = (uint32_t)strlen(bytes),
                                  .bytes = (const uint8_t *)bytes};
    uint8_t body[CODEC_BODY_MAX];

    return take(stage, CODEC_PIECE, body, record_encode_piece(&record, body));
}

START_TEST(older_records_never_replace_newer_ones)
{
    struct record_identity two = process(2, 100, 22);
    struct mesh_member *member;
    struct stage stage;

    stage_open(&stage);
    member = &stage.mesh->members[2];
    ck_assert(!member->is_known);
    ck_assert_int_eq(links(&stage, 2, two, 5, 1), WEFT_OK);
    ck_assert(member->is_known);
    ck_assert_uint_eq(stage.mesh->n_known, 2);
    ck_assert_int_eq(links(&stage, 2, two, 4, 3), WEFT_OK);
    ck_assert_uint_eq(member->sequence, 5);
    ck_assert_uint_eq(member->entries[0].member, 1);
    ck_assert_int_eq(links(&stage, 2, two, 5, 3), WEFT_OK);
    ck_assert_uint_eq(member->entries[0].member, 1);
    ck_assert_int_eq(links(&stage, 2, two, 6, 3), WEFT_OK);
    ck_assert_uint_eq(member->sequence, 6);
    ck_assert_uint_eq(member->entries[0].member, 3);
    ck_assert_uint_eq(stage.mesh->n_known, 2);
    stage_close(&stage);
}
END_TEST

/* The later process numbers its records from 1 again. Those of the earlier process are discarded,
 * and ignored when they come again. */
START_TEST(a_later_process_takes_the_place_of_an_earlier_one)
{
    struct record_identity early = process(2, 100, 22), late = process(2, 200, 33);
    struct mesh_member *member;
    struct stage stage;

    stage_open(&stage);
    member = &stage.mesh->members[2];
    ck_assert_int_eq(links(&stage, 2, early, 9, 1), WEFT_OK);
    ck_assert_int_eq(piece(&stage, 22, 1, 0, "12345678"), WEFT_OK);
    ck_assert(member->blobs[1].whole);
    ck_assert_int_eq(links(&stage, 2, late, 1, 3), WEFT_OK);
    ck_assert_uint_eq(member->identity.nonce, 33);
    ck_assert_uint_eq(member->sequence, 1);
    ck_assert_uint_eq(member->blobs[1].round, 0);
    ck_assert_uint_eq(stage.mesh->n_known, 2);
    ck_assert_int_eq(links(&stage, 2, early, 10, 1), WEFT_OK);
    ck_assert_int_eq(piece(&stage, 22, 1, 0, "12345678"), WEFT_OK);
    ck_assert_uint_eq(member->identity.nonce, 33);
    ck_assert_uint_eq(member->entries[0].member, 3);
    ck_assert_uint_eq(member->blobs[1].round, 0);
    ck_assert_int_eq(stage.boot->error.status, WEFT_OK);
    stage_close(&stage);
}
END_TEST

START_TEST(after_a_round_another_process_is_a_death)
{
    struct stage stage;

    stage_open(&stage);
    ck_assert_int_eq(links(&stage, 2, process(2, 100, 22), 1, 1), WEFT_OK);
    stage.boot->round = 1; /* and complete */
    ck_assert_int_eq(links(&stage, 2, process(2, 200, 33), 1, 1), WEFT_ERR_CLOSED);
    ck_assert_int_eq(stage.boot->error.status, WEFT_ERR_CLOSED);
    ck_assert_int_eq(weft_error_value(&stage.boot->error, WEFT_VALUE_RANK)->number, 2);
    ck_assert_ptr_nonnull(strstr(stage.boot->error.message, "in its place"));
    stage_close(&stage);
}
END_TEST

START_TEST(a_member_on_another_host_is_a_conflict)
{
    struct stage stage;

    stage_open(&stage);
    ck_assert_int_eq(links(&stage, 2, process(2, 100, 22), 1, 1), WEFT_OK);
    ck_assert_int_eq(links(&stage, 2, process(7, 200, 33), 1, 1), WEFT_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(stage.boot->error.message, "two hosts"));
    stage_close(&stage);
}
END_TEST

START_TEST(pieces_grow_a_blob_from_its_start)
{
    struct mesh_blob *blob;
    struct stage stage;

    stage_open(&stage);
    blob = &stage.mesh->members[2].blobs[1];
    ck_assert_int_eq(piece(&stage, 22, 1, 0, "1234"),
                     WEFT_OK); /* member 2 is not known yet */
    ck_assert_uint_eq(blob->round, 0);
    ck_assert_int_eq(links(&stage, 2, process(2, 100, 22), 1, 1), WEFT_OK);
    ck_assert_int_eq(piece(&stage, 22, 1, 0, "1234"), WEFT_OK);
    ck_assert_uint_eq(blob->received, 4);
    ck_assert(!blob->whole);
    ck_assert_int_eq(piece(&stage, 22, 1, 2, "34"), WEFT_OK);
    ck_assert_uint_eq(blob->received, 4);
    ck_assert_int_eq(piece(&stage, 22, 1, 5, "678"), WEFT_ERR_PROTOCOL); /* a gap */
    ck_assert_int_eq(piece(&stage, 22, 1, 3, "45678"), WEFT_OK);
    ck_assert(blob->whole);
    ck_assert_mem_eq(blob->bytes, "12345678", 8);
    ck_assert_int_eq(stage.boot->error.status, WEFT_OK);
    stage_close(&stage);
}
END_TEST

/* A neighbour that had more of a blob than there is would be sent what follows it in memory. */
START_TEST(pieces_of_a_blob_have_one_size)
{
    static const struct {
        uint32_t member, round, each;
        weft_status status;
    } rows[] =
        {
            {0, 2, 8, WEFT_OK},           {0, 2, 9, WEFT_ERR_PROTOCOL},
            {0, 1, 8, WEFT_OK},           {0, 1, 9, WEFT_ERR_PROTOCOL},
            {0, 3, 8, WEFT_ERR_PROTOCOL}, /* this process has not begun it */
            {2, 2, 8, WEFT_OK},           {2, 2, 9, WEFT_ERR_PROTOCOL},
            {2, 1, 8, WEFT_OK},           {2, 1, 9, WEFT_ERR_PROTOCOL},
            {2, 3, 9, WEFT_OK},
        };
    struct stage stage;

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        stage_open(&stage);
        ck_assert_int_eq(links(&stage, 2, process(2, 100, 22), 1, 1), WEFT_OK);
        for (uint32_t round = 1; round <= 2; round++) {
            boot_gather(stage.boot, "own blob", 8);
            ck_assert_int_eq(piece_of(&stage, 2, round, 8, 0, "12345678"), WEFT_OK);
            stage.boot->is_active = false;
        }
        ck_assert_int_eq(
            piece_of(&stage, rows[i].member, rows[i].round, rows[i].each, 0, "1234"),
            rows[i].status);
        ck_assert_int_eq(stage.boot->error.status, WEFT_OK);
        stage_close(&stage);
    }
}
END_TEST

static weft_status alive(struct stage *stage, uint32_t round)
{
    struct record_alive record = {.round = round};
    uint8_t body[CODEC_BODY_MAX];

    return take(stage, CODEC_ALIVE, body, record_encode_alive(&record, body));
}

/* Otherwise this process could leave before the neighbour has the blobs of the others. */
START_TEST(no_neighbour_has_a_round_that_this_process_has_not_begun)
{
    struct stage stage;

    stage_open(&stage);
    stage.boot->round = 5;
    ck_assert_int_eq(alive(&stage, 6), WEFT_ERR_PROTOCOL);
    ck_assert_uint_eq(stage.peer->has_round, 0);
    ck_assert_int_eq(alive(&stage, 4), WEFT_OK);
    ck_assert_int_eq(alive(&stage, 5), WEFT_OK);
    ck_assert_uint_eq(stage.peer->has_round, 5);
    ck_assert_int_eq(alive(&stage, 4), WEFT_OK); /* a process was replaced */
    ck_assert_uint_eq(stage.peer->has_round, 4);
    /* With may_miss the others go on without this process. */
    stage.boot->config.may_miss = true;
    ck_assert_int_eq(alive(&stage, 9), WEFT_OK);
    stage_close(&stage);
}
END_TEST

/* A member's process is replaced while the neighbour may still lack the round. The round is whole
 * again with the blob of the new process, and only then complete. */
START_TEST(a_round_that_lost_a_blob_is_not_whole)
{
    struct record_identity late = process(2, 200, 33);
    struct stage stage;

    stage_open(&stage);
    boot_gather(stage.boot, "own blob", 8);
    for (uint32_t m = 1; m < N; m++) {
        struct record_identity identity =
            process((uint8_t)m, 100, m == 1 ? 11 : 10 * m + m);

        ck_assert_int_eq(links(&stage, m, identity, 1, 0), WEFT_OK);
        ck_assert_int_eq(piece_of(&stage, m, 1, 8, 0, "12345678"), WEFT_OK);
    }
    stage.peer->is_suspect = true; /* it fell silent, so that this process waits for it */
    stage.peer->suspect_ns = town_now(&stage.town) + 1;
    town_run(&stage.town, TOWN_S, NULL);
    ck_assert_uint_eq(stage.mesh->whole_round, 1);
    ck_assert_int_eq(stage.town.members[0].status, WEFT_AGAIN);
    ck_assert_int_eq(links(&stage, 2, late, 1, 3), WEFT_OK);
    town_run(&stage.town, 8 * TOWN_S, NULL);
    ck_assert_uint_eq(stage.mesh->whole_round, 0);
    ck_assert_int_eq(stage.town.members[0].status, WEFT_AGAIN);
    ck_assert_int_eq(piece_of(&stage, 2, 1, 8, 0, "new blob"), WEFT_OK);
    io_task_wake(boot_task(stage.boot));
    town_run(&stage.town, TOWN_S, NULL);
    ck_assert_int_eq(stage.town.members[0].status, WEFT_OK);
    ck_assert_mem_eq(boot_result(stage.boot), "own blob12345678new blob12345678", 32);
    stage_close(&stage);
}
END_TEST

START_TEST(rounds_are_the_present_and_the_next)
{
    struct mesh_member *member;
    struct stage stage;

    stage_open(&stage);
    member = &stage.mesh->members[2];
    ck_assert_int_eq(links(&stage, 2, process(2, 100, 22), 1, 1), WEFT_OK);
    stage.boot->round = 5;
    ck_assert_int_eq(piece(&stage, 22, 7, 0, "12345678"), WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(piece(&stage, 22, 4, 0, "old news"), WEFT_OK);
    ck_assert_uint_eq(member->blobs[0].round, 0);
    ck_assert_int_eq(piece(&stage, 22, 6, 0, "the next"), WEFT_OK);
    ck_assert_int_eq(piece(&stage, 22, 5, 0, "and now "), WEFT_OK);
    ck_assert_mem_eq(member->blobs[0].bytes, "the next", 8);
    ck_assert_mem_eq(member->blobs[1].bytes, "and now ", 8);
    ck_assert_int_eq(piece(&stage, 22, 4, 0, "old news"), WEFT_OK);
    ck_assert_mem_eq(member->blobs[0].bytes, "the next", 8);
    stage_close(&stage);
}
END_TEST

START_TEST(what_no_neighbour_may_say_ends_its_stream_only)
{
    struct stage stage;

    stage_open(&stage);
    ck_assert_int_eq(take(&stage, CODEC_JOIN, NULL, 0), WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(take(&stage, CODEC_FACTS, NULL, 0), WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(links(&stage, 1, process(1, 200, 99), 1, 2), WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(links(&stage, 2, process(2, 100, 22), 1, N), WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(stage.boot->error.status, WEFT_OK);
    ck_assert_uint_eq(stage.mesh->members[1].identity.nonce, 11);
    stage_close(&stage);
}
END_TEST

/* A link exists if both ends report it with the same ports. */
START_TEST(links_are_believed_of_both_ends)
{
    struct record_identity two = process(2, 100, 22), three = process(3, 100, 33);
    struct boot_link out[4];
    struct stage stage;

    stage_open(&stage);
    ck_assert_int_eq(links(&stage, 2, two, 1, 3), WEFT_OK);
    stage.mesh->members[2].is_reached = true;
    ck_assert_uint_eq(boot_links(stage.boot, out, 4), 0);
    ck_assert_int_eq(links(&stage, 3, three, 1, 1), WEFT_OK);
    ck_assert_uint_eq(boot_links(stage.boot, out, 4), 0);
    ck_assert_int_eq(links(&stage, 3, three, 2, 2), WEFT_OK);
    stage.mesh->members[2].is_reached = false;
    ck_assert_uint_eq(boot_links(stage.boot, out, 4), 0); /* neither end is reached */
    stage.mesh->members[2].is_reached = true;
    ck_assert_uint_eq(boot_links(stage.boot, out, 4), 1);
    ck_assert_uint_eq(out[0].a, 2);
    ck_assert_uint_eq(out[0].b, 3);
    ck_assert(out[0].carries);
    ck_assert(!boot_reaches(stage.boot, 3)); /* no control stream leads there */
    stage_close(&stage);
}
END_TEST

START_TEST(neighbours_are_limited)
{
    static const struct town_config config = {.n_hosts = 1};
    struct town town;

    town_open(&town, &config);
    town.members[0].config.n_ranks = 1000;
    town_member_open(&town, 0);
    for (uint32_t m = 1; m < 1000; m++) {
        struct mesh_peer *peer = mesh_peer_of(town.members[0].boot, m);

        ck_assert_int_eq(peer != NULL, m <= MESH_PEERS_MAX);
    }
    ck_assert_ptr_nonnull(mesh_peer_of(town.members[0].boot, 1));
    town_close(&town);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh, flooding");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, older_records_never_replace_newer_ones);
    tcase_add_test(tcase, a_later_process_takes_the_place_of_an_earlier_one);
    tcase_add_test(tcase, after_a_round_another_process_is_a_death);
    tcase_add_test(tcase, a_member_on_another_host_is_a_conflict);
    tcase_add_test(tcase, pieces_grow_a_blob_from_its_start);
    tcase_add_test(tcase, no_neighbour_has_a_round_that_this_process_has_not_begun);
    tcase_add_test(tcase, pieces_of_a_blob_have_one_size);
    tcase_add_test(tcase, a_round_that_lost_a_blob_is_not_whole);
    tcase_add_test(tcase, rounds_are_the_present_and_the_next);
    tcase_add_test(tcase, what_no_neighbour_may_say_ends_its_stream_only);
    tcase_add_test(tcase, links_are_believed_of_both_ends);
    tcase_add_test(tcase, neighbours_are_limited);
    return suite_run(suite);
}
