/* Tests the cost of a message: once a connection is up, no thread allocates memory for it, and
 * its calls take no lock but that of their comm. */
#include <check.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "plugin/engine.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER
#endif

static struct harness harness;
static atomic_uint n_allocations;

/* ---- counting ---- */

#ifdef HAS_SANITIZER

int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *,
                                                                size_t),
                                              void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *memory, size_t n_bytes)
{
    (void)memory;
    (void)n_bytes;
    atomic_fetch_add(&n_allocations, 1);
}

static void on_free(const volatile void *memory)
{
    (void)memory;
}

static void count_from_now(void)
{
    static bool is_installed;

    if (!is_installed) {
        ck_assert_int_ne(__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free),
                         0);
        is_installed = true;
    }
    atomic_store(&n_allocations, 0);
}

#else

void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *old, size_t n_bytes);

void *malloc(size_t n_bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_malloc(n_bytes);
}

void *calloc(size_t n, size_t each)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_calloc(n, each);
}

void *realloc(void *old, size_t n_bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_realloc(old, n_bytes);
}

static void count_from_now(void)
{
    atomic_store(&n_allocations, 0);
}

#endif

/* ---- the test ---- */

struct end {
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    uint8_t *sent, *received;
};

static void open_end(struct end *end, size_t n_bytes)
{
    struct weft_error error = {0};

    end->sent = calloc(1, n_bytes);
    end->received = calloc(1, n_bytes);
    harness_connect(&harness, 0, 1, &end->out, &end->in);
    ck_assert_int_eq(
        harness_register(end->out, end->sent, n_bytes, &end->out_memory, &error),
        WEFT_OK);
    ck_assert_int_eq(
        harness_register(end->in, end->received, n_bytes, &end->in_memory, &error),
        WEFT_OK);
}

static void close_end(struct end *end)
{
    engine_deregister(end->out, end->out_memory);
    engine_deregister(end->in, end->in_memory);
    engine_close(end->out);
    engine_close(end->in);
    free(end->sent);
    free(end->received);
}

/* Exchanges a group of two messages. Returns false if anything failed. Does not use Check's
 * asserts, because they allocate. */
static bool exchange(struct end *end, size_t n_bytes)
{
    void *data[] = {end->received, end->received + n_bytes};
    const size_t sizes[] = {n_bytes, n_bytes};
    const uint32_t tags[] = {1, 2};
    struct engine_memory *memories[] = {end->in_memory, end->in_memory};
    struct engine_request *receive, *sends[2];
    size_t seen[ENGINE_GROUP_MAX];
    bool ok;
    uint32_t n;

    ok = engine_irecv(end->in, 2, data, sizes, tags, memories, &receive) == WEFT_OK;
    for (uint32_t i = 0; i < 2; i++) {
        ok = ok && engine_isend(end->out, end->sent + i * n_bytes, n_bytes, tags[i],
                                end->out_memory, &sends[i]) == WEFT_OK;
    }
    harness_run(&harness, 100000);
    return ok && engine_test(receive, seen, &n) == WEFT_OK &&
           engine_test(sends[0], seen, &n) == WEFT_OK &&
           engine_test(sends[1], seen, &n) == WEFT_OK;
}

START_TEST(nothing_is_allocated_after_connect)
{
    static const size_t sizes[] = {8, 4096, 65536};
    const size_t n_bytes = sizes[_i];
    unsigned after, seen;
    struct end end;
    bool ok = true;

    harness_open(&harness, 2, 1);
    open_end(&end, 2 * n_bytes);
    for (uint32_t i = 0; i < 50; i++) {
        ok = ok && exchange(&end, n_bytes); /* the simulator's own pools grow at first */
    }
    /* Run between two beacons, because the simulated network allocates memory for their
     * datagrams. */
    harness_run(&harness, INT64_C(3100000000));
    count_from_now();
    for (uint32_t i = 0; i < 300; i++) {
        ok = ok && exchange(&end, n_bytes);
    }
    after = atomic_load(&n_allocations);
    count_from_now();
    free(weft_strdup("counted"));
    seen = atomic_load(&n_allocations);
    ck_assert(ok);
    ck_assert_uint_eq(after, 0);
    ck_assert_uint_ge(seen, 1); /* allocations are counted */
    close_end(&end);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* Locks or unlocks everything but the comm under test. A call that took another lock would block
 * forever. */
static void hold(struct end *other, bool holds)
{
    pthread_mutex_t *const locks[] = {&harness.engines[0]->lock,
                                      &harness.engines[1]->lock, &other->out->lock,
                                      &other->in->lock};

    for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++) {
        ck_assert_int_eq(
            holds ? pthread_mutex_lock(locks[i]) : pthread_mutex_unlock(locks[i]), 0);
    }
}

START_TEST(comms_share_no_lock)
{
    const uint32_t tag = 1;
    const size_t size = 8;
    struct engine_request *send, *receive;
    struct end end, other;
    size_t sizes[ENGINE_GROUP_MAX];
    weft_status before, sent, received;
    uint32_t n;
    void *at;

    harness_open(&harness, 2, 1);
    open_end(&end, size);
    open_end(&other, size);
    at = end.received;
    hold(&other, true);
    ck_assert_int_eq(engine_irecv(end.in, 1, &at, &size, &tag, &end.in_memory, &receive),
                     WEFT_OK);
    ck_assert_int_eq(engine_isend(end.out, end.sent, size, tag, end.out_memory, &send),
                     WEFT_OK);
    before = engine_test(receive, sizes, &n);
    hold(&other, false);
    harness_run(&harness, 100000);
    hold(&other, true);
    sent = engine_test(send, sizes, &n);
    received = engine_test(receive, sizes, &n);
    hold(&other, false);
    ck_assert_int_eq(before, WEFT_AGAIN);
    ck_assert_int_eq(sent, WEFT_OK);
    ck_assert_int_eq(received, WEFT_OK);
    close_end(&end);
    close_end(&other);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_cost");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, comms_share_no_lock);
    tcase_add_loop_test(tcase, nothing_is_allocated_after_connect, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
