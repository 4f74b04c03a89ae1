/* Tests of lengths that a member announces in a meeting. Rank 0 is scripted: a rendezvous without a
 * meeting, which answers each gather from a list. */
#include <check.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/wire.h"
#include "host/host.h"
#include "host/host_testing.h"
#include "host/meeting.h"

#define N_WORDS 3

/* A world in which rank 0 advances while the meeting of rank 1 waits. */
struct scripted {
    struct world world;
    struct world_ops ops;
    struct world *inner; /* Owned */
    struct boot *boot;
    uint8_t words[N_WORDS][8]; /* one per gather */
    size_t n_bytes[N_WORDS];
    uint32_t n_said;
};

static struct scripted *scripted_of(struct world *world)
{
    return weft_container_of(world, struct scripted, world);
}

static struct io_loop *scripted_loop(struct world *world)
{
    struct world *inner = scripted_of(world)->inner;

    return inner->ops->loop(inner);
}

static weft_ns scripted_now(struct world *world)
{
    struct world *inner = scripted_of(world)->inner;

    return inner->ops->now(inner);
}

static void say(struct scripted *first)
{
    boot_gather(first->boot, first->words[first->n_said], first->n_bytes[first->n_said]);
    first->n_said++;
}

static weft_status scripted_step(struct world *world, weft_ns until)
{
    struct scripted *first = scripted_of(world);
    struct weft_error error;

    if (boot_progress(first->boot, &error) == WEFT_OK && first->n_said < N_WORDS) {
        say(first);
    }
    return first->inner->ops->step(first->inner, until);
}

static void scripted_open(struct scripted *first, const struct mesh_test *test,
                          const struct boot_config *config)
{
    struct weft_error error;

    ck_assert_int_eq(backend_find("sim")->create(&test->spec, &first->inner, &error),
                     WEFT_OK);
    first->ops = *first->inner->ops;
    first->ops.loop = scripted_loop;
    first->ops.now = scripted_now;
    first->ops.step = scripted_step;
    first->world.ops = &first->ops;
    ck_assert_int_eq(boot_open(first->inner->ops->host_env(first->inner, 0, 0), config,
                               HOST_TASK_BOOT, &first->boot, &error),
                     WEFT_OK);
    say(first);
}

static void add_number(struct scripted *first, uint32_t i, uint32_t number)
{
    struct wire_writer writer = wire_writer_init(first->words[i], 4);

    wire_put_u32(&writer, number);
    first->n_bytes[i] = 4;
}

/* Rank 1 has a text of five bytes. */
static const struct {
    /* Length of rank 0's text, and the longest that it reports. */
    uint32_t length, longest;
    const char *refusal; /* NULL if "abc" and "hello" are gathered */
} rows[] = {
    {3, 5, NULL},
    {(16 << 20) + 1, 5, "rank 0 announced 16777217 bytes, 16777216 are allowed"},
    {3, (16 << 20) + 1, "rank 0 announced 16777217 bytes, 16777216 are allowed"},
    {3, UINT32_MAX, "rank 0 announced 4294967295 bytes, 16777216 are allowed"},
};

START_TEST(lengths_that_nobody_may_tell_are_refused)
{
    struct scripted first = {.n_bytes[2] = 5, .words[2] = "abc"};
    struct weft_text mine = {NULL, 0, 0}, all[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    struct mesh_test test;
    struct boot_config config;
    struct meeting *meeting;
    struct weft_error error;
    weft_ns told_ns;
    weft_status status;

    mesh_test_init(&test, 2);
    config = test.config.boot;
    config.n_ranks = 2;
    add_number(&first, 0, rows[_i].length);
    add_number(&first, 1, rows[_i].longest);
    scripted_open(&first, &test, &config);
    config.rank = 1;
    weft_error_clear(&error);
    ck_assert_int_eq(meeting_open(&first.world,
                                  first.inner->ops->host_env(first.inner, 1, 0), &config,
                                  &meeting, &error),
                     WEFT_OK);
    weft_text_add(&mine, "hello");
    status = meeting_gather_texts(meeting, &mine, false, all, &told_ns, &error);
    if (rows[_i].refusal == NULL) {
        ck_assert_int_eq(status, WEFT_OK);
        ck_assert_str_eq(all[0].bytes, "abc");
        ck_assert_str_eq(all[1].bytes, "hello");
    } else {
        ck_assert_int_eq(status, WEFT_ERR_PROTOCOL);
        ck_assert_str_eq(weft_phase_name(error.phase), "meeting");
        ck_assert_str_eq(error.message, rows[_i].refusal);
        ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_RANK)->number, 0);
        ck_assert_ptr_null(all[0].bytes);
    }
    meeting_close(meeting);
    boot_close(first.boot);
    first.inner->ops->destroy(first.inner);
    coll_mesh_fini(&test.coll_mesh);
    weft_text_fini(&mine);
    weft_text_fini(&all[0]);
    weft_text_fini(&all[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host/meeting");
    TCase *tcase = tcase_create("lengths");

    tcase_add_loop_test(tcase, lengths_that_nobody_may_tell_are_refused, 0,
                        WEFT_LENGTH(rows));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
