#include "base/heap.h"

#include <check.h>

#include "base/rng.h"
#include "base/suite_testing.h"

#define N 500

START_TEST(equal_keys_leave_in_order_of_arrival)
{
    static const int64_t keys[] = {5, 3, 5, 3, 9, INT64_MIN, 5, INT64_MAX};
    static const size_t order[] = {5, 1, 3, 0, 2, 6, 4, 7};
    struct weft_heap_node nodes[8];
    struct weft_heap heap;

    weft_heap_init(&heap);
    ck_assert_ptr_null(weft_heap_peek(&heap));
    for (size_t i = 0; i < 8; i++) {
        nodes[i] = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
        weft_heap_set(&heap, &nodes[i], keys[i]);
    }
    for (size_t i = 0; i < 8; i++) {
        ck_assert_ptr_eq(weft_heap_peek(&heap), &nodes[order[i]]);
        weft_heap_remove(&heap, &nodes[order[i]]);
        ck_assert_uint_eq(nodes[order[i]].index, WEFT_HEAP_OUT);
    }
    ck_assert_ptr_null(weft_heap_peek(&heap));
    weft_heap_remove(&heap, &nodes[0]); /* not in the heap: no effect */
    weft_heap_fini(&heap);
}
END_TEST

START_TEST(setting_again_moves_behind_its_equals)
{
    struct weft_heap_node a = WEFT_HEAP_NODE_INIT, b = WEFT_HEAP_NODE_INIT;
    struct weft_heap heap;

    weft_heap_init(&heap);
    weft_heap_set(&heap, &a, 1);
    weft_heap_set(&heap, &b, 1);
    ck_assert_ptr_eq(weft_heap_peek(&heap), &a);
    weft_heap_set(&heap, &a, 1);
    ck_assert_ptr_eq(weft_heap_peek(&heap), &b);
    weft_heap_set(&heap, &a, 0);
    ck_assert_ptr_eq(weft_heap_peek(&heap), &a);
    weft_heap_fini(&heap);
    ck_assert_uint_eq(a.index, WEFT_HEAP_OUT);
    ck_assert_uint_eq(b.index, WEFT_HEAP_OUT);
}
END_TEST

/* The oracle: a list that is searched from end to end. */
struct model {
    bool is_in;
    int64_t key;
    uint64_t stamp;
};

static int least_of(const struct model *model)
{
    int least = -1;

    for (int i = 0; i < N; i++) {
        if (!model[i].is_in) {
            continue;
        }
        if (least < 0 || model[i].key < model[least].key ||
            (model[i].key == model[least].key && model[i].stamp < model[least].stamp)) {
            least = i;
        }
    }
    return least;
}

/* Removes everything in order, because only that shows errors far below the root. */
static void drain(struct weft_heap *heap, struct weft_heap_node *nodes,
                  struct model *model)
{
    for (int least = least_of(model); least >= 0; least = least_of(model)) {
        if (weft_heap_peek(heap) != &nodes[least]) {
            ck_abort_msg("key %d is not the least", (int)nodes[least].key);
        }
        weft_heap_remove(heap, &nodes[least]);
        model[least].is_in = false;
    }
    ck_assert_ptr_null(weft_heap_peek(heap));
}

START_TEST(agrees_with_a_searched_list)
{
    static struct weft_heap_node nodes[N];
    static struct model model[N];
    struct weft_heap heap;
    struct weft_rng rng;

    weft_heap_init(&heap);
    weft_rng_init(&rng, (uint64_t)_i, "heap");
    for (int i = 0; i < N; i++) {
        nodes[i] = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
        model[i].is_in = false;
    }
    for (uint64_t stamp = 0; stamp < 8 * 512; stamp++) {
        size_t i = (size_t)weft_rng_below(&rng, N);
        int least;

        if (weft_rng_below(&rng, 3) == 0) {
            weft_heap_remove(&heap, &nodes[i]);
            model[i].is_in = false;
        } else {
            int64_t key = (int64_t)weft_rng_below(&rng, 50) - 25;

            weft_heap_set(&heap, &nodes[i], key);
            model[i] = (struct model){true, key, stamp};
        }
        if (stamp % 512 == 511) {
            drain(&heap, nodes, model);
        }
        least = least_of(model);
        if (weft_heap_peek(&heap) != (least < 0 ? NULL : &nodes[least])) {
            ck_abort_msg("after %d steps", (int)stamp);
        }
    }
    weft_heap_fini(&heap);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/heap");
    TCase *tcase = tcase_create("heap");

    tcase_add_test(tcase, equal_keys_leave_in_order_of_arrival);
    tcase_add_test(tcase, setting_again_moves_behind_its_equals);
    tcase_add_loop_test(tcase, agrees_with_a_searched_list, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
