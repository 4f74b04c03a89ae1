/* Tests messages between two simulated hosts, and checks their bytes. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "xfer/fabric_testing.h"
#include "xfer/wire.h"

static struct fabric fabric;
static struct xfer *out, *in;
static struct fabric_memory from, to;

#define ROOM (8u << 20)

static void open_pair(struct fabric_config config)
{
    config.n_hosts = 2;
    config.one_way = true;
    fabric_open(&fabric, &config);
    out = fabric.links[0][1].out;
    in = fabric.links[0][1].in;
    fabric_memory_open(&fabric, 0, out, ROOM, &from);
    fabric_memory_open(&fabric, 1, in, ROOM, &to);
    for (size_t i = 0; i < ROOM; i++) {
        from.bytes[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + 1);
    }
}

static void close_pair(void)
{
    fabric_memory_close(&fabric, 0, out, &from);
    fabric_memory_close(&fabric, 1, in, &to);
    fabric_close(&fabric);
}

static struct xfer_request *receive(uint32_t n, const size_t *offsets,
                                    const size_t *sizes, const uint32_t *tags)
{
    void *data[XFER_MULTI_MAX];
    const struct xfer_memory *memories[XFER_MULTI_MAX];
    struct xfer_request *request;

    for (uint32_t i = 0; i < n; i++) {
        data[i] = to.bytes + offsets[i];
        memories[i] = sizes[i] == 0 ? NULL : &to.registered;
    }
    ck_assert_int_eq(xfer_irecv(in, n, data, sizes, tags, memories, NULL, &request),
                     WEFT_OK);
    return request;
}

static struct xfer_request *receive_one(size_t offset, size_t size, uint32_t tag)
{
    return receive(1, &offset, &size, &tag);
}

/* Starts a send. Waits for its clear-to-send if that has not arrived. */
static struct xfer_request *send_one(size_t offset, size_t size, uint32_t tag)
{
    weft_ns limit = fabric_now(&fabric) + FABRIC_S;
    struct xfer_request *request;
    weft_status status;

    while ((status = fabric_isend(out, from.bytes + offset, size, tag,
                                  size == 0 ? NULL : &from.registered, &request)) ==
           WEFT_AGAIN) {
        ck_assert_msg(fabric_step(&fabric, limit), "no clear-to-send");
    }
    ck_assert_int_eq(status, WEFT_OK);
    return request;
}

static void finish(struct xfer *xfer, struct xfer_request *request, size_t *sizes)
{
    weft_ns limit = fabric_now(&fabric) + FABRIC_S;
    weft_status status;

    while ((status = xfer_test(xfer, request, sizes)) == WEFT_AGAIN) {
        ck_assert_msg(fabric_step(&fabric, limit), "the message does not end");
    }
    ck_assert_int_eq(status, WEFT_OK);
}

/* Moves one message of `size` into a buffer of `posted` bytes. Checks the bytes and both sizes, and
 * that no bytes around the message changed. */
static void pass(size_t size, size_t posted)
{
    size_t n = size < posted ? size : posted, got = 0, sent = 0;
    struct xfer_request *receiving, *sending;

    memset(to.bytes, 0xee, posted + 256);
    receiving = receive_one(128, posted, 5);
    sending = send_one(64, size, 5);
    finish(in, receiving, &got);
    finish(out, sending, &sent);
    ck_assert_uint_eq(got, n);
    ck_assert_uint_eq(sent, n);
    ck_assert_int_eq(memcmp(to.bytes + 128, from.bytes + 64, n), 0);
    for (size_t i = 0; i < 128; i++) {
        ck_assert_uint_eq(to.bytes[i], 0xee);
        ck_assert_uint_eq(to.bytes[128 + n + i], 0xee);
    }
}

START_TEST(messages_of_awkward_sizes)
{
    static const size_t sizes[] = {0,     1,     2,       127,     128,
                                   129,   4095,  4096,    4097,    32767,
                                   32768, 32769, 1000003, 1048576, 1048577};
    uint64_t total = 0;
    struct xfer_counters sent, received;

    open_pair((struct fabric_config){.qps_per_rail = (uint32_t)_i});
    for (size_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        pass(sizes[i], sizes[i]);
        total += sizes[i];
    }
    xfer_counters(out, &sent);
    xfer_counters(in, &received);
    ck_assert_uint_eq(sent.messages_sent, WEFT_LENGTH(sizes));
    ck_assert_uint_eq(sent.bytes_sent, total);
    ck_assert_uint_eq(received.messages_received, WEFT_LENGTH(sizes));
    ck_assert_uint_eq(received.bytes_received, total);
    ck_assert_uint_eq(received.cts_sent, WEFT_LENGTH(sizes));
    close_pair();
}
END_TEST

START_TEST(longer_messages_are_cut)
{
    open_pair((struct fabric_config){0});
    pass(1000, 100);
    pass(100, 1000);
    pass(100000, 50001);
    pass(77, 0);
    close_pair();
}
END_TEST

/* Two rails of two QPs each, all four in use. */
START_TEST(two_rails_carry_their_parts)
{
    struct world_cable_stats before[2], after[2];

    open_pair((struct fabric_config){.n_rails = 2});
    for (uint32_t i = 0; i < 2; i++) {
        fabric.world->ops->cable_stats(fabric.world, i, &before[i]);
    }
    pass(4u << 20, 4u << 20);
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t bytes;

        fabric.world->ops->cable_stats(fabric.world, i, &after[i]);
        bytes = after[i].bytes[0] - before[i].bytes[0];
        ck_assert_uint_gt(bytes, 2u << 20);
        ck_assert_uint_lt(bytes, (2u << 20) + (2u << 20) / 20);
    }
    close_pair();
}
END_TEST

/* The pace of a rail is its rate while large parts are under way, however long the program and the
 * receiver take between messages. */
START_TEST(idle_time_and_short_messages_do_not_slow_the_pace)
{
    struct xfer_pace pace;

    open_pair((struct fabric_config){.qps_per_rail = 1});
    for (int i = 0; i < 64; i++) {
        pass(XFER_PACE_PART_BYTES - 1, XFER_PACE_PART_BYTES);
    }
    ck_assert_uint_eq(xfer_pace_of(out, 0).n_bytes, 0);
    for (int i = 0; i < 8; i++) {
        pass(1u << 20, 1u << 20);
        fabric_run(&fabric, FABRIC_MS);
    }
    pace = xfer_pace_of(out, 0);
    ck_assert_uint_eq(pace.n_bytes, 8u << 20);
    ck_assert_uint_gt(pace.best_bps, 80000000000);
    ck_assert_uint_lt(pace.best_bps, 100000000000);
    close_pair();
}
END_TEST

/* A part is under way only from its first piece on, however often the pump finds the send queue
 * full before that. Otherwise the rail would count as busy for ever. */
START_TEST(a_full_send_queue_does_not_slow_the_pace)
{
    static const struct world_setting settings[] = {{"max_msg", "16KiB"}};
    struct xfer_request *sending[2], *receiving[2];
    struct xfer_pace pace;

    open_pair((struct fabric_config){
        .overrides = settings, .n_overrides = 1, .send_wr_max = 16, .qps_per_rail = 1});
    for (int i = 0; i < 8; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            receiving[k] = receive_one((size_t)k << 20, 1u << 20, 5);
        }
        for (uint32_t k = 0; k < 2; k++) {
            sending[k] = send_one((size_t)k << 20, 1u << 20, 5);
        }
        for (uint32_t k = 0; k < 2; k++) {
            finish(in, receiving[k], NULL);
            finish(out, sending[k], NULL);
        }
        fabric_run(&fabric, FABRIC_MS);
    }
    pace = xfer_pace_of(out, 0);
    ck_assert_uint_eq(pace.n_bytes, 16u << 20);
    ck_assert_uint_gt(pace.best_bps, 60000000000);
    close_pair();
}
END_TEST

/* A part that is longer than the device's longest message is sent in pieces. */
START_TEST(long_messages_go_in_pieces)
{
    static const struct world_setting settings[] = {{"max_msg", "16KiB"}};

    open_pair((struct fabric_config){.overrides = settings,
                                     .n_overrides = 1,
                                     .send_wr_max = 16,
                                     .qps_per_rail = (uint32_t)_i});
    ck_assert_uint_eq(fabric.links[0][1].sender->max_msg_bytes, 16384);
    pass(16384, 16384);
    pass(16385, 16385);
    pass(32769, 32769);
    pass(1000001, 1000001); /* more pieces than the send queue holds */
    ck_assert_int_eq(xfer_isend(out, &(struct xfer_cts){0}, from.bytes, (256 * 16384) + 1,
                                &from.registered, &(struct xfer_request *){NULL}),
                     WEFT_ERR_LIMIT);
    close_pair();
}
END_TEST

START_TEST(a_send_waits_for_its_receive)
{
    struct xfer_request *sending = NULL, *receiving;
    size_t got;

    open_pair((struct fabric_config){0});
    ck_assert_int_eq(fabric_isend(out, from.bytes, 10, 1, &from.registered, &sending),
                     WEFT_AGAIN);
    ck_assert_ptr_null(sending);
    fabric_run(&fabric, FABRIC_MS);
    ck_assert_int_eq(fabric_isend(out, from.bytes, 10, 1, &from.registered, &sending),
                     WEFT_AGAIN);
    receiving = receive_one(0, 10, 1);
    ck_assert_int_eq(xfer_test(in, receiving, &got), WEFT_AGAIN);
    fabric_run(&fabric, FABRIC_MS);
    ck_assert_int_eq(fabric_isend(out, from.bytes, 10, 1, &from.registered, &sending),
                     WEFT_OK);
    finish(in, receiving, &got);
    ck_assert_uint_eq(got, 10);
    finish(out, sending, NULL);
    close_pair();
}
END_TEST

START_TEST(groups_match_by_tag_in_any_order)
{
    static const uint32_t tags[] = {10, 11, 12, 13, 13, 15, 16, 17};
    static const uint32_t by_order[] = {15, 10, 17, 13, 13, 11, 16, 12};
    size_t offsets[8], sizes[8], got[8];
    struct xfer_request *receiving, *second, *sending[8];

    open_pair((struct fabric_config){0});
    for (uint32_t i = 0; i < 8; i++) {
        offsets[i] = (size_t)i * 100000;
        sizes[i] = i == 2 ? 0 : 50000 + i;
    }
    receiving = receive(8, offsets, sizes, tags);
    second = receive_one(900000, 20, 15);
    for (uint32_t i = 0; i < 8; i++) {
        sending[i] = send_one((size_t)by_order[i] * 1000, 40000 + i, by_order[i]);
        ck_assert_int_eq(xfer_test(in, receiving, got), WEFT_AGAIN);
    }
    finish(in, receiving, got);
    for (uint32_t i = 0; i < 8; i++) {
        finish(out, sending[i], NULL);
    }
    /* Sent as numbers 1, 5, 7, 3, 4, 0, 6, 2 of by_order. */
    ck_assert_uint_eq(got[0], 40001);
    ck_assert_uint_eq(got[1], 40005);
    ck_assert_uint_eq(got[2], 0);     /* truncated */
    ck_assert_uint_eq(got[3], 40003); /* equal tags: in order */
    ck_assert_uint_eq(got[4], 40004);
    ck_assert_uint_eq(got[5], 40000);
    ck_assert_uint_eq(got[6], 40006);
    ck_assert_uint_eq(got[7], 40002);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_int_eq(
            memcmp(to.bytes + offsets[i], from.bytes + (size_t)tags[i] * 1000, got[i]),
            0);
    }
    /* The next group was not matched before this one was complete. */
    ck_assert_int_eq(xfer_test(in, second, got), WEFT_AGAIN);
    sending[0] = send_one(0, 20, 15);
    finish(in, second, got);
    finish(out, sending[0], NULL);
    close_pair();
}
END_TEST

START_TEST(thirty_two_groups_and_no_more)
{
    struct xfer_request *receiving[XFER_SLOTS], *more = NULL;
    const struct xfer_memory *memory = &to.registered;
    size_t size = 100, got;
    uint32_t tag = 9;
    void *data = to.bytes;

    open_pair((struct fabric_config){0});
    for (uint32_t i = 0; i < XFER_SLOTS; i++) {
        receiving[i] = receive_one(i * size, size, tag);
    }
    ck_assert_int_eq(xfer_irecv(in, 1, &data, &size, &tag, &memory, NULL, &more),
                     WEFT_AGAIN);
    ck_assert_ptr_null(more);
    for (uint32_t i = 0; i < XFER_SLOTS; i++) {
        finish(out, send_one(i * size, size, tag), NULL);
    }
    /* The requests are done, but they occupy their slots until they are tested. */
    fabric_run(&fabric, FABRIC_MS);
    ck_assert_int_eq(xfer_irecv(in, 1, &data, &size, &tag, &memory, NULL, &more),
                     WEFT_AGAIN);
    finish(in, receiving[0], &got);
    more = receive_one(0, size, tag);
    for (uint32_t i = 1; i < XFER_SLOTS; i++) {
        finish(in, receiving[i], &got);
        ck_assert_uint_eq(got, size);
    }
    finish(out, send_one(0, size, tag), NULL);
    finish(in, more, &got);
    ck_assert_int_eq(memcmp(to.bytes, from.bytes, XFER_SLOTS * size), 0);
    close_pair();
}
END_TEST

/* ---- a model ---- */

struct model_group {
    struct xfer_request *request;
    uint32_t n, n_sent;
    size_t offsets[XFER_MULTI_MAX], sizes[XFER_MULTI_MAX], sent[XFER_MULTI_MAX];
    size_t sources[XFER_MULTI_MAX];
    uint32_t tags[XFER_MULTI_MAX], order[XFER_MULTI_MAX];
};

static size_t random_size(struct weft_rng *rng)
{
    switch (weft_rng_below(rng, 4)) {
    case 0:
        return weft_rng_below(rng, 3);
    case 1:
        return weft_rng_below(rng, 300);
    case 2:
        return weft_rng_below(rng, 40000);
    default:
        return weft_rng_below(rng, 120000);
    }
}

static void plan_group(struct weft_rng *rng, struct model_group *group, uint32_t lane)
{
    group->n = 1 + (uint32_t)weft_rng_below(rng, XFER_MULTI_MAX);
    group->n_sent = 0;
    for (uint32_t i = 0; i < group->n; i++) {
        uint32_t k = (uint32_t)weft_rng_below(rng, i + 1);

        group->tags[i] = 100 + i;
        group->sizes[i] = random_size(rng);
        group->offsets[i] = lane * (ROOM / XFER_SLOTS) + i * (ROOM / XFER_SLOTS / 8);
        if (group->sizes[i] > ROOM / XFER_SLOTS / 8) {
            group->sizes[i] = ROOM / XFER_SLOTS / 8;
        }
        group->order[i] = group->order[k];
        group->order[k] = i;
    }
}

static void check_group(const struct model_group *group, const size_t *got)
{
    for (uint32_t i = 0; i < group->n; i++) {
        size_t n = group->sent[i] < group->sizes[i] ? group->sent[i] : group->sizes[i];

        ck_assert_uint_eq(got[i], n);
        ck_assert_int_eq(
            memcmp(to.bytes + group->offsets[i], from.bytes + group->sources[i], n), 0);
    }
}

struct model {
    struct weft_rng rng;
    struct model_group groups[XFER_SLOTS];
    uint32_t n_posted, n_sending, n_done; /* groups */
    struct xfer_request *sends[60 * XFER_MULTI_MAX];
    size_t n_sends, n_sent;
};

static void model_post(struct model *model)
{
    struct model_group *group = &model->groups[model->n_posted % XFER_SLOTS];
    void *data[XFER_MULTI_MAX];
    const struct xfer_memory *memories[XFER_MULTI_MAX];
    weft_status status;

    plan_group(&model->rng, group, model->n_posted % XFER_SLOTS);
    for (uint32_t i = 0; i < group->n; i++) {
        data[i] = to.bytes + group->offsets[i];
        memories[i] = &to.registered;
    }
    status = xfer_irecv(in, group->n, data, group->sizes, group->tags, memories, NULL,
                        &group->request);
    ck_assert(status == WEFT_OK || status == WEFT_AGAIN);
    model->n_posted += status == WEFT_OK;
}

static void model_send(struct model *model)
{
    struct model_group *group = &model->groups[model->n_sending % XFER_SLOTS];
    uint32_t i = group->order[group->n_sent];
    weft_status status;

    group->sent[i] = random_size(&model->rng);
    group->sources[i] = weft_rng_below(&model->rng, ROOM - 200000);
    status =
        fabric_isend(out, from.bytes + group->sources[i], group->sent[i], group->tags[i],
                     &from.registered, &model->sends[model->n_sends]);
    ck_assert(status == WEFT_OK || status == WEFT_AGAIN);
    if (status == WEFT_OK) {
        model->n_sends++;
        model->n_sending += ++group->n_sent == group->n;
    }
}

static void model_test(struct model *model)
{
    struct model_group *group = &model->groups[model->n_done % XFER_SLOTS];
    size_t got[XFER_MULTI_MAX];

    if (model->n_done < model->n_sending &&
        xfer_test(in, group->request, got) == WEFT_OK) {
        check_group(group, got);
        model->n_done++;
    }
    while (model->n_sent < model->n_sends &&
           xfer_test(out, model->sends[model->n_sent], NULL) == WEFT_OK) {
        model->n_sent++;
    }
}

/* A random number of groups is in flight, and the messages of each are sent in random order, over
 * random numbers of QPs and rails. The cables can lose, duplicate and reorder packets. Every byte
 * arrives in its place. */
START_TEST(random_messages_against_a_model)
{
    static struct model model;
    bool is_bad = _i % 2 == 1;
    weft_ns limit;

    weft_rng_init(&model.rng, (uint64_t)_i, "xfer model");
    open_pair((struct fabric_config){
        .qps_per_rail = 1 + (uint32_t)weft_rng_below(&model.rng, 4),
        .n_rails = 1 + (uint32_t)_i % 3,
        .seed = (uint64_t)_i,
        .recv_wr_max = _i % 4 == 3 ? 40 : 256,
        .impairment = {.loss_ppb = is_bad ? 2000000 : 0,
                       .duplicate_ppb = is_bad ? 1000000 : 0,
                       .reorder_ppb = _i % 4 == 1 ? 1000000 : 0}});
    limit = fabric_now(&fabric) + 100 * FABRIC_S;
    while (model.n_done < 60) {
        if (model.n_posted < 60 && model.n_posted - model.n_done < XFER_SLOTS &&
            weft_rng_below(&model.rng, 2) == 0) {
            model_post(&model);
        }
        if (model.n_sending < model.n_posted) {
            model_send(&model);
        }
        model_test(&model);
        fabric_step(&fabric, fabric_now(&fabric) + 1000);
        ck_assert_int_eq(xfer_error(in)->status, WEFT_OK);
        ck_assert_int_eq(xfer_error(out)->status, WEFT_OK);
        ck_assert_int_lt(fabric_now(&fabric), limit);
    }
    for (; model.n_sent < model.n_sends; model.n_sent++) {
        finish(out, model.sends[model.n_sent], NULL);
    }
    close_pair();
}
END_TEST

/* ---- flush ---- */

START_TEST(a_flush_reads_through_every_rail)
{
    struct xfer_request *flush = NULL;

    open_pair((struct fabric_config){.n_rails = 2});
    pass(100000, 100000);
    ck_assert_int_eq(xfer_iflush(in, to.bytes, 0, &to.registered, &flush), WEFT_OK);
    ck_assert_ptr_null(flush);
    ck_assert_int_eq(xfer_iflush(in, to.bytes, 10, &to.registered, &flush), WEFT_OK);
    ck_assert_ptr_nonnull(flush);
    ck_assert_int_eq(xfer_test(in, flush, NULL), WEFT_AGAIN);
    finish(in, flush, NULL);
    pass(100000, 100000);
    close_pair();
}
END_TEST

/* A flush of GPU memory WRITEs into the window, where its bytes must not reach an entry that the
 * sender has yet to read. */
START_TEST(a_flush_of_gpu_memory_spares_the_clear_to_sends)
{
    static uint8_t ring[XFER_RING_BYTES];
    struct conn *sender;
    struct xfer_request *flush = NULL;

    open_pair((struct fabric_config){.n_rails = 2});
    sender = fabric.links[0][1].sender;
    to.registered.is_gpu = true;
    for (uint32_t i = 0; i < 2 * XFER_SLOTS; i++) {
        pass(1000, 1000);
        memcpy(ring, sender->window, sizeof(ring));
        ck_assert_int_eq(xfer_iflush(in, to.bytes + 128, 1000, &to.registered, &flush),
                         WEFT_OK);
        finish(in, flush, NULL);
        ck_assert_int_eq(memcmp(ring, sender->window, sizeof(ring)), 0);
        ck_assert_int_eq(memcmp(sender->window + sizeof(ring), from.bytes + 64, 8), 0);
    }
    close_pair();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("xfer");
    TCase *tcase = tcase_create("messages");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, messages_of_awkward_sizes, 1, 5);
    tcase_add_test(tcase, longer_messages_are_cut);
    tcase_add_test(tcase, two_rails_carry_their_parts);
    tcase_add_test(tcase, idle_time_and_short_messages_do_not_slow_the_pace);
    tcase_add_test(tcase, a_full_send_queue_does_not_slow_the_pace);
    tcase_add_loop_test(tcase, long_messages_go_in_pieces, 1, 4);
    tcase_add_test(tcase, a_send_waits_for_its_receive);
    tcase_add_test(tcase, groups_match_by_tag_in_any_order);
    tcase_add_test(tcase, thirty_two_groups_and_no_more);
    tcase_add_loop_test(tcase, random_messages_against_a_model, 0, 16);
    tcase_add_test(tcase, a_flush_reads_through_every_rail);
    tcase_add_test(tcase, a_flush_of_gpu_memory_spares_the_clear_to_sends);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
