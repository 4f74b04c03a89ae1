/* Tests the proxies of two ranks of a simulated host: a connection from INIT to CLOSE, and
 * requests that are refused. */
#include "transport/proxy.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/suite_testing.h"
#include "base/text.h"

#define STEP 4096u

static struct bed bed;
static struct io_env *envs[2];
static struct proxy *proxies[2];

static void setup(void)
{
    sim_bed_pair_inside(&bed, envs);
    for (uint32_t i = 0; i < 2; i++) {
        proxies[i] = proxy_create(envs[i], i);
    }
}

static void teardown(void)
{
    proxy_destroy(proxies[0]);
    proxy_destroy(proxies[1]);
    proxy_destroy(NULL);
    sim_bed_fini(&bed);
}

/* Sends a request of rank `asker` to proxy `at`. Returns the errno of the answer, or EAGAIN. */
static int ask(uint32_t at, uint32_t asker, const struct proxy_call *call,
               struct proxy_answer *out)
{
    struct proxy_answer answer;
    weft_status status =
        proxy_serve(proxies[at], asker, call, out == NULL ? &answer : out);

    return status == WEFT_AGAIN ? EAGAIN : (out == NULL ? &answer : out)->sys_errno;
}

static int tell(uint32_t at, uint32_t asker, enum proxy_type type, uint32_t connection)
{
    const struct proxy_call call = {
        .type = type, .connection = connection, .step_bytes = STEP};

    return ask(at, asker, &call, NULL);
}

static uint32_t init(uint32_t at, enum weft_transport kind, bool is_sender, bool is_owner)
{
    const struct proxy_call call = {.type = PROXY_INIT,
                                    .kind = kind,
                                    .is_sender = is_sender,
                                    .is_owner = is_owner,
                                    .peer = 1 - at};
    struct proxy_answer answer;

    ck_assert_int_eq(ask(at, at, &call, &answer), 0);
    ck_assert_int_eq(tell(at, at, PROXY_SHARED_INIT, answer.connection), 0);
    ck_assert_int_eq(tell(at, at, PROXY_SETUP, answer.connection), 0);
    ck_assert_int_eq(proxy_state_of(proxies[at], answer.connection), PROXY_SETUP_DONE);
    return answer.connection;
}

/* Connects rank 1, which owns the steps, and rank 0, which attaches. Checks that both see the
 * same memory. */
static void connect_both(enum weft_transport kind, uint32_t *out_other,
                         uint32_t *out_owner)
{
    uint32_t other = init(0, kind, true, false), owner = init(1, kind, false, true);
    struct proxy_call call = {.type = PROXY_GET_FD, .connection = owner};
    struct steps_control *controls[2];
    struct proxy_answer key;
    uint8_t *steps[2];

    ck_assert_int_eq(tell(1, 1, PROXY_CONNECT, owner), EAGAIN); /* not attached yet */
    ck_assert_int_eq(ask(1, 0, &call, &key), 0);
    call = (struct proxy_call){
        .type = PROXY_CONNECT, .connection = other, .memory = key.memory};
    weft_format(call.name, sizeof(call.name), "%s", key.name);
    ck_assert(!proxy_region(proxies[0], other, &controls[0], &steps[0]));
    ck_assert_int_eq(ask(0, 0, &call, NULL), 0);
    ck_assert_int_eq(tell(1, 0, PROXY_START, owner), 0);
    ck_assert_int_eq(tell(1, 1, PROXY_CONNECT, owner), 0);
    ck_assert(proxy_region(proxies[0], other, &controls[0], &steps[0]));
    ck_assert(proxy_region(proxies[1], owner, &controls[1], &steps[1]));
    controls[0]->pieces[3] = 77;
    ck_assert_uint_eq(controls[1]->pieces[3], 77);
    steps[0][STEPS_N * STEP - 1] = 5;
    ck_assert_uint_eq(steps[1][STEPS_N * STEP - 1], 5);
    *out_other = other;
    *out_owner = owner;
}

START_TEST(two_ends_come_to_share_their_steps)
{
    const enum weft_transport kinds[] = {WEFT_TRANSPORT_SHM, WEFT_TRANSPORT_P2P};
    uint32_t other, owner;

    connect_both(kinds[_i], &other, &owner);
    ck_assert_int_eq(tell(1, 1, PROXY_CONNECT, owner), EINVAL); /* only once */
    ck_assert_int_eq(tell(1, 1, PROXY_CLOSE, owner), 0);
    ck_assert_int_eq(tell(1, 1, PROXY_CLOSE, owner), ENOENT);
    ck_assert_int_eq(tell(0, 0, PROXY_CLOSE, other), 0);
    ck_assert_uint_eq(proxy_n_connections(proxies[0]) + proxy_n_connections(proxies[1]),
                      0);
}
END_TEST

START_TEST(a_name_serves_once)
{
    uint32_t other, owner;
    struct proxy_call call = {.type = PROXY_CONNECT};
    struct proxy_answer key;

    connect_both(WEFT_TRANSPORT_SHM, &other, &owner);
    call.connection = owner;
    call.type = PROXY_GET_FD;
    ck_assert_int_eq(ask(1, 0, &call, &key), 0);
    call = (struct proxy_call){.type = PROXY_CONNECT};
    call.connection = init(0, WEFT_TRANSPORT_SHM, true, false);
    weft_format(call.name, sizeof(call.name), "%s", key.name);
    ck_assert_int_eq(ask(0, 0, &call, NULL), ENOENT);
}
END_TEST

START_TEST(requests_have_their_time)
{
    struct proxy_call call = {
        .type = PROXY_INIT, .kind = WEFT_TRANSPORT_SHM, .is_owner = true, .peer = 1};
    struct proxy_answer answer;
    uint32_t c;

    ck_assert_int_eq(ask(0, 0, &call, &answer), 0);
    c = answer.connection;
    ck_assert_int_eq(tell(0, 0, PROXY_SETUP, c), EINVAL);
    ck_assert_int_eq(tell(0, 0, PROXY_CONNECT, c), EINVAL);
    ck_assert_int_eq(tell(0, 1, PROXY_START, c), EINVAL);
    ck_assert_int_eq(tell(0, 1, PROXY_GET_FD, c), EAGAIN); /* retried later */
    ck_assert_int_eq(tell(0, 0, PROXY_SHARED_INIT, c), 0);
    ck_assert_int_eq(tell(0, 0, PROXY_SHARED_INIT, c), EINVAL);
    ck_assert_int_eq(tell(0, 1, PROXY_GET_FD, c), EAGAIN);
    ck_assert_int_eq(tell(0, 0, PROXY_SETUP, c), 0);
    ck_assert_int_eq(tell(0, 1, PROXY_GET_FD, c), 0);
    ck_assert_int_eq(tell(0, 0, PROXY_SETUP, c + 1), ENOENT);
    ck_assert_int_eq(tell(0, 0, PROXY_SETUP, 0), ENOENT);
    call.kind = WEFT_TRANSPORT_NET;
    ck_assert_int_eq(ask(0, 0, &call, NULL), EOPNOTSUPP);
}
END_TEST

START_TEST(nobody_asks_what_is_not_his)
{
    uint32_t c = init(0, WEFT_TRANSPORT_SHM, false, true);
    const struct proxy_call call = {.type = PROXY_INIT, .kind = WEFT_TRANSPORT_SHM};

    ck_assert_int_eq(tell(0, 2, PROXY_GET_FD, c), EPERM); /* a third rank */
    ck_assert_int_eq(tell(0, 0, PROXY_GET_FD, c), EPERM);
    ck_assert_int_eq(tell(0, 2, PROXY_START, c), EPERM);
    ck_assert_int_eq(tell(0, 1, PROXY_CLOSE, c), EPERM);
    ck_assert_int_eq(tell(0, 1, PROXY_CONNECT, c), EPERM);
    ck_assert_int_eq(ask(0, 1, &call, NULL), EPERM);
    c = init(0, WEFT_TRANSPORT_SHM, true, false);
    ck_assert_int_eq(tell(0, 1, PROXY_GET_FD, c), EINVAL); /* this end is not the owner */
}
END_TEST

/* The end that could not open the owner's memory asks for steps in host memory. */
START_TEST(p2p_falls_back_to_shm)
{
    uint32_t other = init(0, WEFT_TRANSPORT_P2P, true, false);
    uint32_t owner = init(1, WEFT_TRANSPORT_P2P, false, true);
    struct proxy_call call = {
        .type = PROXY_FALL_BACK, .connection = owner, .sys_errno = EPERM};
    struct steps_control *control;
    struct proxy_answer key;
    uint8_t *steps[2];
    int sys_errno;

    ck_assert_int_eq(ask(1, 2, &call, NULL), EPERM); /* a third rank */
    ck_assert_int_eq(ask(1, 0, &call, &key), 0);
    ck_assert_uint_eq(key.memory.n_bytes, 0);
    ck_assert_int_eq(ask(1, 0, &call, NULL), EINVAL); /* only once */
    call.connection = other;
    ck_assert_int_eq(ask(0, 1, &call, NULL), EINVAL); /* this end is not the owner */
    ck_assert_int_eq(ask(0, 0, &call, NULL), 0);
    call = (struct proxy_call){.type = PROXY_CONNECT, .connection = other};
    weft_format(call.name, sizeof(call.name), "%s", key.name);
    ck_assert_int_eq(ask(0, 0, &call, NULL), 0);
    ck_assert_int_eq(tell(1, 0, PROXY_START, owner), 0);
    ck_assert_int_eq(tell(1, 1, PROXY_CONNECT, owner), 0);
    ck_assert_int_eq(proxy_kind_of(proxies[1], owner, &sys_errno), WEFT_TRANSPORT_SHM);
    ck_assert_int_eq(sys_errno, EPERM);
    ck_assert(proxy_region(proxies[0], other, &control, &steps[0]));
    ck_assert(proxy_region(proxies[1], owner, &control, &steps[1]));
    steps[0][STEPS_N * STEP - 1] = 5;
    ck_assert_uint_eq(steps[1][STEPS_N * STEP - 1], 5);
    ck_assert_int_eq(tell(0, 0, PROXY_FALL_BACK, other), EINVAL);
}
END_TEST

/* SETUP failed because the GPU has no memory for the steps. FALL_BACK replaces it. */
START_TEST(who_falls_back_before_setup_is_set_up)
{
    struct proxy_call call = {
        .type = PROXY_INIT, .kind = WEFT_TRANSPORT_P2P, .is_owner = true, .peer = 1};
    struct proxy_answer answer;
    uint32_t c;

    ck_assert_int_eq(ask(0, 0, &call, &answer), 0);
    c = answer.connection;
    call =
        (struct proxy_call){.type = PROXY_FALL_BACK, .connection = c, .is_owner = true};
    /* The size of the steps is unknown. */
    ck_assert_int_eq(ask(0, 0, &call, NULL), EINVAL);
    ck_assert_int_eq(tell(0, 0, PROXY_SHARED_INIT, c), 0);
    ck_assert_int_eq(ask(0, 0, &call, NULL), 0);
    ck_assert_int_eq(proxy_state_of(proxies[0], c), PROXY_SETUP_DONE);
    ck_assert_int_eq(tell(0, 1, PROXY_GET_FD, c), 0);
}
END_TEST

static int busy_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                       struct io_gpu_export *out)
{
    (void)gpu, (void)address, (void)kinds, (void)out;
    return EAGAIN;
}

static int busy_create(struct io_env *env, size_t n_bytes,
                       char out_name[IO_SHM_NAME_BYTES], struct io_shm **out)
{
    (void)env, (void)n_bytes, (void)out_name, (void)out;
    return EAGAIN;
}

/* Sends a request that must be answered at once, and returns the errno of the answer. */
static int ask_now(const struct proxy_call *call, struct proxy_answer *out)
{
    ck_assert_int_eq(proxy_serve(proxies[0], 0, call, out), WEFT_OK);
    return out->sys_errno;
}

/* EAGAIN of a GPU or of shared memory is a failure like any other. The request is not served again,
 * which would allocate the steps twice. */
START_TEST(eagain_of_a_driver_is_an_answer)
{
    struct io_gpu_sharing_ops sharing = *envs[0]->gpu->sharing;
    struct io_shm_ops shm = *envs[0]->shm;
    struct proxy_call call = {
        .type = PROXY_INIT, .kind = WEFT_TRANSPORT_P2P, .is_owner = true, .peer = 1};
    struct proxy_answer answer;

    sharing.export_memory = busy_export;
    envs[0]->gpu->sharing = &sharing;
    ck_assert_int_eq(ask_now(&call, &answer), 0);
    call = (struct proxy_call){
        .type = PROXY_SHARED_INIT, .connection = answer.connection, .step_bytes = STEP};
    ck_assert_int_eq(ask_now(&call, &answer), 0);
    call.type = PROXY_SETUP;
    ck_assert_int_eq(ask_now(&call, &answer), EAGAIN);
    shm.create = busy_create;
    envs[0]->shm = &shm;
    call.type = PROXY_FALL_BACK;
    call.is_owner = true;
    ck_assert_int_eq(ask_now(&call, &answer), EAGAIN);
    call.type = PROXY_CLOSE;
    ck_assert_int_eq(ask_now(&call, &answer), 0);
}
END_TEST

START_TEST(memory_is_registered_and_forgotten)
{
    struct io_gpu *gpu = envs[0]->gpu;
    struct proxy_call call = {.type = PROXY_REGISTER, .n_bytes = 4096};
    struct proxy_answer answer;
    void *memory, *seen = NULL;

    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 4096, &memory), 0);
    ck_assert_int_eq(ask(0, 0, &call, NULL), EINVAL); /* not an allocation */
    call.address = (uintptr_t)memory;
    ck_assert_int_eq(ask(0, 1, &call, NULL), EPERM);
    ck_assert_int_eq(ask(0, 0, &call, &answer), 0);
    gpu = envs[1]->gpu;
    ck_assert_uint_eq(answer.memory.n_bytes, 4096);
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &answer.memory, &seen), 0);
    ck_assert_ptr_eq(seen, memory);
    call.type = PROXY_DEREGISTER;
    call.connection = answer.connection;
    ck_assert_int_eq(ask(0, 0, &call, NULL), 0);
    ck_assert_int_eq(ask(0, 0, &call, NULL), ENOENT);
    /* Memory that is freed while another process has it open stays valid there, but cannot be
     * opened again. */
    envs[0]->gpu->ops->free(envs[0]->gpu, memory);
    memset(seen, 1, 4096);
    ck_assert_int_eq(gpu->sharing->import_memory(gpu, &answer.memory, &memory), ENOENT);
    gpu->sharing->unimport(gpu, seen);
}
END_TEST

static const struct io_gpu_sharing_ops *full_sharing;
static int n_exported; /* exports that hold resources */

static int counted_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                          struct io_gpu_export *out)
{
    int sys_errno = full_sharing->export_memory(gpu, address, kinds, out);

    n_exported += sys_errno == 0 ? 1 : 0;
    return sys_errno;
}

static void counted_unexport(struct io_gpu *gpu, const struct io_gpu_export *exported)
{
    full_sharing->unexport(gpu, exported);
    n_exported--;
}

/* An export is kept as long as its registration. A refusal exports nothing. */
START_TEST(registrations_own_their_exports)
{
    struct io_gpu *gpu = envs[0]->gpu;
    struct io_gpu_sharing_ops sharing = *gpu->sharing;
    struct proxy_call call = {.type = PROXY_REGISTER, .n_bytes = 4096};
    struct proxy_answer answer;
    void *memory;

    full_sharing = gpu->sharing;
    sharing.export_memory = counted_export;
    sharing.unexport = counted_unexport;
    gpu->sharing = &sharing;
    n_exported = 0;
    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, 4096, &memory), 0);
    call.address = (uintptr_t)memory;
    for (uint32_t i = 0; i < PROXY_CONNECTIONS_MAX; i++) {
        ck_assert_int_eq(ask(0, 0, &call, &answer), 0);
    }
    ck_assert_int_eq(ask(0, 0, &call, NULL), ENOSPC);
    ck_assert_int_eq(n_exported, PROXY_CONNECTIONS_MAX);
    call.type = PROXY_DEREGISTER;
    call.connection = answer.connection;
    ck_assert_int_eq(ask(0, 0, &call, NULL), 0);
    ck_assert_int_eq(n_exported, PROXY_CONNECTIONS_MAX - 1);
    proxy_destroy(proxies[0]);
    proxies[0] = NULL;
    ck_assert_int_eq(n_exported, 0);
    gpu->ops->free(gpu, memory);
    gpu->sharing = full_sharing;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport/proxy");
    TCase *tests = tcase_create("proxy");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, two_ends_come_to_share_their_steps, 0, 2);
    tcase_add_test(tests, a_name_serves_once);
    tcase_add_test(tests, requests_have_their_time);
    tcase_add_test(tests, nobody_asks_what_is_not_his);
    tcase_add_test(tests, p2p_falls_back_to_shm);
    tcase_add_test(tests, who_falls_back_before_setup_is_set_up);
    tcase_add_test(tests, eagain_of_a_driver_is_an_answer);
    tcase_add_test(tests, memory_is_registered_and_forgotten);
    tcase_add_test(tests, registrations_own_their_exports);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
