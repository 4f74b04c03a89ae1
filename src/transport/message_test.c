/* Tests the messages between processes of a host, byte by byte. */
#include "transport/message.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "transport/steps.h"

/* From docs/transports.md: request, number, length in bytes. */
static const struct {
    const char *name;
    unsigned type;
    size_t n_bytes;
} requests[] = {
    {"init", 1, 9 + 11},
    {"shared_init", 2, 9 + 4},
    {"setup", 3, 9},
    {"connect", 4, 9 + 48 + 1 + 89},
    {"start", 5, 9},
    {"close", 6, 9},
    {"abort", 7, 9 + 4 + 96},
    {"stop", 8, 9},
    {"get_fd", 9, 9},
    {"register", 11, 9 + 16},
    {"deregister", 12, 9 + 16},
    {"join", 64, 9 + 4},
    {"bell", 65, 9},
    {"fall_back", 66, 9 + 5},
};

static struct proxy_call some_call(unsigned type)
{
    struct proxy_call call = {
        .type = (enum proxy_type)type,
        .op = 0x01020304,
        .connection = 7,
        .kind = WEFT_TRANSPORT_SHM,
        .is_sender = true,
        .peer = 3,
        .channel = 2,
        .step_bytes = 512u << 10,
        .name = "weft-0123456789abcdef0123456789abcdef",
        .memory = {.handle = {{9, 8, 7}}, .base = 4096, .n_bytes = 1, .buffer_id = 5},
        .address = 0x7f0000001000,
        .n_bytes = 4096,
        .rank = 5,
        .reason = "jobs: the GPU failed",
        .sys_errno = 95};

    return call;
}

START_TEST(every_request_comes_back)
{
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct proxy_call call = some_call(requests[i].type), back;
        uint8_t bytes[PROXY_CALL_MAX], again[PROXY_CALL_MAX];
        size_t n = proxy_encode_call(&call, bytes);

        ck_assert_str_eq(proxy_type_name(requests[i].type), requests[i].name);
        ck_assert_uint_eq(n, requests[i].n_bytes);
        ck_assert_uint_eq(bytes[0], requests[i].type);
        ck_assert_int_eq(proxy_decode_call(bytes, n, &back, NULL), WEFT_OK);
        ck_assert_uint_eq(back.op, call.op);
        ck_assert_uint_eq(back.connection, call.connection);
        ck_assert_uint_eq(proxy_encode_call(&back, again), n);
        ck_assert_mem_eq(bytes, again, n);
        for (size_t cut = 0; cut <= n + 1; cut++) { /* every other length fails */
            uint8_t copy[PROXY_CALL_MAX + 1] = {0};

            memcpy(copy, bytes, cut < n ? cut : n);
            ck_assert_int_eq(proxy_decode_call(copy, cut, &back, NULL) == WEFT_OK,
                             cut == n);
        }
    }
    for (unsigned type = 0, known = 0; type < 256; type++) {
        known += proxy_type_name(type) != NULL;
        ck_assert(type < 255 || known == sizeof(requests) / sizeof(requests[0]));
    }
}
END_TEST

/* A byte of a request with an invalid value. */
START_TEST(fields_are_what_they_may_be)
{
    static const struct {
        unsigned type;
        size_t at;
        uint8_t value;
    } bad[] = {
        {1, 9, 4},                      /* no such transport */
        {1, 10, 2},                     /* neither true nor false */
        {1, 11, 2},       {2, 9, 0xff}, /* steps of gigabytes */
        {4, 9, '\n'},                   /* not printable */
        {4, 9 + 47, 'x'},               /* no NUL at the end of the name */
        {4, 9 + 46, 'x'},               /* a byte behind the NUL */
        {7, 13, 7},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct proxy_call call = some_call(bad[i].type), back;
        struct weft_error error = {0};
        uint8_t bytes[PROXY_CALL_MAX];
        size_t n = proxy_encode_call(&call, bytes);

        bytes[bad[i].at] = bad[i].value;
        ck_assert_int_eq(proxy_decode_call(bytes, n, &back, &error), WEFT_ERR_PROTOCOL);
        ck_assert_str_eq(weft_phase_name(error.phase), "inside");
    }
}
END_TEST

static const struct proxy_answer some_answer = {
    .op = 5,
    .sys_errno = 28,
    .connection = 3,
    .name = "weft-1",
    .memory = {.handle = {{1, 2}}, .n_bytes = 8},
};

START_TEST(an_answer_comes_back)
{
    struct proxy_answer back;
    uint8_t bytes[PROXY_ANSWER_BYTES], again[PROXY_ANSWER_BYTES];

    ck_assert_uint_eq(proxy_encode_answer(&some_answer, bytes), 150);
    ck_assert_int_eq(proxy_decode_answer(bytes, 150, &back, NULL), WEFT_OK);
    ck_assert_uint_eq(proxy_encode_answer(&back, again), 150);
    ck_assert_mem_eq(bytes, again, 150);
    ck_assert_int_eq(proxy_decode_answer(bytes, 149, &back, NULL), WEFT_ERR_PROTOCOL);
    bytes[4] = 0x80; /* a negative errno */
    ck_assert_int_eq(proxy_decode_answer(bytes, 150, &back, NULL), WEFT_ERR_PROTOCOL);
}
END_TEST

START_TEST(facts_and_blobs_come_back)
{
    struct inside_facts facts = {.has_proxy = true, .shm_dev = 24, .gpu = "GPU-1"}, told;
    struct inside_blob blob = {.is_there = true,
                               .kind = WEFT_TRANSPORT_P2P,
                               .is_owner = true,
                               .reads = true,
                               .connection = 9,
                               .channel = 1,
                               .step_bytes = STEPS_BYTES_MIN},
                       back;
    uint8_t bytes[INSIDE_BLOB_BYTES], again[INSIDE_BLOB_BYTES];

    facts.at = (struct io_endpoint){.ip = io_ip_v4(10, 0, 0, 1), .port = 4000};
    inside_encode_facts(&facts, bytes);
    ck_assert_int_eq(inside_decode_facts(bytes, &told, NULL), WEFT_OK);
    inside_encode_facts(&told, again);
    ck_assert_mem_eq(bytes, again, INSIDE_FACTS_BYTES);
    ck_assert_str_eq(told.gpu, "GPU-1");
    ck_assert_uint_eq(told.at.port, 4000);
    ck_assert_uint_eq(told.shm_dev, 24);
    bytes[0] = 2;
    ck_assert_int_eq(inside_decode_facts(bytes, &told, NULL), WEFT_ERR_PROTOCOL);

    inside_encode_blob(&blob, bytes);
    ck_assert_int_eq(inside_decode_blob(bytes, &back, NULL), WEFT_OK);
    inside_encode_blob(&back, again);
    ck_assert_mem_eq(bytes, again, sizeof(again));
    ck_assert(back.is_there && back.is_owner && back.reads);
    ck_assert_uint_eq(back.connection, 9);
    bytes[INSIDE_BLOB_BYTES - 1] = 1; /* unknown extension */
    ck_assert_int_eq(inside_decode_blob(bytes, &back, NULL), WEFT_ERR_PROTOCOL);
    blob = (struct inside_blob){.is_there = false};
    inside_encode_blob(&blob, bytes);
    ck_assert_int_eq(inside_decode_blob(bytes, &back, NULL), WEFT_OK);
    ck_assert(!back.is_there);
    bytes[4] = 1; /* a connection number without a connector */
    ck_assert_int_eq(inside_decode_blob(bytes, &back, NULL), WEFT_ERR_PROTOCOL);
}
END_TEST

/* An answer with any one bit flipped is rejected, or encodes to the same bytes. */
START_TEST(any_answer_is_refused_or_comes_back)
{
    for (unsigned bit = 0; bit < 8 * PROXY_ANSWER_BYTES; bit++) {
        uint8_t bytes[PROXY_ANSWER_BYTES], again[PROXY_ANSWER_BYTES];
        struct proxy_answer back;

        proxy_encode_answer(&some_answer, bytes);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (proxy_decode_answer(bytes, sizeof(bytes), &back, NULL) == WEFT_OK) {
            proxy_encode_answer(&back, again);
            ck_assert_msg(memcmp(bytes, again, sizeof(bytes)) == 0, "bit %u", bit);
        }
    }
}
END_TEST

/* A random request with a random bit flipped is rejected, or encodes to the same bytes. */
START_TEST(any_bytes_are_refused_or_come_back)
{
    struct weft_rng rng;

    weft_rng_init(&rng, 1, "message_test");
    for (unsigned i = 0; i < 200000; i++) {
        unsigned which =
            (unsigned)(weft_rng_next(&rng) % (sizeof(requests) / sizeof(requests[0])));
        struct proxy_call call = some_call(requests[which].type), back;
        uint8_t bytes[PROXY_CALL_MAX], again[PROXY_CALL_MAX];
        size_t n = proxy_encode_call(&call, bytes);
        uint64_t bit = weft_rng_next(&rng) % (n * 8);

        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (proxy_decode_call(bytes, n, &back, NULL) == WEFT_OK) {
            ck_assert_uint_eq(proxy_encode_call(&back, again), n);
            if (memcmp(bytes, again, n) != 0) {
                ck_abort_msg("%s: bit %u", requests[which].name, (unsigned)bit);
            }
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport/message");
    TCase *tests = tcase_create("message");

    tcase_add_test(tests, every_request_comes_back);
    tcase_add_test(tests, fields_are_what_they_may_be);
    tcase_add_test(tests, an_answer_comes_back);
    tcase_add_test(tests, facts_and_blobs_come_back);
    tcase_add_test(tests, any_answer_is_refused_or_comes_back);
    tcase_add_test(tests, any_bytes_are_refused_or_come_back);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
