/* Checks that no memory is allocated per packet: twice as many packets need the same number of
 * allocations. */
#include <check.h>
#include <stdlib.h>

#include "backends/sim/bench.h"
#include "base/suite_testing.h"

static size_t n_allocations;

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HAS_ASAN)
/* Declared here, because not every compiler has the sanitizer's header. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *at,
                                                                size_t n_bytes),
                                              void (*on_free)(const volatile void *at));

static void count_allocation(const volatile void *at, size_t n_bytes)
{
    (void)at;
    (void)n_bytes;
    n_allocations++;
}

static void ignore_free(const volatile void *at)
{
    (void)at;
}

static void start_counting(void)
{
    ck_assert_int_ne(
        __sanitizer_install_malloc_and_free_hooks(count_allocation, ignore_free), 0);
}
#else
/* glibc provides these names for programs that replace malloc(). */
void *__libc_malloc(size_t n_bytes);
void *__libc_calloc(size_t n, size_t n_bytes);
void *__libc_realloc(void *at, size_t n_bytes);

void *malloc(size_t n_bytes)
{
    n_allocations++;
    return __libc_malloc(n_bytes);
}

void *calloc(size_t n, size_t n_bytes)
{
    n_allocations++;
    return __libc_calloc(n, n_bytes);
}

void *realloc(void *at, size_t n_bytes)
{
    n_allocations++;
    return __libc_realloc(at, n_bytes);
}

static void start_counting(void)
{
}
#endif

static size_t allocations_of(struct bench bench)
{
    struct bench_result result;
    size_t before = n_allocations;
    bool is_run = sim_bench_ring(&bench, &result);
    size_t n = n_allocations - before; /* excludes Check's own allocations */

    ck_assert(is_run);
    uint32_t n_senders = bench.n_nodes == 2 ? 1 : bench.n_nodes;
    ck_assert_uint_eq(result.packets,
                      n_senders * bench.n_steps * (bench.message_bytes / 4096));
    return n;
}

START_TEST(none_is_per_packet)
{
    struct bench bench = {.n_nodes = 2, .n_steps = 1, .message_bytes = 1 << 20};

    start_counting();
    size_t once = allocations_of(bench);
    bench.message_bytes *= 2;
    ck_assert_uint_gt(once, 0);
    ck_assert_uint_eq(allocations_of(bench), once);
}
END_TEST

START_TEST(none_is_per_message)
{
    struct bench bench = {.n_nodes = 5, .n_steps = 40, .message_bytes = 8192};

    start_counting();
    size_t once = allocations_of(bench);
    bench.n_steps *= 2;
    ck_assert_uint_eq(allocations_of(bench), once);
}
END_TEST

/* With many NICs events are kept in a wheel, which allocates no more blocks once the maximum
 * number of packets has been in flight. */
START_TEST(none_is_per_packet_of_many_nics)
{
    struct bench bench = {.n_nodes = 80, .n_steps = 4, .message_bytes = 32768};

    start_counting();
    size_t once = allocations_of(bench);
    bench.message_bytes *= 2;
    ck_assert_uint_eq(allocations_of(bench), once);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/alloc");
    TCase *alloc = tcase_create("alloc");
    tcase_add_test(alloc, none_is_per_packet);
    tcase_add_test(alloc, none_is_per_message);
    tcase_add_test(alloc, none_is_per_packet_of_many_nics);
    suite_add_tcase(suite, alloc);
    return suite_run(suite);
}
