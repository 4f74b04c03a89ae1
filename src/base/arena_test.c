#include "base/arena.h"

#include <check.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/memory.h"
#include "base/suite_testing.h"
#include "base/text.h"

enum { N = 3000 };

static jmp_buf no_memory;

/* Replaces the library's, which aborts. */
_Noreturn void weft_out_of_memory(size_t n_bytes)
{
    (void)n_bytes;
    longjmp(no_memory, 1);
}

static size_t size_of(unsigned i)
{
    static const size_t sizes[] = {0, 1, 64, 65, 700, 1216, 4096, 4097, 70000};

    return sizes[i % WEFT_LENGTH(sizes)];
}

/* Returns true if every byte is `value`. */
static bool is_all(const unsigned char *memory, size_t n_bytes, unsigned value)
{
    size_t n_equal = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        n_equal += memory[i] == value;
    }
    return n_equal == n_bytes;
}

/* Allocates objects of many sizes in several chunks; frees and reallocates every third. */
START_TEST(objects_are_zeros_on_lines_of_their_own)
{
    struct weft_arena arena = {0};
    static unsigned char *objects[N];

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < N; i += round == 0 ? 1 : 3) {
            objects[i] = weft_arena_calloc(&arena, size_of(i));
            ck_assert_uint_eq((uintptr_t)objects[i] % 64, 0);
            ck_assert(is_all(objects[i], size_of(i), 0));
            memset(objects[i], (int)(i % 255 + 1), size_of(i));
        }
        for (unsigned i = 0; i < N; i++) {
            ck_assert(is_all(objects[i], size_of(i), i % 255 + 1));
            if (round == 1 || i % 3 == 0) {
                weft_arena_free(&arena, objects[i], size_of(i));
            }
        }
    }
    weft_arena_free(&arena, NULL, 64);
    weft_arena_fini(&arena);
    ck_assert_ptr_null(arena.chunks);
    weft_arena_fini(&arena);
}
END_TEST

/* Freed memory is reused, so that a connection that is made repeatedly does not grow the arena. */
START_TEST(what_goes_makes_room)
{
    struct weft_arena arena = {0};
    void *one = weft_arena_calloc(&arena, 1000);
    void *other = weft_arena_calloc(&arena, 2000);
    const struct weft_arena_chunk *chunk = arena.chunks;

    for (int i = 0; i < 1000; i++) {
        weft_arena_free(&arena, one, 1000);
        weft_arena_free(&arena, other, 2000);
        other = weft_arena_calloc(&arena, 1990); /* the same number of cache lines */
        one = weft_arena_calloc(&arena, 961);
        ck_assert_ptr_ne(one, other);
    }
    ck_assert_ptr_eq(arena.chunks, chunk);
    weft_arena_free(&arena, one, 1000);
    weft_arena_free(&arena, other, 2000);
    weft_arena_fini(&arena);
}
END_TEST

/* Objects lie on few pages although other memory is allocated and freed in between. */
START_TEST(objects_lie_close_together)
{
    struct weft_arena arena = {0};
    static void *objects[N], *others[N];
    uintptr_t last_page = 0;
    unsigned n_pages = 0;

    for (unsigned i = 0; i < N; i++) {
        others[i] = weft_alloc(300 + i % 900);
        objects[i] = weft_arena_calloc(&arena, 1024);
        if (i % 2 == 1) {
            free(others[i / 2]);
        }
    }
    for (unsigned i = 0; i < N; i++) {
        n_pages += (uintptr_t)objects[i] / 4096 != last_page;
        last_page = (uintptr_t)objects[i] / 4096;
    }
    if (!WEFT_ARENA_IS_WATCHED) {
        ck_assert_uint_le(n_pages, N / 4 + 10);
    }
    for (unsigned i = 0; i < N; i++) {
        weft_arena_free(&arena, objects[i], 1024);
        if (i >= N / 2) {
            free(others[i]);
        }
    }
    weft_arena_fini(&arena);
}
END_TEST

/* Runs out of memory in a first chunk, in a large one, and for an object that is apart. Sanitizers
 * have their own answer to it. */
START_TEST(no_memory_is_left_to_the_program)
{
    static const struct {
        size_t n_bytes;
        rlim_t limit_bytes;
    } cases[] = {{64, 1}, {64, 64 << 20}, {4096, 64 << 20}, {70000, 64 << 20}};
    struct weft_arena arena = {0};
    struct rlimit before, limit;
    volatile bool is_out = false;

    if (WEFT_ARENA_IS_WATCHED) {
        return;
    }
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &before), 0);
    limit =
        (struct rlimit){.rlim_cur = cases[_i].limit_bytes, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
    if (setjmp(no_memory) == 0) {
        for (size_t n = 0; n < limit.rlim_cur + ((size_t)1 << 22);
             n += cases[_i].n_bytes) {
            (void)weft_arena_calloc(&arena, cases[_i].n_bytes);
        }
    } else {
        is_out = true;
    }
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &before), 0);
    weft_arena_fini(&arena);
    ck_assert(is_out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arena");
    TCase *tcase = tcase_create("arena");

    tcase_add_test(tcase, objects_are_zeros_on_lines_of_their_own);
    tcase_add_test(tcase, what_goes_makes_room);
    tcase_add_test(tcase, objects_lie_close_together);
    tcase_add_loop_test(tcase, no_memory_is_left_to_the_program, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
