/* Checks that no wake-up is lost, by exploring every interleaving of the memory operations of
 * both ends on a machine with store buffers. The model is x86-TSO, in which loads can pass older
 * stores and nothing else is reordered. One end moves its counter once, the other goes to sleep.
 * In every outcome the sleeper must see the new counter, or be rung. */
#include <check.h>

#include "base/suite_testing.h"
#include "transport/doorbell.h"

enum { COUNTER, SLEEPS, N_WORDS };

/* Operations of an end's program, executed one per step. */
enum operation {
    STORE_COUNTER, /* mover: publishes */
    STORE_SLEEPS,  /* sleeper: sets its flag */
    FENCE,
    LOAD_SLEEPS,  /* mover: reads the sleeper's flag */
    LOAD_COUNTER, /* sleeper: reads the counter */
    END
};

struct store {
    int word, value;
};

struct end {
    const enum operation *program;
    int at;
    struct store buffer[2];
    int n_buffered;
    int loaded; /* result of its LOAD; -1 if not executed yet */
};

struct machine {
    int memory[N_WORDS];
    struct end ends[2];
};

static long n_outcomes, n_lost;

static int load(const struct machine *machine, const struct end *end, int word)
{
    for (int i = end->n_buffered; i-- > 0;) {
        if (end->buffer[i].word == word) {
            return end->buffer[i].value; /* an end sees its own stores */
        }
    }
    return machine->memory[word];
}

static void judge(const struct machine *machine)
{
    bool rang = machine->ends[0].loaded == 1;
    bool saw = machine->ends[1].loaded == 1;

    n_outcomes++;
    n_lost += !rang && !saw;
}

static void explore(struct machine machine);

static void step_program(struct machine machine, int who)
{
    struct end *end = &machine.ends[who];

    switch (end->program[end->at]) {
    case STORE_COUNTER:
        end->buffer[end->n_buffered++] = (struct store){COUNTER, 1};
        break;
    case STORE_SLEEPS:
        end->buffer[end->n_buffered++] = (struct store){SLEEPS, 1};
        break;
    case FENCE:
        if (end->n_buffered > 0) {
            return; /* waits until the buffer is empty */
        }
        break;
    case LOAD_SLEEPS:
        end->loaded = load(&machine, end, SLEEPS);
        break;
    case LOAD_COUNTER:
        end->loaded = load(&machine, end, COUNTER);
        break;
    case END:
        return;
    }
    end->at++;
    explore(machine);
}

static void drain_one(struct machine machine, int who)
{
    struct end *end = &machine.ends[who];

    machine.memory[end->buffer[0].word] = end->buffer[0].value;
    end->buffer[0] = end->buffer[1];
    end->n_buffered--;
    explore(machine);
}

static void explore(struct machine machine)
{
    bool is_over = true;

    for (int who = 0; who < 2; who++) {
        const struct end *end = &machine.ends[who];

        if (end->program[end->at] != END) {
            is_over = false;
            step_program(machine, who);
        }
        if (end->n_buffered > 0) {
            is_over = false;
            drain_one(machine, who);
        }
    }
    if (is_over) {
        judge(&machine);
    }
}

static void run(const enum operation *mover, const enum operation *sleeper)
{
    n_outcomes = n_lost = 0;
    explore((struct machine){
        .ends = {{.program = mover, .loaded = -1}, {.program = sleeper, .loaded = -1}}});
    ck_assert_int_gt(n_outcomes, 0);
}

static const enum operation mover[] = {STORE_COUNTER, FENCE, LOAD_SLEEPS, END};
static const enum operation sleeper[] = {STORE_SLEEPS, FENCE, LOAD_COUNTER, END};
static const enum operation bare_mover[] = {STORE_COUNTER, LOAD_SLEEPS, END};
static const enum operation bare_sleeper[] = {STORE_SLEEPS, LOAD_COUNTER, END};
static const enum operation hasty_mover[] = {LOAD_SLEEPS, FENCE, STORE_COUNTER, END};
static const enum operation hasty_sleeper[] = {LOAD_COUNTER, FENCE, STORE_SLEEPS, END};

START_TEST(no_interleaving_loses_a_wake_up)
{
    run(mover, sleeper);
    ck_assert_int_eq(n_lost, 0);
}
END_TEST

/* Each of these programs lacks a fence or reverses an order, and loses a wake-up. Shows that the
 * search can find one. */
START_TEST(neither_fence_and_no_order_can_go)
{
    run(bare_mover, sleeper);
    ck_assert_int_gt(n_lost, 0);
    run(mover, bare_sleeper);
    ck_assert_int_gt(n_lost, 0);
    run(hasty_mover, sleeper);
    ck_assert_int_gt(n_lost, 0);
    run(mover, hasty_sleeper);
    ck_assert_int_gt(n_lost, 0);
}
END_TEST

START_TEST(one_sleep_is_rung_once)
{
    struct doorbell_counter counter = {0};
    struct doorbell_sleeper sleeper_word = {0};

    ck_assert(!doorbell_must_ring(&sleeper_word)); /* not asleep */
    ck_assert(doorbell_may_sleep(&sleeper_word, &counter, 0));
    doorbell_publish(&counter, 1);
    ck_assert(doorbell_must_ring(&sleeper_word));
    doorbell_publish(&counter, 2);
    ck_assert(!doorbell_must_ring(&sleeper_word));
    /* The counter is 2 already. */
    ck_assert(!doorbell_may_sleep(&sleeper_word, &counter, 1));
    ck_assert_uint_eq(doorbell_read(&counter), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport/doorbell");
    TCase *tests = tcase_create("doorbell");

    tcase_add_test(tests, no_interleaving_loses_a_wake_up);
    tcase_add_test(tests, neither_fence_and_no_order_can_go);
    tcase_add_test(tests, one_sleep_is_rung_once);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
