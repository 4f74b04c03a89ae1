/* Tests of the negotiation that channel_test.c does not cover: a probe with other contents,
 * carriers that lose messages, settings, and the order in which mappings are closed. */
#include "ipc/link.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "ipc/world_testing.h"

static struct ipc_world world;

static const struct ipc_world_config two = {
    .seed = 1, .processes = {{.uuid = "GPU-a"}, {.uuid = "GPU-b"}}};

START_TEST(a_handle_that_opens_other_memory_is_not_believed)
{
    struct ipc_side *left = &world.sides[0], *right = &world.sides[1];

    ipc_world_init(&world, &two);
    ck_assert(ipc_node_ready(&left->node));
    ck_assert_int_eq(left->gpu->ops->upload(left->gpu, left->node.probe, left->junk, 16),
                     0);
    ipc_link_touch(&right->channel.peer.link);
    ipc_world_settle(&world);
    ck_assert_int_eq(ipc_link_state(&right->channel.peer.link), IPC_BAD);
    ck_assert_int_eq(ipc_link_reason(&right->channel.peer.link), IPC_OTHER_MEMORY);
    ck_assert_int_eq(ipc_link_reason(&left->channel.peer.link), IPC_OTHER_MEMORY);
    ipc_world_send(&world, 10, 10);
    ipc_world_run(&world);
    ck_assert_uint_eq(left->n_wrong + right->n_wrong, 0);
    ck_assert_uint_eq(left->n_direct + right->n_direct, 0);
    ipc_world_fini(&world);
}
END_TEST

/* What fails while a process creates its probe: the end does not send HELLO before it could, or, if
 * that will not change, lets the peer refuse. */
static const struct probe_row {
    enum hostmem_call call;
    int sys_errno;
    bool is_temporary;
} probe_rows[] = {{HOSTMEM_ALLOC, ENOMEM, true},
                  {HOSTMEM_EXPORT, ENOMEM, true},
                  {HOSTMEM_EXPORT, EMFILE, true},
                  {HOSTMEM_ALLOC, EINVAL, false},
                  {HOSTMEM_EXPORT, EPERM, false}};

START_TEST(a_probe_without_room_is_tried_again)
{
    const struct probe_row *row = &probe_rows[_i];
    struct ipc_side *left = &world.sides[0], *right = &world.sides[1];
    struct ipc_link *link = &left->channel.peer.link;

    ipc_world_init(&world, &two);
    hostmem_fail(left->gpu, row->call, row->sys_errno, 1);
    ipc_link_touch(link);
    ipc_link_touch(&right->channel.peer.link);
    ipc_world_settle(&world);
    ck_assert_int_eq(ipc_link_state(link), row->is_temporary ? IPC_INIT : IPC_BAD);
    ck_assert_int_eq(ipc_link_state(&right->channel.peer.link),
                     row->is_temporary ? IPC_SENT : IPC_BAD);
    left->now += left->node.settings.negative_ns - 1;
    ipc_link_touch(link);
    ck_assert_int_ne(ipc_link_state(link), IPC_ACKING); /* too early */
    left->now += 1;
    ipc_link_touch(link);
    ipc_world_settle(&world);
    ck_assert_int_eq(ipc_link_state(link), row->is_temporary ? IPC_OK : IPC_BAD);
    ipc_world_fini(&world);
}
END_TEST

/* Half of all messages are lost. Each end repeats its messages until it is settled, and then
 * stops. */
START_TEST(a_carrier_that_loses_messages_settles_too)
{
    struct ipc_world_config config = two;
    struct weft_rng rng;

    config.seed = 50 + (uint64_t)_i;
    for (int i = 0; i < 2; i++) {
        config.settings[i] = ipc_world_settings();
        config.settings[i].resend_ns = 1000;
    }
    ipc_world_init(&world, &config);
    weft_rng_init(&rng, config.seed, "loss");
    ipc_link_touch(&world.sides[_i % 2].channel.peer.link);
    for (int round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 2; i++) {
            struct ipc_link *from = &world.sides[i].channel.peer.link;
            struct ipc_message message;

            while (ipc_link_next(from, &message)) {
                if (weft_rng_below(&rng, 2) == 0) {
                    ipc_link_take(&world.sides[1 - i].channel.peer.link, &message);
                }
            }
            while (hostmem_step(world.machine)) {
            }
            world.sides[i].now += 1001;
            ipc_link_progress(from);
        }
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ipc_link_state(&world.sides[i].channel.peer.link), IPC_OK);
        ck_assert_int_eq(ipc_channel_deadline(&world.sides[i].channel), WEFT_NEVER);
    }
    ipc_world_fini(&world);
}
END_TEST

START_TEST(another_version_is_staged_by_nobody_and_hurts_nobody)
{
    static const uint8_t strange[3] = {2, 1, 0};
    struct ipc_channel *channel = &world.sides[0].channel;

    ipc_world_init(&world, &two);
    ck_assert_int_eq(ipc_channel_take(channel, strange, sizeof(strange)), WEFT_OK);
    ck_assert_int_eq(ipc_link_state(&channel->peer.link), IPC_BAD);
    ck_assert_int_eq(ipc_link_reason(&channel->peer.link), IPC_OTHER_VERSION);
    ipc_world_settle(&world);
    ipc_world_fini(&world);
}
END_TEST

static weft_status read_as(const char *value, struct ipc_settings *out,
                           struct weft_error *error)
{
    struct ipc_side side = {.env = world.sides[0].env, .setting = value};

    return ipc_settings_read(&side.env, out, error);
}

START_TEST(settings_are_read_and_what_is_wrong_is_named)
{
    struct ipc_settings settings;
    struct weft_error error = {0};

    ipc_world_init(&world, &two);
    ck_assert_int_eq(read_as(NULL, &settings, &error), WEFT_OK);
    ck_assert(!settings.is_off && !settings.is_original && !settings.forbids_same_gpu);
    ck_assert_uint_eq(settings.n_open_max, 256);
    ck_assert_int_eq(read_as("off", &settings, &error), WEFT_OK);
    ck_assert(settings.is_off);
    ck_assert_int_eq(read_as("smcuda-4.1", &settings, &error), WEFT_OK);
    ck_assert(settings.is_original && !settings.is_off);
    ck_assert_int_eq(read_as("maybe", &settings, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message, "WEFT_IPC=maybe is not known");
    ipc_world_fini(&world);
}
END_TEST

/* There is room for two. The least recently used mapping is closed first, and never one in use. */
START_TEST(the_least_recently_used_goes_first)
{
    const uint8_t owner[IPC_NONCE_BYTES] = {1};
    struct ipc_cache cache;
    struct ipc_mapping *mapping[3];
    struct io_gpu_export memory[3];
    struct io_gpu *gpu, *other;

    ipc_world_init(&world, &two);
    gpu = world.sides[0].gpu;
    other = world.sides[1].gpu;
    ipc_cache_init(&cache,
                   &(struct ipc_cache_config){
                       .gpu = gpu, .n_max = 2, .n_bytes_max = 10000, .negative_ns = 100});
    for (int i = 0; i < 3; i++) {
        void *at;

        ck_assert_int_eq(other->ops->alloc(other, IO_MEMORY_DEVICE, 4096, &at), 0);
        ck_assert_int_eq(other->sharing->export_memory(other, at, 1, &memory[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[i], 0, 0, &mapping[i]),
                         0);
    }
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[2], 0, 0, &mapping[2]),
                     ENOSPC);
    ipc_cache_release(&cache, mapping[0]);
    ipc_cache_release(&cache, mapping[1]);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[0], 0, 0, &mapping[0]), 0);
    ipc_cache_release(&cache, mapping[0]);
    ck_assert_uint_eq(cache.n_hits, 1);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[2], 0, 0, &mapping[2]), 0);
    ipc_cache_release(&cache, mapping[2]);
    ck_assert(ipc_cache_has(&cache, owner, memory[0].buffer_id));
    ck_assert(!ipc_cache_has(&cache, owner, memory[1].buffer_id));
    /* A failed import is not retried for a while. */
    hostmem_fail(gpu, HOSTMEM_IMPORT, EACCES, 1);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[1], 0, 10, &mapping[1]),
                     EACCES);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[1], 0, 109, &mapping[1]),
                     EACCES);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory[1], 0, 110, &mapping[1]),
                     0);
    ipc_cache_release(&cache, mapping[1]);
    ipc_cache_forget(&cache, owner);
    ck_assert_uint_eq(cache.n, 0);
    ck_assert_uint_eq(hostmem_n_imports(gpu), 0);
    ipc_cache_fini(&cache);
    ipc_world_fini(&world);
}
END_TEST

/* Memory is freed without invalidation, and new memory of the same, a larger or a smaller size
 * gets its address. It must not be mistaken for the old memory. A mapping that is invalidated
 * while in use is closed with its last user. */
START_TEST(the_same_address_is_not_the_same_memory)
{
    /* All need two pages, so the address is reused. */
    static const size_t again[] = {5000, 8000, 4097};
    const size_t sizes[2] = {5000, again[_i]};
    const uint8_t owner[IPC_NONCE_BYTES] = {1};
    struct ipc_cache cache;
    struct ipc_mapping *before, *after;
    struct io_gpu_export memory[2];
    struct io_gpu *gpu, *other;
    void *at[2];

    ipc_world_init(&world, &two);
    gpu = world.sides[0].gpu;
    other = world.sides[1].gpu;
    ipc_cache_init(&cache, &(struct ipc_cache_config){
                               .gpu = gpu, .n_max = 4, .n_bytes_max = 1 << 20});
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(other->ops->alloc(other, IO_MEMORY_DEVICE, sizes[i], &at[i]), 0);
        ck_assert_int_eq(other->sharing->export_memory(other, at[i], 1, &memory[i]), 0);
        ck_assert_int_eq(
            ipc_cache_acquire(&cache, owner, &memory[i], 0, 0, i == 0 ? &before : &after),
            0);
        if (i == 0) {
            other->ops->free(other, at[0]);
        }
    }
    ck_assert_ptr_eq(at[0], at[1]);
    ck_assert_uint_eq(after->memory.n_bytes, sizes[1]);
    ck_assert_ptr_ne(before, after);
    ck_assert_uint_eq(*(uint8_t *)after->at, 0);
    ck_assert(before->is_stale && !after->is_stale);
    ipc_cache_release(&cache, before);
    ck_assert_uint_eq(cache.n, 1);
    ck_assert(!ipc_cache_invalidate(&cache, owner, memory[1].buffer_id, 0));
    ipc_cache_release(&cache, after);
    ck_assert(ipc_cache_invalidate(&cache, owner, memory[1].buffer_id, 0));
    ck_assert_uint_eq(cache.n, 0);
    ipc_cache_fini(&cache);
    ipc_world_fini(&world);
}
END_TEST

/* The owner invalidates memory that is being copied, and offers it again. The next user must not
 * get the old mapping, because that is closed with its last user. */
START_TEST(what_was_taken_away_is_not_handed_out_again)
{
    const uint8_t owner[IPC_NONCE_BYTES] = {1};
    struct ipc_cache cache;
    struct ipc_mapping *before, *after;
    struct io_gpu_export memory;
    struct io_gpu *gpu, *other;
    void *at;

    ipc_world_init(&world, &two);
    gpu = world.sides[0].gpu;
    other = world.sides[1].gpu;
    ipc_cache_init(&cache, &(struct ipc_cache_config){
                               .gpu = gpu, .n_max = 4, .n_bytes_max = 1 << 20});
    ck_assert_int_eq(other->ops->alloc(other, IO_MEMORY_DEVICE, 4096, &at), 0);
    ck_assert_int_eq(other->sharing->export_memory(other, at, 1, &memory), 0);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory, 0, 0, &before), 0);
    if (_i == 0) {
        ck_assert(!ipc_cache_invalidate(&cache, owner, memory.buffer_id, 0));
    } else {
        ipc_cache_forget(&cache, owner);
    }
    int sys_errno = ipc_cache_acquire(&cache, owner, &memory, 1, 0, &after);
    ck_assert_uint_eq(cache.n_hits, 0);
    ck_assert_uint_eq(before->n_users, 1);
    if (sys_errno == 0) {
        ck_assert_ptr_ne(before, after);
        ipc_cache_release(&cache, after);
    }
    ipc_cache_release(&cache, before);
    ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory, 1, 0, &after), 0);
    ck_assert(!after->is_stale);
    ipc_cache_release(&cache, after);
    ipc_cache_forget(&cache, owner);
    ck_assert_uint_eq(hostmem_n_imports(gpu), 0);
    ipc_cache_fini(&cache);
    ipc_world_fini(&world);
}
END_TEST

/* A driver opens a legacy handle only once, so further users share the mapping. */
START_TEST(a_handle_that_is_open_is_not_opened_again)
{
    const uint8_t owner[IPC_NONCE_BYTES] = {1};
    struct ipc_cache cache;
    struct ipc_mapping *mapping[2];
    struct io_gpu_export memory;
    struct io_gpu *gpu, *other;
    void *at;

    ipc_world_init(&world, &two);
    gpu = world.sides[0].gpu;
    other = world.sides[1].gpu;
    ipc_cache_init(&cache, &(struct ipc_cache_config){
                               .gpu = gpu, .n_max = 4, .n_bytes_max = 1 << 20});
    ck_assert_int_eq(other->ops->alloc(other, IO_MEMORY_DEVICE, 4096, &at), 0);
    ck_assert_int_eq(other->sharing->export_memory(other, at, 1, &memory), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(ipc_cache_acquire(&cache, owner, &memory, 0, 0, &mapping[i]), 0);
    }
    ck_assert_ptr_eq(mapping[0], mapping[1]);
    ck_assert_uint_eq(cache.n_opened, 1);
    ipc_cache_release(&cache, mapping[0]);
    ck_assert(!ipc_cache_invalidate(&cache, owner, memory.buffer_id, 0));
    ck_assert_uint_eq(hostmem_n_imports(gpu), 1); /* the second user remains */
    ipc_cache_release(&cache, mapping[1]);
    ck_assert_uint_eq(hostmem_n_imports(gpu), 0);
    ipc_cache_fini(&cache);
    ipc_world_fini(&world);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ipc link");
    TCase *tcase = tcase_create("link");

    tcase_add_test(tcase, a_handle_that_opens_other_memory_is_not_believed);
    tcase_add_loop_test(tcase, a_probe_without_room_is_tried_again, 0,
                        WEFT_LENGTH(probe_rows));
    tcase_add_loop_test(tcase, a_carrier_that_loses_messages_settles_too, 0, 20);
    tcase_add_test(tcase, another_version_is_staged_by_nobody_and_hurts_nobody);
    tcase_add_test(tcase, settings_are_read_and_what_is_wrong_is_named);
    tcase_add_test(tcase, the_least_recently_used_goes_first);
    tcase_add_loop_test(tcase, the_same_address_is_not_the_same_memory, 0, 3);
    tcase_add_loop_test(tcase, what_was_taken_away_is_not_handed_out_again, 0, 2);
    tcase_add_test(tcase, a_handle_that_is_open_is_not_opened_again);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
