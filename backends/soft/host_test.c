/* Two hosts on loopback. Each has its own loop, so that one can sleep (not step its loop, and
 * call no verbs) while its NIC goes on. */
#define _GNU_SOURCE
#include "backends/soft/host.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/soft/loopback.h"
#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/verbs.h"

#define S INT64_C(1000000000)
#define N_BYTES (1u << 20)
#define N_TAIL 65536u /* after these, for data that the right host sends */

enum { LEFT, RIGHT, FAR, FARTHER, N_DESCRIBED };

/* The cable from FAR to FARTHER has addresses only; no process runs there. */
static struct io_prefix addresses[N_DESCRIBED];
static struct world_port ports[N_DESCRIBED];
static struct world_host hosts[N_DESCRIBED];
static struct world_cable cables[2];
static struct world_spec spec;

static struct end {
    struct linux_loop *loop;
    struct soft_host *host;
    struct io_device *device;
    struct io_task task, completions;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    uint8_t *memory;
} ends[2];
static uint8_t block;
static int claim_fd;
static struct world_setting settings[1];
static char block_text[8];

/* ---- fixture ---- */

static void describe(void)
{
    static const char *const names[N_DESCRIBED] = {"left", "right", "far", "farther"};
    for (uint8_t i = 0; i < N_DESCRIBED; i++) {
        addresses[i] = (struct io_prefix){
            .ip = io_ip_v4(10, 77, i / 2, (uint8_t)(i % 2 + 1)), .prefix_len = 24};
        ports[i] = (struct world_port){.name = "p0",
                                       .port = 1,
                                       .rate_bps = 100000000000,
                                       .mtu_bytes = 4200,
                                       .addresses = &addresses[i],
                                       .n_addresses = 1};
        hosts[i] = (struct world_host){.name = names[i],
                                       .profile = WEFT_PROFILE_MLX5,
                                       .ports = &ports[i],
                                       .n_ports = 1,
                                       .memlock_bytes = INT64_MAX};
    }
    for (uint32_t i = 0; i < 2; i++) {
        cables[i] = (struct world_cable){.ends = {{.node = 2 * i}, {.node = 2 * i + 1}},
                                         .rate_bps = 100000000000,
                                         .up = true};
    }
    spec = (struct world_spec){.seed = 1,
                               .hosts = hosts,
                               .n_hosts = N_DESCRIBED,
                               .cables = cables,
                               .n_cables = 2};
}

static void open_end(int which)
{
    struct end *end = &ends[which];
    struct weft_error error = {.status = WEFT_OK};
    const struct soft_host_config config = {.env = {.name = hosts[which].name,
                                                    .netns_fd = -1,
                                                    .only_given_settings = true,
                                                    .settings = settings,
                                                    .n_settings = 1},
                                            .spec = &spec,
                                            .host = (uint32_t)which};
    ck_assert_int_eq(linux_loop_create(1, &end->loop, &error), WEFT_OK);
    ck_assert_msg(soft_host_create(end->loop, &config, &end->host, &error) == WEFT_OK,
                  "%s", error.message);
    end->device = soft_host_env(end->host)->devices[0];
    io_task_init(&end->task, linux_loop_io(end->loop), 0, 0);
    io_task_init(&end->completions, linux_loop_io(end->loop), 0, 1);
}

static void close_end(int which)
{
    soft_host_destroy(ends[which].host);
    io_task_fini(&ends[which].task);
    io_task_fini(&ends[which].completions);
    linux_loop_destroy(ends[which].loop);
}

static void step(int which)
{
    struct linux_loop *loop = ends[which].loop;
    (void)linux_loop_step(loop, linux_loop_now(loop) + S / 1000);
    while (io_loop_pop(linux_loop_io(loop)) != NULL) {
    }
}

static int run(int which, struct io_op *op)
{
    struct io_device *device = ends[which].device;
    op->task = &ends[which].task;
    int error = device->ops->submit(device, op);
    if (error != 0) {
        return error;
    }
    while ((error = device->ops->poll(device, op)) == EINPROGRESS) {
        step(which);
    }
    return error;
}

static void make_objects(int which)
{
    struct end *end = &ends[which];
    struct io_op op = {.kind = IO_OP_ALLOC_PD};
    ck_assert_int_eq(run(which, &op), 0);
    end->pd = op.out.pd;
    op = (struct io_op){.kind = IO_OP_CREATE_CQ,
                        .arg.create_cq = {.cqe = 64, .task = &end->completions}};
    ck_assert_int_eq(run(which, &op), 0);
    end->cq = op.out.cq;
    end->memory = weft_calloc(1, N_BYTES + N_TAIL);
    op = (struct io_op){.kind = IO_OP_REG_MR};
    op.arg.reg_mr.pd = end->pd;
    op.arg.reg_mr.addr = end->memory;
    op.arg.reg_mr.length = N_BYTES + N_TAIL;
    op.arg.reg_mr.access =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    ck_assert_int_eq(run(which, &op), 0);
    end->mr = op.out.mr;
}

static void make_qp(int which)
{
    struct end *end = &ends[which];
    struct io_op op = {.kind = IO_OP_CREATE_QP};
    op.arg.create_qp.pd = end->pd;
    op.arg.create_qp.init = (struct ibv_qp_init_attr){.send_cq = end->cq,
                                                      .recv_cq = end->cq,
                                                      .cap = {.max_send_wr = 16,
                                                              .max_recv_wr = 16,
                                                              .max_send_sge = 1,
                                                              .max_recv_sge = 1},
                                                      .qp_type = IBV_QPT_RC};
    ck_assert_int_eq(run(which, &op), 0);
    end->qp = op.out.qp;
}

/* Returns the RoCE v2 slot of the end's address. */
static uint8_t gid_index(int which)
{
    struct io_device *device = ends[which].device;
    struct io_gid_entry entry;
    uint32_t i = 0;
    while (device->ops->query_gid(device, 1, i, &entry) != 0 ||
           entry.type != IBV_GID_TYPE_ROCE_V2 ||
           memcmp(entry.gid.raw, addresses[which].ip.bytes, 16) != 0) {
        i++;
        ck_assert_uint_lt(i, 256);
    }
    return (uint8_t)i;
}

static void modify(int which, struct ibv_qp_attr attr, int mask)
{
    struct io_op op = {.kind = IO_OP_MODIFY_QP};
    op.arg.modify_qp.qp = ends[which].qp;
    op.arg.modify_qp.attr = attr;
    op.arg.modify_qp.mask = mask | IBV_QP_STATE;
    ck_assert_int_eq(run(which, &op), 0);
}

static void connect_qp(int which)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_4096,
        .dest_qp_num = ends[1 - which].qp->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.sgid_index = gid_index(which), .hop_limit = 64}}};
    memcpy(attr.ah_attr.grh.dgid.raw, addresses[1 - which].ip.bytes, 16);
    modify(which,
           (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT,
                                .port_num = 1,
                                .qp_access_flags =
                                    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
           IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    modify(which, attr,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    modify(which,
           (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .timeout = 16,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .max_rd_atomic = 1},
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC);
}

static void connect_both(void)
{
    for (int i = 0; i < 2; i++) {
        make_qp(i);
    }
    for (int i = 0; i < 2; i++) {
        connect_qp(i);
    }
}

static void destroy_qp(int which)
{
    struct io_op op = {.kind = IO_OP_DESTROY_QP, .arg.destroy_qp = ends[which].qp};
    ck_assert_int_eq(run(which, &op), 0);
}

static void post_at(int which, enum ibv_wr_opcode opcode, uint32_t at, uint32_t n_bytes)
{
    struct end *end = &ends[which];
    struct ibv_sge sge = {
        .addr = (uintptr_t)(end->memory + at), .length = n_bytes, .lkey = end->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)(ends[1 - which].memory + at);
    wr.wr.rdma.rkey = ends[1 - which].mr->rkey;
    ck_assert_int_eq(end->device->ops->post_send(end->qp, &wr, &bad), 0);
}

static void post(int which, enum ibv_wr_opcode opcode, uint32_t n_bytes)
{
    post_at(which, opcode, 0, n_bytes);
}

/* Waits for a completion of `which`; only that host is awake. */
static void expect_success(int which)
{
    struct end *end = &ends[which];
    weft_ns limit = linux_loop_now(end->loop) + 60 * S;
    struct ibv_wc wc;
    int n = 0;
    ck_assert_int_eq(end->device->ops->req_notify(end->cq, 0), 0);
    while (end->device->ops->poll_cq(end->cq, 1, &wc, &n) == 0 && n == 0) {
        ck_assert_int_lt(linux_loop_now(end->loop), limit);
        step(which);
    }
    ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%s", io_wc_status_name((int)wc.status));
}

static void setup(void)
{
    describe();
    ck_assert_int_eq(soft_loopback_claim(&block, &claim_fd), 0);
    weft_format(block_text, sizeof block_text, "%u", block);
    settings[0] = (struct world_setting){"WEFT_SOFT_BLOCK", block_text};
    for (int i = 0; i < 2; i++) {
        open_end(i);
        make_objects(i);
    }
}

static void teardown(void)
{
    for (int i = 0; i < 2; i++) {
        close_end(i);
        free(ends[i].memory);
    }
    close(claim_fd);
}

static void fill(int which, uint8_t start)
{
    for (uint32_t i = 0; i < N_BYTES; i++) {
        ends[which].memory[i] = (uint8_t)(start + i * 7 + (i >> 8));
    }
}

/* ---- a sleeping user ---- */

START_TEST(a_nic_works_while_its_user_sleeps)
{
    connect_both();
    /* From here on the user of the right host does nothing; its NIC goes on. */
    weft_ns until = linux_loop_now(ends[LEFT].loop) + (getenv("WEFT_SOAK") ? 30 * S : 0);
    fill(RIGHT, 3);
    memset(ends[RIGHT].memory + N_BYTES, 0x5a, N_TAIL);
    post_at(RIGHT, IBV_WR_RDMA_WRITE, N_BYTES, N_TAIL);
    for (int round = 0; round < 8 || linux_loop_now(ends[LEFT].loop) < until; round++) {
        post(LEFT, IBV_WR_RDMA_READ, N_BYTES);
        expect_success(LEFT);
        ck_assert_mem_eq(ends[LEFT].memory, ends[RIGHT].memory, N_BYTES);
        fill(LEFT, (uint8_t)round);
        post(LEFT, IBV_WR_RDMA_WRITE, N_BYTES);
        expect_success(LEFT);
        ck_assert_mem_eq(ends[LEFT].memory, ends[RIGHT].memory, N_BYTES);
    }
    /* It wakes, and its work is done. */
    expect_success(RIGHT);
    ck_assert_mem_eq(ends[LEFT].memory + N_BYTES, ends[RIGHT].memory + N_BYTES, N_TAIL);
}
END_TEST

/* Sleeps until the CQ's task is woken; nothing else can wake the loop. */
static void expect_wake(int which)
{
    struct linux_loop *loop = ends[which].loop;
    weft_ns limit = linux_loop_now(loop) + 20 * S;
    const struct io_task *woken = NULL;
    while (woken != &ends[which].completions) {
        ck_assert_int_eq(linux_loop_step(loop, limit), WEFT_OK);
        woken = io_loop_pop(linux_loop_io(loop));
    }
}

START_TEST(an_armed_queue_wakes_its_user_every_time)
{
    struct io_device *device = ends[LEFT].device;
    struct ibv_wc wc;
    int n = 0;
    connect_both();
    for (int round = 0; round < 5; round++) {
        ck_assert_int_eq(device->ops->req_notify(ends[LEFT].cq, 0), 0);
        post(LEFT, IBV_WR_RDMA_READ, N_BYTES);
        expect_wake(LEFT);
        ck_assert_int_eq(device->ops->poll_cq(ends[LEFT].cq, 1, &wc, &n), 0);
        ck_assert_int_eq(n, 1);
        ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    }
}
END_TEST

/* Destroying a CQ that a queue pair uses fails, also if it is abandoned. Its task is not woken any
 * more, and no other task is woken in its place. */
START_TEST(a_cq_that_remains_wakes_no_task)
{
    static const struct world_setting slow[] = {{"destroy_cq", "60s"}};
    struct io_op op = {.kind = IO_OP_DESTROY_CQ};
    struct io_task other;
    const struct io_task *woken;
    struct ibv_wc wc;
    int n = 0;
    close_end(LEFT);
    hosts[LEFT].overrides = slow;
    hosts[LEFT].n_overrides = 1;
    open_end(LEFT);
    free(ends[LEFT].memory);
    make_objects(LEFT);
    connect_both();
    struct io_device *device = ends[LEFT].device;
    struct linux_loop *loop = ends[LEFT].loop;
    io_task_init(&other, linux_loop_io(loop), 0, 2);
    op.task = &ends[LEFT].task;
    op.arg.destroy_cq = ends[LEFT].cq;
    ck_assert_int_eq(device->ops->submit(device, &op), 0);
    device->ops->abandon(device, &op);
    op = (struct io_op){.kind = IO_OP_CREATE_CQ,
                        .arg.create_cq = {.cqe = 64, .task = &other}};
    ck_assert_int_eq(run(LEFT, &op), 0);
    ck_assert_int_eq(device->ops->req_notify(ends[LEFT].cq, 0), 0);
    post(LEFT, IBV_WR_RDMA_WRITE, 64);
    for (int i = 0; n == 0 || i < 10; i++) {
        if (n == 0) {
            ck_assert_int_eq(device->ops->poll_cq(ends[LEFT].cq, 1, &wc, &n), 0);
        }
        (void)linux_loop_step(loop, linux_loop_now(loop) + S / 1000);
        while ((woken = io_loop_pop(linux_loop_io(loop))) != NULL) {
            ck_assert_ptr_ne(woken, &other);
            ck_assert_ptr_ne(woken, &ends[LEFT].completions);
        }
    }
    ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
    io_task_fini(&other);
}
END_TEST

/* ---- leaks ---- */

static unsigned count_entries(const char *path)
{
    DIR *folder = opendir(path);
    unsigned n = 0;
    ck_assert_ptr_nonnull(folder);
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n;
}

struct footprint {
    unsigned n_fds, n_threads;
    size_t n_bytes; /* allocated; 0 with a sanitizer's allocator */
};

static struct footprint look(void)
{
    return (struct footprint){.n_fds = count_entries("/proc/self/fd"),
                              .n_threads = count_entries("/proc/self/task"),
                              .n_bytes = mallinfo2().uordblks};
}

static void connect_use_and_close(int n_times)
{
    for (int i = 0; i < n_times; i++) {
        connect_both();
        post(LEFT, IBV_WR_RDMA_WRITE, 64);
        expect_success(LEFT);
        post(RIGHT, IBV_WR_RDMA_READ, 64);
        expect_success(RIGHT);
        for (int j = 0; j < 2; j++) {
            destroy_qp(j);
        }
    }
}

START_TEST(a_thousand_connections_leave_nothing)
{
    connect_use_and_close(50); /* until tables have their final size */
    struct footprint before = look();
    connect_use_and_close(1000);
    struct footprint after = look();
    ck_assert_uint_eq(after.n_fds, before.n_fds);
    ck_assert_uint_eq(after.n_threads, before.n_threads);
    ck_assert_uint_le(after.n_bytes, before.n_bytes + 4096);
}
END_TEST

START_TEST(hosts_that_come_and_go_leave_nothing)
{
    close_end(LEFT);
    open_end(LEFT);
    struct footprint before = look();
    for (int i = 0; i < 20; i++) {
        close_end(LEFT);
        open_end(LEFT);
    }
    struct footprint after = look();
    ck_assert_uint_eq(after.n_fds, before.n_fds);
    ck_assert_uint_eq(after.n_threads, before.n_threads);
    free(ends[LEFT].memory);
    make_objects(LEFT);
    connect_both();
    post(LEFT, IBV_WR_RDMA_WRITE, N_BYTES);
    expect_success(LEFT);
}
END_TEST

/* ---- datagrams from elsewhere ---- */

static struct sockaddr_in real_of(const struct io_ip *seen, uint16_t port)
{
    struct soft_loopback *loopback = soft_loopback_create(&spec, LEFT, block);
    const struct linux_alias *alias =
        linux_alias_of_seen(soft_loopback_aliases(loopback), seen);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(port)};
    ck_assert_ptr_nonnull(alias);
    memcpy(&name.sin_addr, &alias->real.bytes[12], 4);
    soft_loopback_destroy(loopback);
    return name;
}

/* Sends datagrams of random length and content. Some begin like a frame for the QP. */
static void send_noise(int fd, const struct sockaddr_in *to, struct weft_rng *rng, int n)
{
    static uint8_t bytes[5000];
    for (int i = 0; i < n; i++) {
        size_t length = (size_t)weft_rng_below(rng, i % 2 == 0 ? 64 : sizeof bytes);
        weft_rng_bytes(rng, bytes, sizeof bytes);
        if (i % 3 == 0) {
            const uint8_t bth[8] = {0x0a, 0, 0xff, 0xff, 0, 0, 0, 0};
            memcpy(bytes, bth, sizeof bth);
            bytes[5] = (uint8_t)(ends[RIGHT].qp->qp_num >> 16);
            bytes[6] = (uint8_t)(ends[RIGHT].qp->qp_num >> 8);
            bytes[7] = (uint8_t)ends[RIGHT].qp->qp_num;
        }
        (void)sendto(fd, bytes, length, MSG_DONTWAIT,
                     (const struct sockaddr *)(const void *)to, sizeof *to);
    }
}

START_TEST(noise_on_the_wire_changes_nothing)
{
    struct sockaddr_in to = real_of(&addresses[RIGHT].ip, SOFT_UDP_PORT);
    struct sockaddr_in own = real_of(&addresses[LEFT].ip, 0);
    struct soft_udp_counters wire = {.rx_refused = 0};
    struct sim_nic_counters nic;
    struct weft_rng rng;
    weft_rng_init(&rng, 7, "noise");
    int stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int imposter = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(imposter, (struct sockaddr *)(void *)&own, sizeof own), 0);
    connect_both();
    for (int i = 0; i < 20; i++) {
        fill(LEFT, (uint8_t)i);
        post(LEFT, IBV_WR_RDMA_WRITE, N_BYTES);
        send_noise(stranger, &to, &rng, 40);
        send_noise(imposter, &to, &rng, 40);
        expect_success(LEFT);
        post(LEFT, IBV_WR_RDMA_READ, N_BYTES);
        expect_success(LEFT);
        ck_assert_mem_eq(ends[LEFT].memory, ends[RIGHT].memory, N_BYTES);
    }
    soft_host_counters(ends[RIGHT].host, 0, &wire, &nic);
    ck_assert_uint_gt(wire.rx_refused, 0);
    ck_assert_uint_eq(wire.tx_dropped, 0);
    close(stranger);
    close(imposter);
}
END_TEST

static struct soft_udp_counters wire_of(int which)
{
    struct soft_udp_counters wire = {.rx_refused = 0};
    struct sim_nic_counters nic;
    soft_host_counters(ends[which].host, 0, &wire, &nic);
    return wire;
}

/* Only datagrams from the other end of the cable become frames, not those from other addresses of
 * the scenario or from outside it. */
START_TEST(frames_come_from_the_other_end_of_the_cable_only)
{
    enum { N = 10 };
    static const int from_whom[] = {LEFT, FAR, FARTHER, LEFT};
    struct sockaddr_in to = real_of(&addresses[RIGHT].ip, SOFT_UDP_PORT);
    struct sockaddr_in from = real_of(&addresses[from_whom[_i]].ip, 0);
    struct soft_udp_counters before = wire_of(RIGHT), after;
    bool counts = _i == 0;
    uint8_t bytes[64] = {0};
    weft_ns limit = linux_loop_now(ends[RIGHT].loop) + 60 * S;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (_i == 3) { /* an address of another run */
        uint8_t *block_at = (uint8_t *)&from.sin_addr + 1;
        *block_at = (uint8_t)(*block_at == 250 ? 249 : 250);
    }
    ck_assert_int_eq(bind(fd, (struct sockaddr *)(void *)&from, sizeof from), 0);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(sendto(fd, bytes, sizeof bytes, 0,
                                (const struct sockaddr *)(const void *)&to, sizeof to),
                         sizeof bytes);
    }
    while ((after = wire_of(RIGHT)).rx_datagrams < before.rx_datagrams + N) {
        ck_assert_int_lt(linux_loop_now(ends[RIGHT].loop), limit);
        step(RIGHT);
    }
    ck_assert_uint_eq(after.rx_frames - before.rx_frames, counts ? N : 0);
    /* They contain no packet. */
    ck_assert_uint_eq(after.rx_refused - before.rx_refused, N);
    close(fd);
}
END_TEST

/* The packets of a message can arrive in one train. Each has the length that was sent, also the
 * last one, which is shorter. */
START_TEST(a_train_ends_where_its_last_packet_does)
{
    static const uint32_t sizes[] = {8, 4097, 8191, 10000, 12289, 65537, 131073};
    connect_both();
    fill(LEFT, 3);
    for (size_t i = 0; i < WEFT_LENGTH(sizes); i++) {
        memset(ends[RIGHT].memory, 0, N_BYTES);
        post(LEFT, IBV_WR_RDMA_WRITE, sizes[i]);
        expect_success(LEFT);
        ck_assert_mem_eq(ends[LEFT].memory, ends[RIGHT].memory, sizes[i]);
    }
    ck_assert_uint_gt(wire_of(RIGHT).rx_frames, 50);
    ck_assert_uint_eq(wire_of(RIGHT).rx_refused, 0);
}
END_TEST

/* ---- counters ---- */

static struct io_port_counters counters_of(int which)
{
    struct io_device *device = ends[which].device;
    struct io_port_counters counters;
    ck_assert_int_eq(device->ops->port_counters(device, 1, &counters), 0);
    ck_assert_int_eq(device->ops->port_counters(device, 0, &counters), EINVAL);
    ck_assert_int_eq(device->ops->port_counters(device, 2, &counters), EINVAL);
    (void)device->ops->port_counters(device, 1, &counters);
    return counters;
}

/* Each packet that one end sent is counted by the other, once it has arrived. */
START_TEST(what_one_end_sends_the_other_receives)
{
    struct io_port_counters from, to;
    connect_both();
    for (int which = 0; which < 2; which++) {
        weft_ns limit = linux_loop_now(ends[LEFT].loop) + 60 * S;
        post(which, IBV_WR_RDMA_WRITE, N_BYTES);
        expect_success(which);
        do {
            ck_assert_int_lt(linux_loop_now(ends[LEFT].loop), limit);
            step(1 - which);
            to = counters_of(1 - which);
            from = counters_of(which);
        } while (to.rx_packets != from.tx_packets && to.rx_packets != IO_UNKNOWN);
        ck_assert_int_ge(from.tx_packets, N_BYTES / 4096);
        ck_assert_int_ge(from.retransmits, 0);
        ck_assert_int_ge(to.out_of_sequence, 0);
        ck_assert_int_eq(to.icrc_errors, 0);
        ck_assert_int_eq(to.tx_queue_drops, IO_UNKNOWN);
    }
}
END_TEST

/* Another process of the host has a NIC of its own, which receives part of the port's packets. */
START_TEST(packets_of_a_port_of_two_processes_are_unknown)
{
    struct io_port_counters counters;
    teardown();
    describe();
    hosts[LEFT].n_processes = 2;
    ck_assert_int_eq(soft_loopback_claim(&block, &claim_fd), 0);
    weft_format(block_text, sizeof block_text, "%u", block);
    for (int i = 0; i < 2; i++) {
        open_end(i);
        make_objects(i);
    }
    counters = counters_of(LEFT);
    ck_assert_int_eq(counters.tx_packets, IO_UNKNOWN);
    ck_assert_int_eq(counters.rx_packets, IO_UNKNOWN);
    ck_assert_int_eq(counters.retransmits, IO_UNKNOWN);
    ck_assert_int_eq(counters_of(RIGHT).rx_packets, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("soft hosts");
    TCase *tcase = tcase_create("hosts");
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_nic_works_while_its_user_sleeps);
    tcase_add_test(tcase, an_armed_queue_wakes_its_user_every_time);
    tcase_add_test(tcase, a_cq_that_remains_wakes_no_task);
    tcase_add_test(tcase, a_thousand_connections_leave_nothing);
    tcase_add_test(tcase, hosts_that_come_and_go_leave_nothing);
    tcase_add_test(tcase, noise_on_the_wire_changes_nothing);
    tcase_add_loop_test(tcase, frames_come_from_the_other_end_of_the_cable_only, 0, 4);
    tcase_add_test(tcase, a_train_ends_where_its_last_packet_does);
    tcase_add_test(tcase, what_one_end_sends_the_other_receives);
    tcase_add_test(tcase, packets_of_a_port_of_two_processes_are_unknown);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
