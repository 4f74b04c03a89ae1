/* Tests of regions whose keys use other addresses, of GPU memory, and of when written
 * bytes become visible. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "sim/dmabuf.h"
#include "sim/nic_objects.h"
#include "sim/rc_testing.h"

enum { BYTES = 65536 };

static struct rc_pair pair;
static struct sim_dmabufs *dmabufs;

static void start(const struct rc_options *options)
{
    rc_pair_init(&pair, options);
    rc_fill(&pair);
    dmabufs = sim_dmabufs_create();
    sim_nic_set_dmabufs(pair.ends[1].nic, 0, dmabufs);
}

static void finish(void)
{
    sim_dmabufs_destroy(dmabufs);
    rc_pair_fini(&pair);
}

/* Registers the first BYTES of end b's memory, addressed from `iova` on. */
static struct ibv_mr *reg_with(uint64_t iova, int dmabuf_fd, int access)
{
    struct sim_request request = {.verb = SIM_VERB_REG_MR};
    request.arg.reg_mr = (struct sim_reg_mr){
        .pd = pair.ends[1].pd,
        .addr = pair.ends[1].memory,
        .length = BYTES,
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | access,
        .has_iova = true,
        .iova = iova,
        .is_dmabuf = dmabuf_fd >= 0,
        .dmabuf_fd = dmabuf_fd,
    };
    ck_assert_int_eq(rc_verb(&pair, 1, &request), 0);
    return request.out.mr;
}

static struct ibv_mr *reg_at(uint64_t iova, int dmabuf_fd)
{
    return reg_with(iova, dmabuf_fd, 0);
}

static void post_at(enum ibv_wr_opcode opcode, uint64_t va, uint32_t rkey, uint32_t bytes)
{
    struct ibv_sge sge = {(uintptr_t)pair.ends[0].memory, bytes, pair.ends[0].mr->lkey};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = va;
    wr.wr.rdma.rkey = rkey;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = va;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 5;
    }
    ck_assert_int_eq(sim_nic_post_send(pair.ends[0].qp, &wr, &bad), 0);
}

START_TEST(keys_address_by_iova)
{
    start(NULL);
    uint8_t *there = pair.ends[1].memory;
    uint8_t *here = pair.ends[0].memory;
    struct ibv_mr *mr = reg_at(0x10000000, -1);
    post_at(IBV_WR_RDMA_WRITE, 0x10000000 + 8, mr->rkey, 9000);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(there + 8, here, 9000);
    memset(there, 0x5a, 100);
    post_at(IBV_WR_RDMA_READ, 0x10000000, mr->rkey, 100);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(here, there, 100);
    memset(there, 0, 8);
    post_at(IBV_WR_ATOMIC_FETCH_AND_ADD, 0x10000000, mr->rkey, 8);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(there[0], 5);
    /* Local SGEs use these addresses, too: end b sends and receives with them. */
    struct ibv_sge sge = {0x10000000 + 100, 5000, mr->lkey};
    struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad_recv = NULL;
    ck_assert_int_eq(sim_nic_post_recv(pair.ends[1].qp, &recv, &bad_recv), 0);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_SEND, 3, 7, 5000, 0), 0);
    ck_assert_uint_eq(rc_wait(&pair, 1).byte_len, 5000);
    ck_assert_mem_eq(there + 100, here + 7, 5000);
    struct ibv_send_wr wr = {.wr_id = 4,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)here + 20000;
    wr.wr.rdma.rkey = pair.ends[0].mr->rkey;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[1].qp, &wr, &bad), 0);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(here + 20000, there + 100, 5000);
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = (uintptr_t)here + 40000;
    ck_assert_int_eq(sim_nic_post_send(pair.ends[1].qp, &wr, &bad), 0);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(there + 100, here + 40000, 5000);
    finish();
}
END_TEST

START_TEST(the_real_address_is_not_its_iova)
{
    start(NULL);
    struct ibv_mr *mr = reg_at(0x10000000, -1);
    post_at(IBV_WR_RDMA_WRITE, (uintptr_t)pair.ends[1].memory, mr->rkey, 8);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_REM_ACCESS_ERR);
    finish();
}
END_TEST

START_TEST(a_revoked_dmabuf_is_no_longer_written)
{
    start(NULL);
    int fd = sim_dmabuf_export(dmabufs, pair.ends[1].memory, BYTES);
    struct ibv_mr *mr = reg_at(0x20000000, fd);
    post_at(IBV_WR_RDMA_WRITE, 0x20000000, mr->rkey, 4096);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(pair.ends[1].memory, pair.ends[0].memory, 4096);
    /* Closing the descriptor does not affect users that have mapped it. */
    int again = sim_dmabuf_export(dmabufs, pair.ends[1].memory, BYTES);
    ck_assert_int_eq(again, fd + 1);
    ck_assert_int_eq(sim_dmabuf_revoke(dmabufs, fd), 0);
    ck_assert_int_eq(sim_dmabuf_close(dmabufs, fd), 0);
    memset(pair.ends[1].memory, 0, 4096);
    post_at(IBV_WR_RDMA_WRITE, 0x20000000, mr->rkey, 4096);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_REM_ACCESS_ERR);
    ck_assert_uint_eq(pair.ends[1].memory[0], 0);
    finish();
}
END_TEST

/* Polls the last byte of a WRITE, as some programs do. Returns true if it landed before
 * another byte. */
static bool last_byte_came_early(uint64_t seed, const char *in_order)
{
    start(
        &(struct rc_options){.seed = seed, .overrides = {{"writes_in_order", in_order}}});
    bool early = false;
    memset(pair.ends[1].memory, 0, 4096);
    memset(pair.ends[0].memory, 0xff, 4096);
    ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 4096, 0), 0);
    while (pair.ends[1].memory[4095] != 0xff) {
        ck_assert(sim_step(pair.engine, SIM_NEVER));
    }
    early = memchr(pair.ends[1].memory, 0, 4096) != NULL;
    rc_run(&pair, RC_PS_PER_MS);
    ck_assert_ptr_null(
        memchr(pair.ends[1].memory, 0, 4096)); /* finally all bytes are there */
    finish();
    return early;
}

START_TEST(bytes_of_a_write_land_in_any_order)
{
    unsigned n_early = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        ck_assert(!last_byte_came_early(seed, "true"));
        bool early = last_byte_came_early(seed, "false");
        /* depends only on the seed */
        ck_assert_int_eq(early, last_byte_came_early(seed, "false"));
        n_early += early;
    }
    ck_assert_uint_gt(n_early, 8);
}
END_TEST

/* A region registered as relaxed gets no order, on a device that would keep it. */
START_TEST(a_relaxed_region_has_no_order)
{
    unsigned n_early = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        start(&(struct rc_options){.seed = seed});
        uint8_t *there = pair.ends[1].memory;
        struct ibv_mr *mr =
            reg_with((uintptr_t)there, -1, (int)IBV_ACCESS_RELAXED_ORDERING);
        memset(there, 0, 8192);
        memset(pair.ends[0].memory, 0xff, 8192);
        post_at(IBV_WR_RDMA_WRITE, (uintptr_t)there, mr->rkey, 8192);
        while (there[8191] != 0xff) {
            ck_assert(sim_step(pair.engine, SIM_NEVER));
        }
        n_early += memchr(there, 0, 8192) != NULL;
        rc_run(&pair, RC_PS_PER_MS);
        ck_assert_ptr_null(memchr(there, 0, 8192));
        finish();
    }
    ck_assert_uint_gt(n_early, 8);
}
END_TEST

/* Fills the region by WRITEs of one cache line each, in a scattered order; `round`
 * determines the bytes. Returns the number of tree entries visited per WRITE. */
static uint64_t fill_by_lines(struct ibv_mr *mr, unsigned round)
{
    enum { LINE = 64, N_LINES = BYTES / LINE, STEP = 389 };
    uint64_t before = pair.ends[1].nic->n_piece_visits;
    memset(pair.ends[0].memory, (int)round, LINE);
    for (unsigned i = 0; i < N_LINES; i++) {
        uint64_t at = (uint64_t)(i * STEP % N_LINES) * LINE;
        post_at(IBV_WR_RDMA_WRITE, (uintptr_t)pair.ends[1].memory + at, mr->rkey, LINE);
        ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    }
    return (pair.ends[1].nic->n_piece_visits - before) / N_LINES;
}

/* A thousand pieces are in the tree, and each new one must be inserted or replace an old
 * one. */
START_TEST(many_pieces_cost_no_more_than_their_logarithm)
{
    start(&(struct rc_options){.overrides = {{"write_spread", "1s"}}});
    uint8_t *there = pair.ends[1].memory;
    struct ibv_mr *mr = reg_with((uintptr_t)there, -1, (int)IBV_ACCESS_RELAXED_ORDERING);
    memset(there, 0, BYTES);
    for (unsigned round = 1; round <= 3; round++) {
        ck_assert_uint_lt(fill_by_lines(mr, round), 200);
    }
    rc_run(&pair, 2000 * RC_PS_PER_MS);
    for (unsigned i = 0; i < BYTES; i++) {
        if (there[i] != 3) {
            ck_abort_msg("byte %u is %u", i, there[i]);
        }
    }
    finish();
}
END_TEST

START_TEST(a_receive_completes_when_all_is_there)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        start(&(struct rc_options){
            .seed = seed,
            .overrides = {{"writes_in_order", "false"}, {"write_spread", "1s"}}});
        struct ibv_wc wc;
        ck_assert_int_eq(rc_post_recv(&pair, 1, 9, BYTES, 0), 0);
        ck_assert_int_eq(rc_post(&pair, 0, IBV_WR_RDMA_WRITE, 1, 0, 20000, 0), 0);
        /* Overlaps half of the first WRITE; the later one wins. */
        ck_assert_int_eq(
            rc_post(&pair, 0, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 30000, 10000, 0), 0);
        rc_run(&pair, RC_PS_PER_MS);
        ck_assert_int_eq(rc_poll(&pair, 1, &wc, 1), 1);
        ck_assert_mem_eq(pair.ends[1].memory, pair.ends[0].memory + 30000, 10000);
        ck_assert_mem_eq(pair.ends[1].memory + 10000, pair.ends[0].memory + 10000, 10000);
        finish();
    }
}
END_TEST

/* The later one of two writes to an address lands later, also if it is a SEND or the
 * response of a READ or atomic. */
START_TEST(what_is_written_last_stays)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_READ,
                                                 IBV_WR_ATOMIC_FETCH_AND_ADD};
    unsigned poster = opcodes[_i] == IBV_WR_SEND ? 0 : 1;
    start(&(struct rc_options){.overrides = {{"write_spread", "1s"}}});
    uint8_t *there = pair.ends[1].memory;
    uint8_t *here = pair.ends[0].memory;
    uint8_t last[8];
    struct ibv_mr *mr = reg_with((uintptr_t)there, -1, (int)IBV_ACCESS_RELAXED_ORDERING);
    memset(there, 0, 8);
    memset(here, 0x11, 8);
    memset(last, 0x22, 8);
    memcpy(here + 8, last, 8);
    post_at(IBV_WR_RDMA_WRITE, (uintptr_t)there, mr->rkey, 8);
    ck_assert_int_eq(rc_wait(&pair, 0).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(there[0], 0); /* still on its way */
    ck_assert_int_eq(rc_post_recv(&pair, 1, 9, 0, 8), 0);
    ck_assert_int_eq(rc_post(&pair, poster, opcodes[_i], 1, poster == 0 ? 8 : 0, 8, 8),
                     0);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_mem_eq(there, last, 8);
    rc_run(&pair, 2 * RC_PS_PER_S);
    ck_assert_mem_eq(there, last, 8);
    finish();
}
END_TEST

/* The sender's completion means that the NIC has the data; a READ behind it makes it
 * visible. */
START_TEST(a_gpu_sees_late_what_a_read_does_not_flush)
{
    start(&(struct rc_options){.overrides = {{"gpu_visibility", "1ms"}}});
    uint8_t *there = pair.ends[1].memory;
    int fd = sim_dmabuf_export(dmabufs, there, BYTES);
    struct ibv_mr *mr = reg_at(0x20000000, fd);
    memset(there, 0, BYTES);
    ck_assert_int_eq(rc_post_recv(&pair, 1, 9, BYTES, 0), 0);
    post_at(IBV_WR_RDMA_WRITE_WITH_IMM, 0x20000000, mr->rkey, 4096);
    ck_assert_int_eq(rc_wait(&pair, 1).status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(there[1], 0); /* completed, but not visible */
    rc_run(&pair, 2 * RC_PS_PER_MS);
    ck_assert_mem_eq(there, pair.ends[0].memory, 4096);
    memset(there, 0, BYTES);
    post_at(IBV_WR_RDMA_WRITE, 0x20000000, mr->rkey, 4096);
    post_at(IBV_WR_RDMA_READ, 0x20000000 + 8192, mr->rkey, 1);
    weft_ps before = sim_now(pair.engine);
    (void)rc_wait(&pair, 0);
    (void)rc_wait(&pair, 0);
    (void)rc_wait(&pair, 0);
    ck_assert_int_lt(sim_now(pair.engine) - before, RC_PS_PER_MS);
    ck_assert_mem_eq(there + 1, pair.ends[0].memory + 1, 4095);
    memset(there, 0, BYTES);
    post_at(IBV_WR_RDMA_WRITE, 0x20000000, mr->rkey, 4096);
    (void)rc_wait(&pair, 0);
    ck_assert_uint_eq(there[1], 0);
    sim_nic_fence_gpu(pair.ends[1].nic);
    ck_assert_mem_eq(there, pair.ends[0].memory, 4096);
    finish();
}
END_TEST

START_TEST(ends_agree_on_options)
{
    struct ibv_ece here;
    struct ibv_ece there;
    rc_pair_init(&pair, &(struct rc_options){.is_unconnected = true,
                                             .overrides = {{"ece_options", "13"}}});
    ck_assert_int_eq(sim_nic_query_ece(pair.ends[0].qp, &here), 0);
    ck_assert_uint_eq(here.vendor_id, 0x02c9);
    ck_assert_uint_eq(here.options, 13);
    /* The active end sends 7 to the passive end; both have 5 of it. */
    here.options = 7;
    ck_assert_int_eq(sim_nic_set_ece(pair.ends[1].qp, &here), 0);
    ck_assert_int_eq(sim_nic_query_ece(pair.ends[1].qp, &there), 0);
    ck_assert_uint_eq(there.options, 0); /* not before a modify */
    rc_connect(&pair, 1, pair.ends[1].qp, pair.ends[0].qp->qp_num);
    ck_assert_int_eq(sim_nic_query_ece(pair.ends[1].qp, &there), 0);
    ck_assert_uint_eq(there.options, 5);
    there.vendor_id ^= 1;
    ck_assert_int_eq(sim_nic_set_ece(pair.ends[0].qp, &there), EINVAL);
    there.vendor_id = 0;
    ck_assert_int_eq(sim_nic_set_ece(pair.ends[0].qp, &there), EOPNOTSUPP);
    there = (struct ibv_ece){.vendor_id = 0x02c9, .comp_mask = 1};
    ck_assert_int_eq(sim_nic_set_ece(pair.ends[0].qp, &there), EINVAL);
    rc_pair_fini(&pair);
    rc_pair_init(&pair, &(struct rc_options){.profile = "rxe"});
    ck_assert_int_eq(sim_nic_query_ece(pair.ends[0].qp, &here), EOPNOTSUPP);
    here = (struct ibv_ece){.vendor_id = 0xffffff};
    ck_assert_int_eq(sim_nic_set_ece(pair.ends[0].qp, &here), EOPNOTSUPP);
    rc_pair_fini(&pair);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("landing");
    TCase *all = tcase_create("all");
    tcase_add_test(all, keys_address_by_iova);
    tcase_add_test(all, the_real_address_is_not_its_iova);
    tcase_add_test(all, a_revoked_dmabuf_is_no_longer_written);
    tcase_add_test(all, bytes_of_a_write_land_in_any_order);
    tcase_add_test(all, a_relaxed_region_has_no_order);
    tcase_add_test(all, many_pieces_cost_no_more_than_their_logarithm);
    tcase_add_test(all, a_receive_completes_when_all_is_there);
    tcase_add_loop_test(all, what_is_written_last_stays, 0, 3);
    tcase_add_test(all, a_gpu_sees_late_what_a_read_does_not_flush);
    tcase_add_test(all, ends_agree_on_options);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
