/* Tests GPU memory over simulated NICs whose writes become visible to the GPU late: dma-bufs
 * with addresses that the CPU cannot access, and flushes. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/suite_testing.h"
#include "plugin/engine.h"
#include "plugin/engine_testing.h"
#include "sim/dmabuf.h"
#include "sim/nic_objects.h"

#define SECOND INT64_C(1000000000)
#define BYTES 65536u
#define PAGE 4096u

static struct harness harness;
static struct sim_dmabufs *dmabufs;

/* Makes the GPU see data 10 ms late, unless it is flushed. */
static void late(uint32_t host, struct world_host *world_host,
                 struct engine_config *config)
{
    static const struct world_setting overrides[] = {{"gpu_visibility", "10ms"}};

    (void)host;
    (void)config;
    world_host->overrides = overrides;
    world_host->n_overrides = 1;
}

static void without(uint32_t host, struct world_host *world_host,
                    struct engine_config *config)
{
    static const struct world_setting overrides[] = {{"has_dmabuf", "false"}};

    (void)host;
    (void)config;
    world_host->overrides = overrides;
    world_host->n_overrides = 1;
}

static void open_all(harness_change *change)
{
    harness_with(change);
    harness_open(&harness, 2, 2);
    dmabufs = sim_dmabufs_create();
    for (uint32_t h = 0; h < 2; h++) {
        struct io_env *env = harness.world->ops->host_env(harness.world, h, 0);

        for (uint32_t d = 0; d < env->n_devices; d++) {
            sim_nic_set_dmabufs(
                weft_container_of(env->devices[d], struct sim_device, io)->nic, 0,
                dmabufs);
        }
    }
}

static void close_all(void)
{
    harness_expect_idle(&harness);
    harness_close(&harness);
    sim_dmabufs_destroy(dmabufs);
}

/* An allocation of a GPU: its contents, and an address at which nothing is mapped. */
struct allocation {
    uint8_t *bytes;
    uint8_t *address;
    struct engine_region region;
};

static struct allocation allocate(uint32_t number)
{
    struct allocation out = {
        .bytes = aligned_alloc(PAGE, 2 * BYTES),
        /* NOLINTNEXTLINE(performance-no-int-to-ptr): an address it is */
        .address = (uint8_t *)((uintptr_t)0x10000000 + (uintptr_t)number * 0x1000000)};

    memset(out.bytes, 0, 2 * BYTES);
    /* The region begins at its second page. */
    out.region = (struct engine_region){
        .place = ENGINE_PLACE_DMABUF,
        .addr = out.address,
        .length = BYTES,
        .fd = sim_dmabuf_export(dmabufs, out.bytes, (size_t)2 * BYTES),
        .offset = PAGE};
    return out;
}

static void wait_for(struct engine_request *request)
{
    weft_ns until = harness_now(&harness) + SECOND;
    size_t sizes[ENGINE_GROUP_MAX];
    uint32_t n;

    while (engine_test(request, sizes, &n) == WEFT_AGAIN) {
        ck_assert(harness_step(&harness, until));
    }
}

START_TEST(what_is_flushed_is_there)
{
    struct allocation from, to;
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    struct engine_request *send, *receive, *flush;
    struct weft_error error = {0};
    const uint32_t tag = 1;
    const size_t size = BYTES;
    void *data;

    open_all(late);
    ck_assert(engine_takes(harness.engines[0], ENGINE_PLACE_DMABUF));
    from = allocate(0);
    to = allocate(1);
    data = to.address;
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(engine_register(out, &from.region, &out_memory, &error), WEFT_OK);
    ck_assert_int_eq(engine_register(in, &to.region, &in_memory, &error), WEFT_OK);
    for (uint32_t i = 1; i <= 5; i++) {
        memset(from.bytes + PAGE, (int)i, BYTES);
        ck_assert_int_eq(engine_irecv(in, 1, &data, &size, &tag, &in_memory, &receive),
                         WEFT_OK);
        ck_assert_int_eq(engine_isend(out, from.address, BYTES, tag, out_memory, &send),
                         WEFT_OK);
        wait_for(receive);
        ck_assert_int_ne(memcmp(from.bytes + PAGE, to.bytes + PAGE, BYTES), 0);
        ck_assert_int_eq(engine_iflush(in, data, BYTES, in_memory, &flush), WEFT_OK);
        ck_assert_ptr_nonnull(flush);
        wait_for(flush);
        ck_assert_int_eq(memcmp(from.bytes + PAGE, to.bytes + PAGE, BYTES), 0);
        wait_for(send);
    }
    ck_assert_uint_eq(to.bytes[PAGE - 1], 0);
    ck_assert_uint_eq(to.bytes[PAGE + BYTES], 0);
    engine_deregister(out, out_memory);
    engine_deregister(in, in_memory);
    engine_close(out);
    engine_close(in);
    close_all();
    free(from.bytes);
    free(to.bytes);
}
END_TEST

/* The sender closes when its send is done: before the receive is tested, or during the flush.
 * Both flushes must still complete. */
START_TEST(a_flush_needs_no_peer)
{
    struct allocation from, to;
    struct engine_comm *out, *in;
    struct engine_memory *out_memory, *in_memory;
    struct engine_request *send, *receive, *flushes[2];
    struct weft_error error = {0};
    const uint32_t tag = 1;
    const size_t size = BYTES;
    void *data;

    open_all(late);
    from = allocate(0);
    to = allocate(1);
    data = to.address;
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(engine_register(out, &from.region, &out_memory, &error), WEFT_OK);
    ck_assert_int_eq(engine_register(in, &to.region, &in_memory, &error), WEFT_OK);
    memset(from.bytes + PAGE, 0x77, BYTES);
    ck_assert_int_eq(engine_irecv(in, 1, &data, &size, &tag, &in_memory, &receive),
                     WEFT_OK);
    ck_assert_int_eq(engine_isend(out, from.address, BYTES, tag, out_memory, &send),
                     WEFT_OK);
    wait_for(send);
    engine_deregister(out, out_memory);
    engine_close_now(out);
    for (int i = 0; i < _i; i++) {
        harness_step(&harness, harness_now(&harness) + 100000);
    }
    wait_for(receive);
    ck_assert_int_eq(engine_iflush(in, data, BYTES, in_memory, &flushes[0]), WEFT_OK);
    ck_assert_int_eq(engine_iflush(in, data, BYTES, in_memory, &flushes[1]), WEFT_OK);
    wait_for(flushes[0]);
    ck_assert_int_eq(memcmp(from.bytes + PAGE, to.bytes + PAGE, BYTES), 0);
    wait_for(flushes[1]);
    engine_deregister(in, in_memory);
    engine_close(in);
    close_all();
    free(from.bytes);
    free(to.bytes);
}
END_TEST

/* Host memory is visible when test reports the receive, so nothing is flushed. */
START_TEST(the_host_needs_no_flush)
{
    struct engine_comm *out, *in;
    struct engine_memory *memory;
    struct engine_request *flush;
    struct weft_error error = {0};
    uint8_t *data = calloc(1, BYTES);

    open_all(NULL);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(in, data, BYTES, &memory, &error), WEFT_OK);
    ck_assert_int_eq(engine_iflush(in, data, BYTES, memory, &flush), WEFT_OK);
    ck_assert_ptr_null(flush);
    engine_deregister(in, memory);
    engine_close(out);
    engine_close(in);
    close_all();
    free(data);
}
END_TEST

/* Reports an invalid descriptor or offset by errno, and memory that a device cannot register as
 * unsupported. Registers on all devices or on none. The connection is not affected. */
START_TEST(what_cannot_be_registered_is_told)
{
    struct allocation allocation;
    struct engine_region region;
    struct engine_comm *out, *in;
    struct engine_memory *memory;
    struct weft_error error = {0};

    open_all(NULL);
    allocation = allocate(2);
    harness_connect(&harness, 0, 1, &out, &in);
    region = allocation.region;
    region.fd = 999;
    ck_assert_int_lt(engine_register(in, &region, &memory, &error), 0);
    ck_assert_int_eq(error.sys_errno, EBADF);
    weft_error_clear(&error);
    region = allocation.region;
    region.offset = 2 * BYTES;
    ck_assert_int_lt(engine_register(in, &region, &memory, &error), 0);
    ck_assert_int_eq(error.sys_errno, EINVAL);
    weft_error_clear(&error);
    ck_assert(!engine_takes(harness.engines[0], ENGINE_PLACE_GPU));
    region.place = ENGINE_PLACE_GPU;
    ck_assert_int_eq(engine_register(in, &region, &memory, &error), WEFT_ERR_UNSUPPORTED);
    ck_assert_ptr_null(memory);
    ck_assert_int_eq(engine_register(in, &allocation.region, &memory, &error), WEFT_OK);
    engine_deregister(in, memory);
    engine_close(out);
    engine_close(in);
    close_all();
    free(allocation.bytes);
}
END_TEST

START_TEST(devices_that_cannot_do_not_say_that_they_can)
{
    open_all(without);
    ck_assert(!engine_takes(harness.engines[0], ENGINE_PLACE_DMABUF));
    ck_assert(engine_takes(harness.engines[0], ENGINE_PLACE_HOST));
    close_all();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_gpu");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, what_is_flushed_is_there);
    tcase_add_loop_test(tcase, a_flush_needs_no_peer, 0, 40);
    tcase_add_test(tcase, the_host_needs_no_flush);
    tcase_add_test(tcase, what_cannot_be_registered_is_told);
    tcase_add_test(tcase, devices_that_cannot_do_not_say_that_they_can);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
