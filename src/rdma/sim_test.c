/* Tests of rdma/ on the simulated fabric, for behaviour that scripted devices do not have. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "rdma/cq.h"
#include "rdma/mr.h"
#include "rdma/qp.h"

enum { TITANIC, ICEBERG, N_HOSTS };

struct end {
    struct io_env *env;
    struct rdma *rdma;
    struct ibv_cq *cq;
    struct rdma_qp qp;
    struct io_task task;
    struct rdma_mr mr;
    _Alignas(4096) uint8_t memory[8192];
};

static struct io_prefix addresses[N_HOSTS];
static struct world_port ports[N_HOSTS];
static struct world_host hosts[N_HOSTS];
static struct world_cable cable;
static struct world_spec spec;
static uint64_t root_bps;
static struct world *world;
static struct end ends[N_HOSTS];
static struct weft_trace trace;
static struct weft_text story;
static struct weft_error error;

/* Keeps the event log of titanic's queue pairs, without times. */
static void on_line(void *context, const char *line, size_t n_bytes)
{
    const char *at = memchr(line, ' ', n_bytes);
    (void)context;
    if (at != NULL && strncmp(at, " titanic qp:p0", 14) == 0) {
        weft_text_add_bytes(&story, at + 9, n_bytes - (size_t)(at + 9 - line));
    }
}

static weft_ns now(void)
{
    return world->ops->now(world);
}

/* Lets up to 10 ms pass, until a task is woken. */
static void pass(void)
{
    struct io_loop *loop = world->ops->loop(world);
    (void)world->ops->step(world, now() + 10000000);
    while (io_loop_pop(loop) != NULL) {
    }
}

static void open_cq(struct end *end)
{
    struct io_device *device = end->env->devices[0];
    struct io_op op = {.kind = IO_OP_CREATE_CQ, .task = &end->task};
    int failure;

    op.arg.create_cq.cqe = 16;
    op.arg.create_cq.task = &end->task;
    ck_assert_int_eq(device->ops->submit(device, &op), 0);
    while ((failure = device->ops->poll(device, &op)) == EINPROGRESS) {
        pass();
    }
    ck_assert_int_eq(failure, 0);
    end->cq = op.out.cq;
}

static void close_cq(struct end *end)
{
    struct io_op destroy = {.kind = IO_OP_DESTROY_CQ};

    destroy.arg.destroy_cq = end->cq;
    rdma_forget_op(end->env->devices[0], &destroy);
}

static void setup(void)
{
    static const char *const names[] = {"titanic", "iceberg"};
    memset(ends, 0, sizeof(ends));
    for (int h = 0; h < N_HOSTS; h++) {
        addresses[h] = (struct io_prefix){io_ip_v4(10, 0, 0, (uint8_t)(h + 1)), 24};
        ports[h] = (struct world_port){.name = "p0",
                                       .port = 1,
                                       .rate_bps = UINT64_C(100000000000),
                                       .mtu_bytes = 9000,
                                       .addresses = &addresses[h],
                                       .n_addresses = 1};
        hosts[h] = (struct world_host){.name = names[h],
                                       .profile = WEFT_PROFILE_MLX5,
                                       .ports = &ports[h],
                                       .n_ports = 1,
                                       .pcie_root_bps = &root_bps,
                                       .n_pcie_roots = 1,
                                       .forward_accept = true,
                                       .memlock_bytes = INT64_MAX};
        cable.ends[h] = (struct world_end){.node = (uint32_t)h};
    }
    cable.rate_bps = UINT64_C(100000000000);
    cable.delay_ps = 1000000;
    cable.up = true;
    weft_trace_init(&trace, WEFT_TRACE_STORY, on_line, NULL);
    spec = (struct world_spec){.seed = 1,
                               .hosts = hosts,
                               .n_hosts = N_HOSTS,
                               .cables = &cable,
                               .n_cables = 1,
                               .trace = &trace};
    weft_error_clear(&error);
    ck_assert_int_eq(backend_sim.create(&spec, &world, &error), WEFT_OK);
    for (uint32_t h = 0; h < N_HOSTS; h++) {
        struct end *end = &ends[h];
        end->env = world->ops->host_env(world, h, 0);
        io_task_init(&end->task, end->env->loop, h, 0);
        ck_assert_int_eq(rdma_open(end->env, &end->task, &end->rdma, &error), WEFT_OK);
        while (rdma_progress(end->rdma, &error) == WEFT_AGAIN) {
            pass();
        }
        end->env->devices[0]->async_task = &end->task;
        open_cq(end);
        struct rdma_qp_config config = {.port = &end->rdma->ports[0],
                                        .gid_type = IBV_GID_TYPE_ROCE_V2,
                                        .cq = end->cq,
                                        .max_send_wr = 4,
                                        .max_recv_wr = 4,
                                        .psn = 100 + h,
                                        .timeout = 14,
                                        .retry_cnt = 3,
                                        .rnr_retry = 7,
                                        .min_rnr_timer = 12};
        memcpy(config.gid.raw, addresses[h].ip.bytes, 16);
        rdma_qp_init(&end->qp, end->rdma, &config, &end->task);
    }
}

static void teardown(void)
{
    for (int h = 0; h < N_HOSTS; h++) {
        rdma_qp_abandon(&ends[h].qp);
        close_cq(&ends[h]);
        rdma_mr_put(ends[h].rdma->mrs, &ends[h].mr);
        ends[h].env->devices[0]->async_task = NULL;
        rdma_close(ends[h].rdma);
        io_task_fini(&ends[h].task);
    }
    world->ops->destroy(world);
    weft_text_fini(&story);
}

static void progress_until(struct end *end, enum rdma_qp_state state)
{
    while (end->qp.state != state) {
        weft_status status = rdma_qp_progress(&end->qp, &error);
        if (status == WEFT_AGAIN) {
            pass();
        } else if (status != WEFT_OK) {
            ck_assert_int_eq((int)end->qp.state, (int)state);
        }
    }
}

static void connect_end(int h, const struct io_ip *to)
{
    const struct end *peer = &ends[1 - h];
    struct rdma_qp_remote remote = {.qpn = peer->qp.qpn,
                                    .psn = peer->qp.config.psn,
                                    .gid_type = IBV_GID_TYPE_ROCE_V2,
                                    .path_mtu = 4096,
                                    .max_rd_atomic = 1};
    memcpy(remote.gid.raw, to->bytes, 16);
    rdma_qp_connect(&ends[h].qp, &remote);
}

static void bring_up(void)
{
    for (int h = 0; h < N_HOSTS; h++) {
        progress_until(&ends[h], RDMA_QP_INIT);
    }
    for (int h = 0; h < N_HOSTS; h++) {
        connect_end(h, &addresses[1 - h].ip);
        progress_until(&ends[h], RDMA_QP_RTS);
    }
}

static void register_memory(struct end *end)
{
    int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ck_assert_int_eq(rdma_mr_get(end->rdma->mrs, 0, end->memory, sizeof(end->memory),
                                 access, &end->task, &end->mr, &error),
                     WEFT_OK);
    while (rdma_mr_progress(end->rdma->mrs, &end->mr, &error) == WEFT_AGAIN) {
        pass();
    }
}

static void write_to_iceberg(uint64_t wr_id)
{
    struct end *end = &ends[TITANIC];
    struct ibv_sge sge = {.addr = (uintptr_t)end->memory,
                          .length = sizeof(end->memory),
                          .lkey = end->mr.lkey};
    struct ibv_send_wr wr = {.wr_id = wr_id,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)ends[ICEBERG].memory;
    wr.wr.rdma.rkey = ends[ICEBERG].mr.rkey;
    struct io_device *device = end->env->devices[0];
    ck_assert_int_eq(device->ops->post_send(end->qp.qp, &wr, &bad), 0);
}

static struct ibv_wc wait_completion(void)
{
    struct ibv_wc wc;
    int n = 0;
    for (;;) {
        ck_assert_int_eq(rdma_poll(ends[TITANIC].rdma, 0, ends[TITANIC].cq, 1, &wc, &n),
                         0);
        if (n == 1) {
            break;
        }
        pass();
    }
    ck_assert_uint_eq(wc.qp_num, ends[TITANIC].qp.qpn);
    return wc;
}

START_TEST(a_write_crosses_the_cable)
{
    bring_up();
    register_memory(&ends[TITANIC]);
    register_memory(&ends[ICEBERG]);
    for (size_t i = 0; i < sizeof(ends[0].memory); i++) {
        ends[TITANIC].memory[i] = (uint8_t)(i * 7);
    }
    write_to_iceberg(42);
    struct ibv_wc wc = wait_completion();
    ck_assert_uint_eq(wc.wr_id, 42);
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(ends[ICEBERG].memory, ends[TITANIC].memory, sizeof(ends[0].memory));
    /* A work request posted in ERR is flushed, and its owner gets the completion. */
    rdma_qp_to_error(&ends[TITANIC].qp);
    progress_until(&ends[TITANIC], RDMA_QP_ERR);
    write_to_iceberg(43);
    wc = wait_completion();
    ck_assert_uint_eq(wc.wr_id, 43);
    ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
    rdma_qp_close(&ends[TITANIC].qp);
    progress_until(&ends[TITANIC], RDMA_QP_GONE);
    char expected[1024];
    unsigned qpn = ends[TITANIC].qp.qpn;
    weft_format(expected, sizeof(expected),
                "qp:p0 create\n"
                "qp:p0:%u to_init\n"
                "qp:p0:%u init\n"
                "qp:p0:%u to_rtr remote_qpn=%u path_mtu=4096 remote_gid=10.0.0.2\n"
                "qp:p0:%u to_rts sgid_index=3\n"
                "qp:p0:%u rts\n"
                "qp:p0:%u to_err\n"
                "qp:p0:%u err\n"
                "qp:p0:%u destroy\n"
                "qp:p0:%u gone\n",
                qpn, qpn, qpn, ends[ICEBERG].qp.qpn, qpn, qpn, qpn, qpn, qpn, qpn);
    ck_assert_str_eq(story.bytes, expected);
}
END_TEST

/* The address does not exist, or is in another cable's subnet. The port sends ARP requests on its
 * own cable anyway, as Linux does if the interface is given. The kernel's limit of 1 s passes, and
 * the error names both ends. */
START_TEST(a_wrong_address_costs_a_second)
{
    struct io_ip wrong = _i == 0 ? io_ip_v4(10, 0, 0, 77) : io_ip_v4(192, 168, 7, 2);
    progress_until(&ends[TITANIC], RDMA_QP_INIT);
    progress_until(&ends[ICEBERG], RDMA_QP_INIT);
    connect_end(TITANIC, &wrong);
    weft_ns before = now();
    progress_until(&ends[TITANIC], RDMA_QP_FAILED);
    ck_assert_int_eq(error.sys_errno, ETIMEDOUT);
    ck_assert_str_eq(weft_phase_name(error.phase), "rtr");
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_LOCAL_GID)->text, "10.0.0.1");
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_REMOTE_GID)->text,
                     _i == 0 ? "10.0.0.77" : "192.168.7.2");
    ck_assert_int_eq(weft_error_value(&error, WEFT_VALUE_LOCAL_PREFIX_LEN)->number, 24);
    ck_assert_int_eq((now() - before) / 100000000, 10);
}
END_TEST

static void address_fault(enum world_fault_kind kind, uint8_t last)
{
    struct world_fault fault = {.kind = kind, .host = TITANIC, .has_port = true};
    fault.address = (struct io_prefix){io_ip_v4(10, 0, 0, last), 24};
    ck_assert_int_eq(world->ops->inject(world, &fault), 0);
}

/* The address is removed, another takes its slot, and it returns in another slot. The index that
 * was right before now belongs to another address. */
START_TEST(gids_that_move_are_followed)
{
    address_fault(WORLD_FAULT_ADDR_DEL, 1);
    address_fault(WORLD_FAULT_ADDR_ADD, 9);
    address_fault(WORLD_FAULT_ADDR_ADD, 1);
    /* The change wakes the task that waits for events. */
    (void)world->ops->step(world, now() + 1000);
    ck_assert_ptr_eq(io_loop_pop(world->ops->loop(world)), &ends[TITANIC].task);
    bring_up();
    ck_assert_uint_eq(ends[TITANIC].qp.sgid_index, 5);
    ck_assert_uint_eq(ends[TITANIC].rdma->ports[0].gids[3].prefix_len, 24);
    struct io_device *device = ends[TITANIC].env->devices[0];
    struct io_async_event event;
    uint32_t n_changes = 0;
    while (device->ops->async_event(device, &event) == 0) {
        ck_assert_int_eq(event.type, IBV_EVENT_GID_CHANGE);
        ck_assert_uint_eq(event.port, 1);
        n_changes++;
    }
    ck_assert_uint_ge(n_changes, 3);
    ck_assert_int_eq(rdma_refresh(ends[TITANIC].rdma, &error), WEFT_OK);
    ck_assert_uint_eq(ends[TITANIC].rdma->ports[0].n_gids, 6);
}
END_TEST

/* The QP is abandoned during address resolution, and the simulation continues without it. */
START_TEST(giving_up_while_resolving)
{
    struct io_ip nobody = io_ip_v4(10, 0, 0, 77);
    progress_until(&ends[TITANIC], RDMA_QP_INIT);
    progress_until(&ends[ICEBERG], RDMA_QP_INIT);
    connect_end(TITANIC, &nobody);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(rdma_qp_progress(&ends[TITANIC].qp, &error), WEFT_AGAIN);
        pass();
    }
    rdma_qp_abandon(&ends[TITANIC].qp);
    for (int i = 0; i < 200; i++) {
        pass();
    }
    ck_assert_int_eq((int)ends[TITANIC].qp.state, RDMA_QP_GONE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rdma/sim");
    TCase *tests = tcase_create("sim");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_write_crosses_the_cable);
    tcase_add_loop_test(tests, a_wrong_address_costs_a_second, 0, 2);
    tcase_add_test(tests, gids_that_move_are_followed);
    tcase_add_test(tests, giving_up_while_resolving);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
