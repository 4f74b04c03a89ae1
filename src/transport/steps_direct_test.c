/* Tests long messages that are copied directly between buffers of emulated GPUs
 * (backends/hostmem/machine_testing.h), in random orders of events. Whatever cannot be exported,
 * opened or copied, all messages must arrive once and in order, and no process may use memory that
 * it must not use. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/hostmem/machine_testing.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/gpu.h"
#include "transport/steps.h"

#define STEP 4096u
#define LONG 5000u
#define BYTES_MAX 30000u
#define SLOTS 4u
#define MESSAGES 40u
#define N_SEEDS 40

static struct hostmem_machine *machine;
static struct weft_rng rng;
static struct weft_trace quiet;
static struct io_env envs[2];
static struct ipc_node nodes[2];
static struct ipc_peer peers[2];
static struct steps_control control;
static void *ring[2]; /* the receiver's memory, and the sender's mapping of it */
static struct steps ends[2];
static weft_ns now;

static struct {
    uint8_t *memory;
    struct steps_request *request;
    uint64_t message;
    uint64_t going; /* id of a buffer that is being invalidated; 0 if none */
} slots[2][SLOTS];
static uint64_t n_begun[2], n_over[2], n_at_a_time;
static size_t sizes[MESSAGES];
static uint8_t bytes[BYTES_MAX], got[BYTES_MAX];
static const uint8_t junk[BYTES_MAX];

static weft_ns env_now(struct io_env *env)
{
    (void)env;
    return now;
}

static void env_random(struct io_env *env, void *out, size_t n_bytes)
{
    uint8_t *to = out;

    for (size_t i = 0; i < n_bytes; i++) {
        to[i] = (uint8_t)(weft_rng_next(&rng) + (env == &envs[1]));
    }
}

static const struct io_hostinfo *env_hostinfo(struct io_env *env)
{
    static const struct io_hostinfo info = {.host_id = {1}};

    (void)env;
    return &info;
}

static const struct io_env_ops env_ops = {
    .now = env_now, .random = env_random, .hostinfo = env_hostinfo};

static uint8_t *alloc(int who, enum io_memory where, size_t n_bytes)
{
    struct io_gpu *gpu = envs[who].gpu;
    void *memory;

    ck_assert_int_eq(gpu->ops->alloc(gpu, where, n_bytes, &memory), 0);
    return memory;
}

static void open_ring(void)
{
    struct io_gpu *gpu = envs[1].gpu, *other = envs[0].gpu;
    struct io_gpu_export exported;

    ring[1] = alloc(1, IO_MEMORY_DEVICE, (size_t)STEPS_N * STEP);
    ck_assert_int_eq(gpu->sharing->export_memory(gpu, ring[1], 1, &exported), 0);
    ck_assert_int_eq(other->sharing->import_memory(other, &exported, &ring[0]), 0);
    gpu->sharing->unexport(gpu, &exported);
}

static void start(uint64_t seed, const struct ipc_settings *settings)
{
    static const char *const uuids[] = {"GPU-a", "GPU-b"};

    weft_rng_init(&rng, seed, "steps");
    machine = hostmem_machine_create(seed, 3);
    weft_trace_init(&quiet, WEFT_TRACE_OFF, NULL, NULL);
    memset(&control, 0, sizeof(control));
    memset(slots, 0, sizeof(slots));
    memset(n_begun, 0, sizeof(n_begun));
    memset(n_over, 0, sizeof(n_over));
    n_at_a_time = SLOTS;
    now = 0;
    for (int i = 0; i < 2; i++) {
        struct hostmem_process process = {.uuid = uuids[i]};

        envs[i] = (struct io_env){
            .ops = &env_ops, .gpu = hostmem_join(machine, &process), .trace = &quiet};
        ipc_node_init(&nodes[i], &envs[i], NULL, settings);
        ipc_peer_init(&peers[i], &(struct ipc_link_config){.node = &nodes[i],
                                                           .peer = i == 0,
                                                           .is_higher = i == 1});
    }
    open_ring();
    for (int i = 0; i < 2; i++) {
        struct steps_config config = {.gpu = envs[i].gpu,
                                      .control = &control,
                                      .memory = ring[i],
                                      .step_bytes = STEP,
                                      .peer = i == 0,
                                      .is_sender = i == 0,
                                      .ipc = &peers[i],
                                      .direct_bytes = LONG};

        steps_init(&ends[i], &config);
    }
}

static struct ipc_settings usual(void)
{
    return (struct ipc_settings){.negative_ns = 10000,
                                 .n_events = 8,
                                 .n_open_max = 8,
                                 .n_bytes_open_max = UINT64_MAX};
}

static void finish(void)
{
    while (hostmem_step(machine)) {
    }
    for (int i = 0; i < 2; i++) {
        steps_abandon(&ends[i]);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert(ipc_peer_fini(&peers[i]));
    }
    for (int i = 0; i < 2; i++) {
        ipc_node_fini(&nodes[i]);
    }
    envs[0].gpu->sharing->unimport(envs[0].gpu, ring[0]);
    ck_assert_uint_eq(hostmem_n_imports(envs[0].gpu), 0);
    ck_assert_uint_eq(hostmem_n_imports(envs[1].gpu), 0);
    ck_assert_msg(hostmem_n_violations(machine) == 0, "%s", hostmem_violation(machine));
    hostmem_machine_destroy(machine);
}

static void fill(uint64_t message)
{
    for (size_t i = 0; i < BYTES_MAX; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 253 + message * 59 + 1);
    }
}

/* Carries one message of the negotiation from one end to the other. */
static void carry(int from)
{
    static uint8_t word[IPC_MESSAGE_MAX];
    struct ipc_message message, back;
    struct weft_error why = {0};

    ipc_peer_progress(&peers[from]);
    if (ipc_peer_next(&peers[from], &message)) {
        size_t n = ipc_encode(&message, word);

        ck_assert_int_eq(ipc_decode(word, n, &back, &why), WEFT_OK);
        ck_assert(ipc_peer_take(&peers[1 - from], &back));
    }
}

/* Replaces the buffer of a slot now and then, once the peer has closed it. The new one often has
 * the same address. Returns false while waiting for the peer. */
static bool renew(int who, uint32_t i)
{
    struct io_gpu *gpu = envs[who].gpu;

    if (slots[who][i].memory != NULL && slots[who][i].going == 0 &&
        weft_rng_below(&rng, 3) == 0) {
        slots[who][i].going = ipc_peer_invalidate(&peers[who], slots[who][i].memory);
    }
    if (slots[who][i].going != 0) {
        if (!ipc_peer_is_closed(&peers[who], slots[who][i].going)) {
            return false;
        }
        gpu->ops->free(gpu, slots[who][i].memory);
        slots[who][i].memory = NULL;
        slots[who][i].going = 0;
    }
    if (slots[who][i].memory == NULL) {
        slots[who][i].memory = alloc(who, IO_MEMORY_DEVICE, BYTES_MAX);
    }
    return true;
}

static void begin(int who)
{
    struct io_gpu *gpu = envs[who].gpu;
    uint32_t i = (uint32_t)(n_begun[who] % SLOTS);
    size_t n_bytes = who == 0 ? sizes[n_begun[0]] : BYTES_MAX;

    if (n_begun[who] - n_over[who] >= n_at_a_time || !renew(who, i)) {
        return;
    }
    fill(n_begun[who]);
    ck_assert_int_eq(
        gpu->ops->upload(gpu, slots[who][i].memory, who == 0 ? bytes : junk, BYTES_MAX),
        0);
    ck_assert_int_eq(
        steps_post(&ends[who], slots[who][i].memory, n_bytes, &slots[who][i].request),
        WEFT_OK);
    n_begun[who]++;
}

/* Ends the oldest message if it is complete: overwrites a sent one at once, compares a received
 * one. */
static void end(int who)
{
    struct io_gpu *gpu = envs[who].gpu;
    uint32_t i = (uint32_t)(n_over[who] % SLOTS);
    size_t n_bytes = 0;

    if (n_over[who] == n_begun[who] ||
        steps_test(&ends[who], slots[who][i].request, &n_bytes) != WEFT_OK) {
        ck_assert_msg(ends[who].error.status == WEFT_OK, "%s", ends[who].error.message);
        return;
    }
    ck_assert_uint_eq(n_bytes, sizes[n_over[who]]);
    if (who == 0) {
        ck_assert_int_eq(gpu->ops->upload(gpu, slots[who][i].memory, junk, BYTES_MAX), 0);
    } else {
        fill(n_over[1]);
        ck_assert_int_eq(gpu->ops->download(gpu, got, slots[who][i].memory, BYTES_MAX),
                         0);
        ck_assert_msg(memcmp(got, bytes, n_bytes) == 0, "message %llu is wrong",
                      (unsigned long long)n_over[1]);
    }
    n_over[who]++;
}

static void look(int who)
{
    if (n_begun[who] < MESSAGES) {
        begin(who);
    }
    steps_progress(&ends[who]);
    end(who);
}

/* Runs random events until all messages are done. `spoil`, unless NULL, injects failures now and
 * then. */
static void run(void (*spoil)(void))
{
    for (uint32_t i = 0; n_over[0] < MESSAGES || n_over[1] < MESSAGES; i++) {
        uint64_t which = weft_rng_below(&rng, 10);

        ck_assert_msg(i < 400000, "nothing moves after %llu messages",
                      (unsigned long long)n_over[1]);
        now += 50;
        if (which < 4) {
            (void)hostmem_step(machine);
        } else if (which < 7) {
            look((int)which % 2);
        } else if (which < 9) {
            carry((int)which % 2);
        } else if (spoil != NULL && weft_rng_below(&rng, 4) == 0) {
            spoil();
        }
    }
}

static void draw_sizes(void)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        sizes[i] = weft_rng_below(&rng, 3) == 0
                       ? (size_t)weft_rng_below(&rng, LONG)
                       : LONG + (size_t)weft_rng_below(&rng, BYTES_MAX - LONG);
        sizes[i] = weft_rng_below(&rng, 8) == 0 ? 0 : sizes[i];
    }
}

START_TEST(long_ones_go_directly_and_all_in_order)
{
    struct ipc_settings settings = usual();

    start((uint64_t)_i, &settings);
    draw_sizes();
    n_at_a_time = 1 + (uint64_t)_i % SLOTS;
    run(NULL);
    ck_assert_int_eq(ipc_link_state(&peers[0].link), IPC_OK);
    ck_assert_uint_gt(ends[0].n_direct, 0);
    ck_assert_uint_eq(ends[0].n_direct, ends[1].n_direct);
    ck_assert_uint_eq(ends[0].n_refused, 0);
    finish();
}
END_TEST

static void spoil_sharing(void)
{
    static const struct {
        int who;
        enum hostmem_call call;
        int sys_errno;
    } harms[] = {{0, HOSTMEM_EXPORT, EINVAL},       {0, HOSTMEM_EVENT, ENOMEM},
                 {1, HOSTMEM_IMPORT, ENOMEM},       {1, HOSTMEM_IMPORT, EACCES},
                 {1, HOSTMEM_IMPORT_EVENT, EMFILE}, {1, HOSTMEM_WAIT, EINVAL}};
    uint64_t i = weft_rng_below(&rng, sizeof(harms) / sizeof(harms[0]));

    hostmem_fail(envs[harms[i].who].gpu, harms[i].call, harms[i].sys_errno, 1);
}

/* Descriptors, memory or permission are short for a moment. Messages that are refused arrive in
 * pieces. */
START_TEST(what_cannot_be_opened_comes_all_the_same)
{
    struct ipc_settings settings = usual();

    settings.n_open_max = 1 + (uint32_t)_i % 3;
    settings.n_events = 1 + (uint32_t)_i % 2 * 7;
    start((uint64_t)_i + 1000, &settings);
    draw_sizes();
    n_at_a_time = 1 + (uint64_t)_i % SLOTS;
    run(spoil_sharing);
    finish();
}
END_TEST

/* All messages are long and none is in the steps yet, so the copy that fails is a direct one,
 * with others started behind it. */
START_TEST(a_copy_that_fails_takes_none_with_it)
{
    struct ipc_settings settings = usual();
    uint64_t n_direct;

    start((uint64_t)_i + 2000, &settings);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        sizes[i] = BYTES_MAX;
    }
    ipc_link_touch(&peers[0].link);
    for (uint32_t i = 0; i < 1000 && ipc_link_state(&peers[1].link) != IPC_OK; i++) {
        carry(0);
        carry(1);
        (void)hostmem_step(machine);
    }
    while (ends[1].n_started < 3) {
        look(0);
        look(1);
    }
    hostmem_fail(envs[1].gpu, HOSTMEM_COPY, EIO, 1);
    n_direct = ends[1].n_direct;
    run(NULL);
    ck_assert_uint_eq(ends[0].n_refused, 1);
    ck_assert_uint_eq(ends[1].n_refused, 1);
    ck_assert_uint_eq(ends[0].n_direct, MESSAGES - 1);
    ck_assert_uint_eq(n_direct, 0);
    finish();
}
END_TEST

/* All messages use the steps if CUDA IPC is disabled. */
START_TEST(who_is_refused_uses_the_steps)
{
    struct ipc_settings settings = usual();

    settings.is_off = true;
    start(7, &settings);
    draw_sizes();
    run(NULL);
    ck_assert_uint_eq(ends[0].n_direct, 0);
    ck_assert_int_ne(ipc_link_state(&peers[0].link), IPC_OK);
    finish();
}
END_TEST

/* The sender of the first long message says HELLO at once, because nothing else may wake it. */
START_TEST(the_first_long_message_says_hello)
{
    struct ipc_settings settings = usual();
    struct steps_request *request;
    struct ipc_message message;

    start(8, &settings);
    ck_assert_int_eq(
        steps_post(&ends[0], alloc(0, IO_MEMORY_DEVICE, LONG), LONG - 1, &request),
        WEFT_OK);
    ck_assert(!ipc_peer_next(&peers[0], &message));
    ck_assert_int_eq(
        steps_post(&ends[0], alloc(0, IO_MEMORY_DEVICE, LONG), LONG, &request), WEFT_OK);
    ck_assert(ipc_peer_next(&peers[0], &message));
    ck_assert_int_eq(message.type, IPC_HELLO);
    finish();
}
END_TEST

/* One end could not open the other's memory once. Its refusal expires, although only the sender
 * sends. Row: the end that refused. */
START_TEST(a_refusal_of_either_end_expires)
{
    struct ipc_settings settings = usual();

    start((uint64_t)_i + 4000, &settings);
    draw_sizes();
    hostmem_fail(envs[_i].gpu, HOSTMEM_IMPORT, EACCES, 1);
    ipc_link_touch(&peers[0].link);
    for (uint32_t i = 0; i < 1000 && ipc_link_state(&peers[1 - _i].link) != IPC_BAD;
         i++) {
        carry(0);
        carry(1);
        (void)hostmem_step(machine);
    }
    ck_assert_int_eq(ipc_link_reason(&peers[_i].link), IPC_NO_ACCESS);
    run(NULL);
    ck_assert_int_eq(ipc_link_state(&peers[0].link), IPC_OK);
    ck_assert_uint_gt(ends[0].n_direct, 0);
    finish();
}
END_TEST

/* The peer is killed during a copy. Lent events come back, and opened memory is closed. */
START_TEST(a_peer_that_dies_leaves_nothing_open)
{
    struct ipc_settings settings = usual();
    int dead = _i % 2;
    uint64_t until = 3 + (uint64_t)_i % 20;

    start((uint64_t)_i + 3000, &settings);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        sizes[i] = BYTES_MAX;
    }
    for (uint32_t i = 0; i < 100000 && n_over[1] < until; i++) {
        uint64_t which = weft_rng_below(&rng, 8);

        if (which < 2) {
            (void)hostmem_step(machine);
        } else if (which < 6) {
            look((int)which % 2);
        } else {
            carry((int)which % 2);
        }
    }
    hostmem_die(envs[dead].gpu);
    while (hostmem_step(machine)) {
    }
    steps_abandon(&ends[1 - dead]);
    ipc_link_gone(&peers[1 - dead].link);
    ck_assert(ipc_peer_fini(&peers[1 - dead]));
    ck_assert_uint_eq(hostmem_n_imports(envs[1 - dead].gpu), dead == 1 ? 1 : 0);
    for (uint32_t i = 0; i < nodes[1 - dead].settings.n_events; i++) {
        ck_assert(!nodes[1 - dead].is_lent[i]);
    }
    ck_assert_msg(hostmem_n_violations(machine) == 0, "%s", hostmem_violation(machine));
    /* Free the lists of the killed process, which in reality vanish with it. */
    free(peers[dead].offered);
    free(peers[dead].closing);
    ipc_node_fini(&nodes[1 - dead]);
    while (!TAILQ_EMPTY(&nodes[dead].cache.mappings)) {
        struct ipc_mapping *mapping = TAILQ_FIRST(&nodes[dead].cache.mappings);

        TAILQ_REMOVE(&nodes[dead].cache.mappings, mapping, link);
        free(mapping);
    }
    hostmem_machine_destroy(machine);
}
END_TEST

/* An invalid offer ends the connection, and has no other effect. */
START_TEST(an_offer_that_is_none_is_refused)
{
    static const uint64_t words[] = {5000u << 2 | 3, 0 << 2 | 3, (uint64_t)1 << 62 | 3};
    struct ipc_settings settings = usual();
    struct steps_request *request;
    uint8_t *memory;

    start(1, &settings);
    memory = alloc(1, IO_MEMORY_DEVICE, BYTES_MAX);
    memset(control.offers[0], 0xff, sizeof(control.offers[0]));
    atomic_store(&control.pieces[0], words[_i]);
    atomic_store(&control.tail.value, 1);
    ck_assert_int_eq(steps_post(&ends[1], memory, BYTES_MAX, &request), WEFT_OK);
    ck_assert_int_eq(ends[1].error.status, WEFT_ERR_PROTOCOL);
    ck_assert_int_eq(steps_test(&ends[1], request, NULL), WEFT_ERR_PROTOCOL);
    finish();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport/steps, direct");
    TCase *tests = tcase_create("direct");

    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, long_ones_go_directly_and_all_in_order, 0, N_SEEDS);
    tcase_add_loop_test(tests, what_cannot_be_opened_comes_all_the_same, 0, N_SEEDS);
    tcase_add_loop_test(tests, a_copy_that_fails_takes_none_with_it, 0, 8);
    tcase_add_test(tests, who_is_refused_uses_the_steps);
    tcase_add_test(tests, the_first_long_message_says_hello);
    tcase_add_loop_test(tests, a_refusal_of_either_end_expires, 0, 2);
    tcase_add_loop_test(tests, a_peer_that_dies_leaves_nothing_open, 0, N_SEEDS);
    tcase_add_loop_test(tests, an_offer_that_is_none_is_refused, 0, 3);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
