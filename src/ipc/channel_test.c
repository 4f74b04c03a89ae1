/* Tests messages between two processes, with every race that CUDA IPC is known for. The data
 * must be right, no message may be lost while both processes exist, and no process may use
 * memory that it must not use. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "ipc/world_testing.h"

#define A "GPU-a"
#define B "GPU-b"

static struct ipc_world world;

#define start(...) ipc_world_init(&world, __VA_ARGS__)

/* Runs until all messages have been received, and checks them. */
static void finish(void)
{
    ipc_world_run(&world);
    ipc_world_settle(&world);
    for (int i = 0; i < 2; i++) {
        const struct ipc_side *side = &world.sides[i];

        ck_assert_msg(!side->has_failed, "side %d: %s", i, side->channel.error.message);
        ck_assert_uint_eq(side->n_wrong, 0);
        ck_assert_uint_eq(side->n_received, side->n_to_receive);
    }
    ck_assert_msg(hostmem_n_violations(world.machine) == 0, "%s",
                  hostmem_violation(world.machine));
    ipc_world_fini(&world);
}

static enum ipc_state state_of(int i)
{
    return ipc_link_state(&world.sides[i].channel.peer.link);
}

static void assert_states(enum ipc_state left, enum ipc_state right)
{
    ipc_world_settle(&world);
    ck_assert_str_eq(ipc_state_name(state_of(0)), ipc_state_name(left));
    ck_assert_str_eq(ipc_state_name(state_of(1)), ipc_state_name(right));
}

static void assert_reason(int i, enum ipc_reason reason)
{
    ck_assert_str_eq(ipc_reason_name(ipc_link_reason(&world.sides[i].channel.peer.link)),
                     ipc_reason_name(reason));
}

static void run(uint64_t n_left, uint64_t n_right)
{
    ipc_world_send(&world, n_left, n_right);
    ipc_world_run(&world);
}

START_TEST(both_initiate_and_the_story_is_that_of_the_document)
{
    start(&(struct ipc_world_config){.seed = 1, .processes = {{.uuid = A}, {.uuid = B}}});
    for (int i = 0; i < 2; i++) {
        ipc_link_touch(&world.sides[i].channel.peer.link);
    }
    assert_states(IPC_OK, IPC_OK);
    ck_assert_str_eq(world.sides[0].story.bytes,
                     "0 left ipc1 state rank=0 from=INIT to=SENT epoch=1\n"
                     "0 left ipc1 state rank=0 from=SENT to=ACKING epoch=1\n"
                     "0 left ipc1 state rank=0 from=ACKING to=ACKED epoch=1\n"
                     "0 left ipc1 state rank=0 from=ACKED to=OK epoch=1\n");
    ck_assert_str_eq(world.sides[1].story.bytes,
                     "0 right ipc0 state rank=1 from=INIT to=SENT epoch=1\n"
                     "0 right ipc0 state rank=1 from=SENT to=ACKING epoch=1\n"
                     "0 right ipc0 state rank=1 from=ACKING to=ACKED epoch=1\n"
                     "0 right ipc0 state rank=1 from=ACKED to=OK epoch=1\n");
    run(40, 40);
    ck_assert_uint_gt(world.sides[0].n_direct, 30);
    ck_assert_uint_gt(world.sides[1].n_direct, 30);
    finish();
}
END_TEST

START_TEST(nothing_is_said_before_the_first_gpu_buffer)
{
    start(&(struct ipc_world_config){.seed = 2, .processes = {{.uuid = A}, {.uuid = B}}});
    assert_states(IPC_INIT, IPC_INIT);
    ck_assert_uint_eq(world.sides[0].story.n + world.sides[1].story.n, 0);
    /* Only one end has a buffer; the other replies although it has none. */
    ipc_link_touch(&world.sides[1].channel.peer.link);
    assert_states(IPC_OK, IPC_OK);
    finish();
}
END_TEST

/* k messages are sent before the peer has a context. They are staged; later ones are copied
 * directly. */
START_TEST(one_side_is_late_by_k_messages)
{
    uint64_t k = (uint64_t)_i;

    start(&(struct ipc_world_config){
        .seed = 3, .processes = {{.uuid = A}, {.uuid = B, .has_no_context = true}}});
    run(k, 0);
    ck_assert_int_ne(state_of(0), IPC_BAD);
    ck_assert_uint_eq(world.sides[1].n_direct, 0);
    hostmem_context(world.sides[1].gpu, true);
    if (k == 0) { /* no message has started the negotiation */
        ipc_link_touch(&world.sides[0].channel.peer.link);
    }
    assert_states(IPC_OK, IPC_OK);
    run(20, 20);
    ck_assert_uint_gt(world.sides[1].n_direct, 10);
    finish();
}
END_TEST

/* In exclusive mode the second process on a GPU never gets a context. No message waits for it. */
START_TEST(a_process_that_never_gets_a_context_is_served)
{
    start(&(struct ipc_world_config){
        .seed = 40, .processes = {{.uuid = A}, {.uuid = A, .has_no_context = true}}});
    run(20, 20);
    ck_assert_uint_eq(world.sides[0].n_direct + world.sides[1].n_direct, 0);
    assert_states(IPC_SENT, IPC_INIT);
    finish();
}
END_TEST

/* The original gives up after five tries and enters BAD. Messages still arrive. */
START_TEST(the_original_gives_up_after_five_messages)
{
    struct ipc_settings original = ipc_world_settings();
    uint64_t k = (uint64_t)_i;

    original.is_original = true;
    start(&(struct ipc_world_config){
        .seed = 4,
        .processes = {{.uuid = A}, {.uuid = B, .ordinal = 1, .has_no_context = true}},
        .settings = {original, original}});
    for (uint64_t i = 0; i < k; i++) {
        ipc_link_touch(&world.sides[0].channel.peer.link);
        ipc_world_settle(&world);
    }
    hostmem_context(world.sides[1].gpu, true);
    ipc_link_touch(&world.sides[0].channel.peer.link);
    assert_states(k < 5 ? IPC_ACKED : IPC_BAD, k < 5 ? IPC_ACKED : IPC_INIT);
    run(20, 0);
    ck_assert_uint_eq(world.sides[1].n_direct > 0, k < 5);
    finish();
}
END_TEST

START_TEST(the_original_compares_ordinals_of_two_processes)
{
    static const struct {
        bool is_original;
        enum ipc_state state;
        const char *reason; /* in the story; NULL if there is none */
    } rows[] = {{false, IPC_BAD, "reason=no_access"}, {true, IPC_ACKED, NULL}};
    struct ipc_settings settings = ipc_world_settings();

    settings.is_original = rows[_i].is_original;
    /* Each sees only its own GPU, as ordinal 0, and cannot access the other's. */
    start(&(struct ipc_world_config){
        .seed = 5,
        .processes = {{.uuid = A, .reachable = A}, {.uuid = B, .reachable = B}},
        .settings = {settings, settings}});
    ipc_link_touch(&world.sides[0].channel.peer.link);
    assert_states(rows[_i].state, rows[_i].state);
    if (rows[_i].reason != NULL) {
        ck_assert(strstr(world.sides[0].story.bytes, "to=BAD") != NULL);
        ck_assert(strstr(world.sides[0].story.bytes, rows[_i].reason) != NULL);
    }
    run(20, 20);
    ck_assert_uint_eq(world.sides[0].n_direct + world.sides[1].n_direct, 0);
    finish();
}
END_TEST

START_TEST(another_ordinal_of_the_same_gpu_is_the_same_gpu)
{
    static const struct {
        bool forbids_same_gpu;
        enum ipc_state state;
        enum ipc_reason reason;
    } rows[] = {{false, IPC_OK, IPC_FINE}, {true, IPC_BAD, IPC_SAME_GPU}};
    struct ipc_settings settings = ipc_world_settings();

    settings.forbids_same_gpu = rows[_i].forbids_same_gpu;
    start(&(struct ipc_world_config){
        .seed = 6,
        .processes = {{.uuid = A, .ordinal = 0}, {.uuid = A, .ordinal = 3}},
        .settings = {settings, settings}});
    run(20, 20);
    assert_states(rows[_i].state, rows[_i].state);
    assert_reason(0, rows[_i].reason);
    finish();
}
END_TEST

/* Two instances of one GPU that cannot access each other, or only in one direction. The probe
 * detects both. */
START_TEST(access_in_one_direction_is_no_access)
{
    static const struct {
        const char *way;
        const char *first_reaches; /* NULL: both */
    } rows[] = {{"neither", "MIG-1"}, {"one", NULL}};

    start(&(struct ipc_world_config){
        .seed = 7,
        .processes = {{.uuid = "MIG-1", .reachable = rows[_i].first_reaches},
                      {.uuid = "MIG-2", .reachable = "MIG-2"}}});
    run(20, 20);
    assert_states(IPC_BAD, IPC_BAD);
    assert_reason(1, IPC_NO_ACCESS);
    finish();
}
END_TEST

START_TEST(descriptors_lead_nowhere_in_another_namespace)
{
    const uint32_t fd = 1u << IO_GPU_HANDLE_FD;
    const uint32_t both = fd | 1u << IO_GPU_HANDLE_LEGACY;
    const struct {
        uint32_t kinds; /* of the first process */
        enum ipc_state state;
        enum ipc_reason reason;
    } rows[] = {{fd, IPC_BAD, IPC_NO_KIND}, {both, IPC_OK, IPC_FINE}};

    start(&(struct ipc_world_config){
        .seed = 8,
        .processes = {{.uuid = A, .pid_ns = 1, .kinds = rows[_i].kinds},
                      {.uuid = B, .pid_ns = 2, .kinds = both}}});
    run(20, 20);
    assert_states(rows[_i].state, rows[_i].state);
    assert_reason(0, rows[_i].reason);
    finish();
}
END_TEST

START_TEST(a_forked_child_is_no_peer)
{
    start(&(struct ipc_world_config){
        .seed = 9, .processes = {{.uuid = A}, {.uuid = A}}, .is_same_process = true});
    run(20, 20);
    assert_states(IPC_BAD, IPC_BAD);
    assert_reason(0, IPC_SAME_PROCESS);
    finish();
}
END_TEST

/* Errors of a virtual machine's driver, of Yama, of a descriptor limit, and of a mapping without
 * memory. */
START_TEST(what_the_system_forbids_is_staged)
{
    static const struct {
        enum hostmem_call call;
        int sys_errno;
        bool have_agreed; /* fail only after the ends have agreed */
    } cases[] = {
        {HOSTMEM_EXPORT, EOPNOTSUPP, false}, {HOSTMEM_IMPORT, EPERM, false},
        {HOSTMEM_IMPORT, EACCES, false},     {HOSTMEM_IMPORT, EMFILE, false},
        {HOSTMEM_IMPORT, ENOMEM, false},     {HOSTMEM_IMPORT_EVENT, EMFILE, false},
        {HOSTMEM_WAIT, EINVAL, false},       {HOSTMEM_EVENT, ENOMEM, false},
        {HOSTMEM_EXPORT, EOPNOTSUPP, true},  {HOSTMEM_IMPORT, EPERM, true},
        {HOSTMEM_IMPORT, EACCES, true},      {HOSTMEM_IMPORT, EMFILE, true},
        {HOSTMEM_IMPORT, ENOMEM, true},      {HOSTMEM_IMPORT_EVENT, EMFILE, true},
        {HOSTMEM_WAIT, EINVAL, true},        {HOSTMEM_EVENT, ENOMEM, true},
    };

    start(&(struct ipc_world_config){.seed = 10 + (uint64_t)_i,
                                     .processes = {{.uuid = A}, {.uuid = B}}});
    if (cases[_i].have_agreed) {
        ipc_link_touch(&world.sides[0].channel.peer.link);
        assert_states(IPC_OK, IPC_OK);
    }
    hostmem_fail(world.sides[0].gpu, cases[_i].call, cases[_i].sys_errno, UINT32_MAX);
    run(20, 20);
    finish();
}
END_TEST

/* If descriptors are short for a moment, idle mappings are closed and the import is retried. */
START_TEST(idle_mappings_make_room)
{
    struct ipc_node *node;

    start(
        &(struct ipc_world_config){.seed = 30, .processes = {{.uuid = A}, {.uuid = B}}});
    world.keeps_buffers = true;
    node = &world.sides[1].node;
    run(12, 0);
    ck_assert_uint_gt(node->cache.n, 1);
    hostmem_fail(world.sides[1].gpu, HOSTMEM_IMPORT, EMFILE, 1);
    world.keeps_buffers = false;
    run(20, 0);
    ck_assert_uint_gt(node->cache.n_evicted, 0);
    ck_assert_uint_eq(node->cache.n_refused, 0);
    finish();
}
END_TEST

/* A refusal because of a passing condition is not permanent. */
START_TEST(a_refusal_expires)
{
    struct ipc_side *left, *right;

    start(
        &(struct ipc_world_config){.seed = 31, .processes = {{.uuid = A}, {.uuid = B}}});
    left = &world.sides[0];
    right = &world.sides[1];
    hostmem_fail(right->gpu, HOSTMEM_IMPORT, EACCES, 1);
    run(10, 10);
    assert_states(IPC_BAD, IPC_BAD);
    assert_reason(1, IPC_NO_ACCESS);
    assert_reason(0, IPC_NO_ACCESS); /* as reported by the peer */
    /* The end that refused tries again at its next GPU buffer after the expiry. */
    right->now += 31 * (weft_ns)1000000000;
    run(0, 1);
    assert_states(IPC_OK, IPC_OK);
    ck_assert_uint_eq(right->channel.peer.link.machine.epoch, 2);
    run(20, 20);
    ck_assert_uint_gt(left->n_direct, 10);
    finish();
}
END_TEST

static bool has_said(const struct ipc_side *side, const char *what)
{
    return side->story.n > 0 && strstr(side->story.bytes, what) != NULL;
}

START_TEST(the_peer_dies_between_hello_and_verdict)
{
    start(
        &(struct ipc_world_config){.seed = 32, .processes = {{.uuid = A}, {.uuid = B}}});
    ipc_world_send(&world, 50, 50);
    while (!has_said(&world.sides[_i], "to=ACKING")) {
        ipc_world_step(&world);
    }
    ck_assert(!has_said(&world.sides[1 - _i], "to=OK"));
    ipc_world_kill(&world, (uint32_t)_i);
    ipc_world_run(&world);
    ck_assert_int_eq(world.sides[1 - _i].status, WEFT_ERR_CLOSED);
    ck_assert_int_eq(state_of(1 - _i), IPC_BAD);
    assert_reason(1 - _i, IPC_PEER_GONE);
    ck_assert_uint_eq(world.sides[1 - _i].n_wrong, 0);
    ipc_world_fini(&world);
}
END_TEST

/* The peer is killed at some moment. All messages received until then are right. */
START_TEST(the_peer_dies_in_the_middle)
{
    start(&(struct ipc_world_config){.seed = 100 + (uint64_t)_i,
                                     .processes = {{.uuid = A}, {.uuid = B}}});
    ipc_world_send(&world, 50, 50);
    for (int i = 0; i < 60 * _i; i++) {
        ipc_world_step(&world);
    }
    ipc_world_kill(&world, (uint32_t)_i % 2);
    ipc_world_run(&world);
    ck_assert_uint_eq(world.sides[1 - _i % 2].n_wrong, 0);
    ipc_world_fini(&world);
}
END_TEST

/* One end starts a new epoch while the peer's verdict about the old one is in transit. */
START_TEST(a_verdict_crosses_a_change_of_device)
{
    start(
        &(struct ipc_world_config){.seed = 33, .processes = {{.uuid = A}, {.uuid = B}}});
    ipc_link_touch(&world.sides[0].channel.peer.link);
    while (!has_said(&world.sides[1], "to=ACKED")) {
        ipc_world_step(&world);
    }
    ipc_node_device_changed(&world.sides[0].node);
    ipc_link_renew(&world.sides[0].channel.peer.link);
    assert_states(IPC_OK, IPC_OK);
    ck_assert_uint_eq(world.sides[0].channel.peer.link.machine.epoch, 2);
    ck_assert_uint_eq(world.sides[1].channel.peer.link.machine.epoch, 1);
    run(20, 20);
    finish();
}
END_TEST

/* The device changes before the new one has a context. Messages are staged until it has one. Row:
 * bit i: that happens at side i. */
START_TEST(a_device_without_a_context_is_used_later)
{
    const int changes = _i + 1;

    start(
        &(struct ipc_world_config){.seed = 35, .processes = {{.uuid = A}, {.uuid = B}}});
    ipc_link_touch(&world.sides[0].channel.peer.link);
    assert_states(IPC_OK, IPC_OK);
    for (int i = 0; i < 2; i++) {
        if ((changes >> i & 1) != 0) {
            hostmem_context(world.sides[i].gpu, false);
            ipc_node_device_changed(&world.sides[i].node);
            ipc_link_renew(&world.sides[i].channel.peer.link);
        }
    }
    assert_states(IPC_BAD, IPC_BAD);
    run(20, 20);
    for (int i = 0; i < 2; i++) {
        hostmem_context(world.sides[i].gpu, true);
        /* A refusal of a process that could open nothing without a context expires. */
        world.sides[i].now += 31 * (weft_ns)1000000000;
    }
    run(20, 20);
    assert_states(IPC_OK, IPC_OK);
    finish();
}
END_TEST

/* Buffers are freed with the peer's consent, and new ones of the same or another size get their
 * addresses. */
START_TEST(buffers_come_back_at_the_same_address)
{
    start(&(struct ipc_world_config){.seed = 200 + (uint64_t)_i,
                                     .processes = {{.uuid = A}, {.uuid = B}}});
    run(100, 100);
    ck_assert_uint_gt(world.sides[0].node.cache.n_stale, 10);
    ck_assert_uint_gt(world.sides[0].n_direct, 50);
    finish();
}
END_TEST

/* Only one mapping may be open, and it is in use. Other messages are staged, and it is not
 * closed. */
START_TEST(what_is_being_copied_is_not_evicted)
{
    struct ipc_settings settings = ipc_world_settings();

    settings.n_open_max = 1;
    start(&(struct ipc_world_config){.seed = 34,
                                     .processes = {{.uuid = A}, {.uuid = B}},
                                     .settings = {settings, settings},
                                     .n_pieces = 20});
    run(100, 100);
    ck_assert_uint_gt(world.sides[0].n_direct, 10);
    ck_assert_uint_gt(world.sides[0].n_staged, 10);
    ck_assert_uint_gt(world.sides[0].node.cache.n_evicted, 10);
    finish();
}
END_TEST

/* There is one event to lend. Sends wait for it, and all messages arrive. */
START_TEST(a_pool_of_one_event_is_back_pressure)
{
    struct ipc_settings settings = ipc_world_settings();

    settings.n_events = 1;
    start(&(struct ipc_world_config){.seed = 35,
                                     .processes = {{.uuid = A}, {.uuid = B}},
                                     .settings = {settings, settings}});
    run(60, 60);
    ck_assert_uint_gt(world.sides[0].n_direct, 30);
    finish();
}
END_TEST

START_TEST(off_at_one_end_is_off)
{
    struct ipc_settings off = ipc_world_settings();

    off.is_off = true;
    start(&(struct ipc_world_config){
        .seed = 36, .processes = {{.uuid = A}, {.uuid = B}}, .settings = {off}});
    run(20, 20);
    ck_assert_uint_eq(world.sides[0].n_direct + world.sides[1].n_direct, 0);
    finish();
}
END_TEST

START_TEST(a_copy_that_fails_is_staged)
{
    start(
        &(struct ipc_world_config){.seed = 37, .processes = {{.uuid = A}, {.uuid = B}}});
    world.keeps_buffers = true;
    ipc_link_touch(&world.sides[0].channel.peer.link);
    assert_states(IPC_OK, IPC_OK);
    ipc_world_send(&world, 10, 0);
    while (world.sides[1].channel.receives[0].state != IPC_RECEIVE_COPYING) {
        ipc_world_step(&world);
    }
    hostmem_fail(world.sides[1].gpu, HOSTMEM_COPY, EIO, 1);
    finish();
}
END_TEST

START_TEST(a_peer_that_breaks_the_rules_is_told_apart)
{
    static const struct ipc_message wrong[] = {
        {.type = IPC_DONE, .transfer = 7},
        {.type = IPC_GO},
        {.type = IPC_STAGED, .transfer = IPC_SLOTS_MAX},
        {.type = IPC_CHUNK, .chunk = (const uint8_t *)"x", .n_chunk = 1},
    };
    uint8_t bytes[IPC_MESSAGE_MAX];
    size_t n_bytes = ipc_encode(&wrong[_i], bytes);

    start(
        &(struct ipc_world_config){.seed = 39, .processes = {{.uuid = A}, {.uuid = B}}});
    ck_assert_int_eq(ipc_channel_take(&world.sides[0].channel, bytes, n_bytes),
                     WEFT_ERR_PROTOCOL);
    ck_assert(strstr(world.sides[0].channel.error.message, "peer 1: ") != NULL);
    ipc_world_fini(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc channel");
    TCase *tcase = tcase_create("races");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, both_initiate_and_the_story_is_that_of_the_document);
    tcase_add_test(tcase, nothing_is_said_before_the_first_gpu_buffer);
    tcase_add_loop_test(tcase, one_side_is_late_by_k_messages, 0, 7);
    tcase_add_test(tcase, a_process_that_never_gets_a_context_is_served);
    tcase_add_loop_test(tcase, the_original_gives_up_after_five_messages, 0, 7);
    tcase_add_loop_test(tcase, the_original_compares_ordinals_of_two_processes, 0, 2);
    tcase_add_loop_test(tcase, another_ordinal_of_the_same_gpu_is_the_same_gpu, 0, 2);
    tcase_add_loop_test(tcase, access_in_one_direction_is_no_access, 0, 2);
    tcase_add_loop_test(tcase, descriptors_lead_nowhere_in_another_namespace, 0, 2);
    tcase_add_test(tcase, a_forked_child_is_no_peer);
    tcase_add_loop_test(tcase, what_the_system_forbids_is_staged, 0, 16);
    tcase_add_test(tcase, idle_mappings_make_room);
    tcase_add_test(tcase, a_refusal_expires);
    tcase_add_loop_test(tcase, the_peer_dies_between_hello_and_verdict, 0, 2);
    tcase_add_loop_test(tcase, the_peer_dies_in_the_middle, 0, 20);
    tcase_add_test(tcase, a_verdict_crosses_a_change_of_device);
    tcase_add_loop_test(tcase, a_device_without_a_context_is_used_later, 0, 3);
    tcase_add_loop_test(tcase, buffers_come_back_at_the_same_address, 0, 3);
    tcase_add_test(tcase, what_is_being_copied_is_not_evicted);
    tcase_add_test(tcase, a_pool_of_one_event_is_back_pressure);
    tcase_add_test(tcase, off_at_one_end_is_off);
    tcase_add_test(tcase, a_copy_that_fails_is_staged);
    tcase_add_loop_test(tcase, a_peer_that_breaks_the_rules_is_told_apart, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
