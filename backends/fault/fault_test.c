/* Each fault has its effect on the matching calls only. */
#include "backends/fault/bed_testing.h"
#include "backends/fault/private.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "io/oob.h"
#include "io/shm.h"

static int do_op(struct io_op *op)
{
    struct io_device *device = ends[0]->devices[0];
    int error;

    op->task = &tasks[0];
    error = device->ops->submit(device, op);
    while (error == 0 && (error = device->ops->poll(device, op)) == EINPROGRESS) {
        ck_assert(is_woken(&tasks[0], 10 * SECOND));
        error = 0;
    }
    return error;
}

static struct ibv_pd *make_pd(void)
{
    struct io_op op = {.kind = IO_OP_ALLOC_PD};

    ck_assert_int_eq(do_op(&op), 0);
    return op.out.pd;
}

static struct ibv_cq *make_cq(void)
{
    struct io_op op = {.kind = IO_OP_CREATE_CQ};

    op.arg.create_cq.cqe = 16;
    op.arg.create_cq.task = &tasks[0];
    ck_assert_int_eq(do_op(&op), 0);
    ck_assert_int_ge(op.out.cq->cqe, 16);
    return op.out.cq;
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct io_op op = {.kind = IO_OP_CREATE_QP};

    op.arg.create_qp.pd = pd;
    op.arg.create_qp.init = (struct ibv_qp_init_attr){
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    ck_assert_int_eq(do_op(&op), 0);
    ck_assert_int_eq(op.out.qp->qp_type, IBV_QPT_RC);
    ck_assert_uint_gt(op.out.qp->qp_num, 0);
    ck_assert_uint_ge(op.arg.create_qp.init.cap.max_send_wr, 4);
    ck_assert_ptr_eq(op.arg.create_qp.init.send_cq, cq);
    return op.out.qp;
}

/* ---- verbs ---- */

START_TEST(the_nth_is_refused_and_count_more)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_ERROR, WORLD_CALL_ALLOC_PD);
    struct io_op op;

    open_world();
    fault.nth = 3;
    fault.n_calls = 2;
    inject(&fault);
    for (int i = 1; i <= 6; i++) {
        op = (struct io_op){.kind = IO_OP_ALLOC_PD};
        ck_assert_int_eq(do_op(&op), i == 3 || i == 4 ? ENOMEM : 0);
        ck_assert_int_eq(op.state, IO_OP_DONE);
    }
    ck_assert_uint_eq(fault_world_hits(world, 0, 0), 2);
    ck_assert_uint_eq(fault_world_calls(world, 0, 0, WORLD_CALL_ALLOC_PD), 6);
    ck_assert_uint_eq(fault_world_calls(world, 0, 0, WORLD_CALL_ANY), 6);
    ck_assert_uint_eq(fault_world_calls(world, 1, 0, WORLD_CALL_ANY), 0);
    close_world();
}
END_TEST

START_TEST(a_fault_is_of_its_port_and_its_time)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_ERROR, WORLD_CALL_QUERY_PORT);
    struct ibv_port_attr attr;

    open_world();
    fault.has_port = true;
    fault.port = 1;
    fault.n_calls = UINT32_MAX;
    fault.for_ns = SECOND;
    inject(&fault);
    for (uint32_t i = 0; i < 2; i++) {
        struct io_device *device = ends[0]->devices[i];

        ck_assert_int_eq(device->ops->query_port(device, 1, &attr), i == 1 ? ENOMEM : 0);
    }
    ck_assert(!is_woken(&tasks[0], SECOND));
    ck_assert_int_eq(ends[0]->devices[1]->ops->query_port(ends[0]->devices[1], 1, &attr),
                     0);
    close_world();
}
END_TEST

START_TEST(a_slow_verb_starts_later_and_can_be_given_up)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_SLOW, WORLD_CALL_ALLOC_PD);
    struct io_op op = {.kind = IO_OP_ALLOC_PD}, given_up = {.kind = IO_OP_ALLOC_PD};
    struct io_device *device;
    weft_ns since;

    open_world();
    device = ends[0]->devices[0];
    fault.by_ns = 70 * MS;
    fault.n_calls = 2;
    inject(&fault);
    since = world->ops->now(world);
    ck_assert_int_eq(do_op(&op), 0);
    ck_assert_int_ge(world->ops->now(world) - since, 70 * MS);
    ck_assert_int_lt(world->ops->now(world) - since, 71 * MS);
    ck_assert_int_eq(device->ops->submit(device, &given_up), 0);
    ck_assert_int_eq(device->ops->poll(device, &given_up), EINPROGRESS);
    device->ops->abandon(device, &given_up);
    ck_assert_int_eq(given_up.state, IO_OP_IDLE);
    ck_assert(!is_woken(&tasks[0], SECOND));
    close_world();
}
END_TEST

/* The object is destroyed, although its creation was never polled. */
START_TEST(an_object_given_up_when_it_was_there_is_undone)
{
    struct io_op op = {.kind = IO_OP_REG_MR};
    struct io_op last = {.kind = IO_OP_DEALLOC_PD};
    struct io_device *device;
    static uint8_t memory[4096];

    open_world();
    device = ends[0]->devices[0];
    op.task = &tasks[0];
    op.arg.reg_mr.pd = make_pd();
    op.arg.reg_mr.addr = memory;
    op.arg.reg_mr.length = sizeof(memory);
    op.arg.reg_mr.access = IBV_ACCESS_LOCAL_WRITE;
    ck_assert_int_eq(device->ops->submit(device, &op), 0);
    ck_assert(is_woken(&tasks[0], SECOND));
    device->ops->abandon(device, &op);
    last.arg.dealloc_pd = op.arg.reg_mr.pd;
    ck_assert_int_eq(do_op(&last), 0); /* EBUSY while the PD contains an object */
    close_world();
}
END_TEST

/* A queue whose destruction failed wakes no task, and can be destroyed again. */
START_TEST(a_queue_that_is_not_destroyed_wakes_nobody)
{
    struct world_fault fault = fault_of(
        WORLD_FAULT_CALL_ERROR, _i == 0 ? WORLD_CALL_DESTROY_QP : WORLD_CALL_DESTROY_CQ);
    struct io_op op = {.kind = _i == 0 ? IO_OP_DESTROY_QP : IO_OP_DESTROY_CQ};
    struct ibv_pd *pd;
    struct ibv_cq *cq;

    open_world();
    fault.error = EBUSY;
    inject(&fault);
    pd = make_pd();
    cq = make_cq();
    if (_i == 0) {
        op.arg.destroy_qp = make_qp(pd, cq);
    } else {
        op.arg.destroy_cq = cq;
    }
    ck_assert_int_eq(do_op(&op), EBUSY);
    forget_wakes();
    ck_assert(!is_woken(&tasks[0], SECOND));
    ck_assert_int_eq(do_op(&op), 0);
    close_world();
}
END_TEST

/* ---- the data path ---- */

START_TEST(posting_and_polling_may_fail)
{
    struct world_fault fault = fault_of(WORLD_FAULT_CALL_ERROR, WORLD_CALL_POST_RECV);
    struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv = NULL;
    struct ibv_send_wr send = {.wr_id = 2}, *bad_send = NULL;
    const struct io_device_ops *ops;
    struct ibv_wc wc;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    int n = 7;

    open_world();
    ops = ends[0]->devices[0]->ops;
    cq = make_cq();
    qp = make_qp(make_pd(), cq);
    inject(&fault);
    fault.call = WORLD_CALL_POST_SEND;
    inject(&fault);
    fault.call = WORLD_CALL_POLL_CQ;
    fault.error = EIO;
    inject(&fault);
    fault.call = WORLD_CALL_REQ_NOTIFY;
    inject(&fault);
    ck_assert_int_eq(ops->post_recv(qp, &recv, &bad_recv), ENOMEM);
    ck_assert_ptr_eq(bad_recv, &recv);
    ck_assert_int_eq(ops->post_send(qp, &send, &bad_send), ENOMEM);
    ck_assert_ptr_eq(bad_send, &send);
    ck_assert_int_eq(ops->poll_cq(cq, 1, &wc, &n), EIO);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(ops->req_notify(cq, 0), EIO);
    ck_assert_int_eq(ops->poll_cq(cq, 1, &wc, &n), 0);
    ck_assert_int_eq(ops->req_notify(cq, 0), 0);
    close_world();
}
END_TEST

/* ---- moments of the job ---- */

/* Replaces a device: accepts all work requests, or those before `refused`. */
static struct io_device_ops posted_ops;
static struct ibv_send_wr *refused;

static int take_or_refuse(struct ibv_qp *qp, struct ibv_send_wr *wr,
                          struct ibv_send_wr **bad)
{
    (void)qp;
    (void)wr;
    *bad = refused;
    return refused == NULL ? 0 : ENOMEM;
}

/* The rule applies from the next call on, to the process that reached the moment. */
START_TEST(a_rule_begins_when_its_process_begins_the_row)
{
    struct world_fault *fault;

    mesh_test_init(&mesh, 2);
    fault = mesh_test_fault(&mesh, 0, WORLD_FAULT_CALL_ERROR, 0);
    fault->moment = (struct world_moment){.kind = WORLD_MOMENT_ROW, .row = 2};
    fault->call = WORLD_CALL_ALLOC_PD;
    fault->nth = 2;
    fault->error = ENOMEM;
    open_mesh();
    io_reached(ends[1], IO_STAGE_ROW, 2); /* another process */
    io_reached(ends[0], IO_STAGE_ROW, 1);
    (void)make_pd();
    ck_assert_int_eq(world->ops->fault_began(world, 0), WEFT_NEVER);
    io_reached(ends[0], IO_STAGE_ROW, 2);
    ck_assert_int_eq(world->ops->fault_began(world, 0), world->ops->now(world));
    (void)make_pd();
    ck_assert_int_eq(do_op(&(struct io_op){.kind = IO_OP_ALLOC_PD}), ENOMEM);
    (void)make_pd();
    ck_assert_uint_eq(fault_world_hits(world, 0, 0), 1);
    close_world();
}
END_TEST

/* A device is lost in the next step, not within the call that reached the moment. */
START_TEST(a_device_goes_after_the_moment)
{
    struct world_fault *fault;
    struct ibv_port_attr attr;
    struct io_device *device;

    mesh_test_init(&mesh, 2);
    fault = mesh_test_fault(&mesh, 0, WORLD_FAULT_DEVICE_FATAL, 0);
    fault->moment.kind = WORLD_MOMENT_JOBS;
    open_mesh();
    device = ends[0]->devices[0];
    io_reached(ends[0], IO_STAGE_JOBS, 0);
    ck_assert_int_eq(device->ops->query_port(device, 1, &attr), 0);
    ck_assert(!is_woken(&tasks[0], MS));
    ck_assert_int_eq(device->ops->query_port(device, 1, &attr), EIO);
    close_world();
}
END_TEST

/* Counts only what the fault's host posts; rejected requests and RDMA READs do not count. */
START_TEST(what_is_sent_is_what_was_posted)
{
    static uint8_t memory[64];
    struct ibv_sge sge[2] = {{.addr = (uintptr_t)memory, .length = 40},
                             {.addr = (uintptr_t)memory, .length = 24}};
    struct ibv_send_wr write = {
        .opcode = IBV_WR_RDMA_WRITE, .sg_list = sge, .num_sge = 2};
    struct ibv_send_wr read = {
        .opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 1, .next = &write};
    struct world_fault *fault;
    struct ibv_send_wr *bad;
    struct fault_qp *qp;
    struct ibv_qp *made;

    mesh_test_init(&mesh, 2);
    fault = mesh_test_fault(&mesh, MS, WORLD_FAULT_DOWN, 1);
    fault->has_port = true;
    fault->port = 1;
    fault->moment =
        (struct world_moment){.kind = WORLD_MOMENT_SENT, .host = 0, .bytes = 128};
    open_mesh();
    made = make_qp(make_pd(), make_cq());
    qp = weft_container_of(made, struct fault_qp, base);
    posted_ops = *qp->device->inner->ops;
    posted_ops.post_send = take_or_refuse;
    qp->device->inner->ops = &posted_ops;
    refused = NULL;
    ck_assert_int_eq(qp->device->io.ops->post_send(&qp->base, &read, &bad), 0);
    ck_assert_uint_eq(qp->device->env->sent_bytes, 64);
    refused = &write;
    ck_assert_int_eq(qp->device->io.ops->post_send(&qp->base, &read, &bad), ENOMEM);
    ck_assert_uint_eq(qp->device->env->sent_bytes, 64);
    ck_assert(!is_woken(&tasks[0], 2 * MS));
    ck_assert_int_eq(world->ops->fault_began(world, 0), WEFT_NEVER);
    refused = NULL;
    ck_assert_int_eq(qp->device->io.ops->post_send(&qp->base, &write, &bad), 0);
    ck_assert(!is_woken(&tasks[0], 2 * MS));
    ck_assert_int_eq(world->ops->fault_began(world, 0), world->ops->now(world) - MS);
    close_world();
}
END_TEST

/* ---- events ---- */

START_TEST(a_device_that_goes_says_so_once)
{
    struct world_fault fault = fault_of(WORLD_FAULT_DEVICE_FATAL, WORLD_CALL_ANY);
    struct io_device *device, *other;
    struct io_async_event event;
    struct ibv_port_attr attr;
    struct io_op op = {.kind = IO_OP_ALLOC_PD};
    struct io_op end = {.kind = IO_OP_DESTROY_QP};
    struct ibv_qp *qp;

    open_world();
    device = ends[0]->devices[0];
    other = ends[0]->devices[1];
    device->async_task = &tasks[0];
    qp = make_qp(make_pd(), make_cq());
    fault.has_port = true;
    inject(&fault);
    inject(&fault);
    ck_assert(is_woken(&tasks[0], SECOND));
    ck_assert_int_eq(device->ops->async_event(device, &event), 0);
    ck_assert_int_eq(event.type, IBV_EVENT_DEVICE_FATAL);
    ck_assert_int_eq(device->ops->async_event(device, &event), EAGAIN);
    ck_assert_int_eq(do_op(&op), EIO);
    ck_assert_int_eq(device->ops->query_port(device, 1, &attr), EIO);
    ck_assert_int_eq(other->ops->query_port(other, 1, &attr), 0);
    end.arg.destroy_qp = qp;
    ck_assert_int_eq(do_op(&end), 0);
    close_world();
}
END_TEST

START_TEST(a_storm_of_events_is_told_in_full)
{
    struct world_fault fault = fault_of(WORLD_FAULT_ASYNC_EVENT, WORLD_CALL_ANY);
    struct io_device *device;
    struct io_async_event event;

    open_world();
    device = ends[0]->devices[0];
    fault.has_port = true;
    fault.event = IBV_EVENT_GID_CHANGE;
    fault.n_calls = 100000;
    inject(&fault);
    for (int i = 0; i < 100000; i++) {
        ck_assert_int_eq(device->ops->async_event(device, &event), 0);
        ck_assert_int_eq(event.type, IBV_EVENT_GID_CHANGE);
        ck_assert_uint_eq(event.port, 1);
    }
    ck_assert_int_eq(device->ops->async_event(device, &event), EAGAIN);
    close_world();
}
END_TEST

/* ---- the tables ---- */

/* Ours must have an operation if, and only if, the backend has it, so that no new operation is
 * forgotten. */
static void check_table(const void *ours, const void *below, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += sizeof(void *)) {
        uintptr_t one, other;

        memcpy(&one, (const char *)ours + i, sizeof(one));
        memcpy(&other, (const char *)below + i, sizeof(other));
        ck_assert_msg((one != 0) == (other != 0), "operation %zu", i / sizeof(void *));
    }
}

START_TEST(no_operation_is_forgotten)
{
    struct weft_error error = {0};
    struct world *bare;
    const struct io_env *below;

    open_world();
    ck_assert_int_eq(backend_sim.create(&mesh.spec, &bare, &error), WEFT_OK);
    below = bare->ops->host_env(bare, 0, 0);
    check_table(ends[0]->oob, below->oob, sizeof(*below->oob));
    check_table(ends[0]->shm, below->shm, sizeof(*below->shm));
    check_table(ends[0]->gpu->ops, below->gpu->ops, sizeof(*below->gpu->ops));
    check_table(ends[0]->devices[0]->ops, below->devices[0]->ops,
                sizeof(*below->devices[0]->ops));
    check_table(&world->ops->host_env, &bare->ops->host_env,
                sizeof(*bare->ops) - offsetof(struct world_ops, host_env));
    bare->ops->destroy(bare);
    close_world();
}
END_TEST

/* ---- whole jobs ---- */

/* Without faults the event log is that of an unwrapped world. */
START_TEST(nothing_changes_where_nothing_fails)
{
    struct weft_error error;
    char plain[4096];

    for (int i = 0; i < 2; i++) {
        mesh_test_init(&mesh, 3);
        mesh.wrap = i == 0 ? NULL : wrap;
        mesh_test_start(&mesh);
        ck_assert_int_eq(mesh_test_run(&mesh, 100 * SECOND, &error), WEFT_OK);
        if (i == 0) {
            weft_format(plain, sizeof(plain), "%s", mesh.story.bytes);
        }
        ck_assert_str_eq(mesh.story.bytes, plain);
        mesh_test_fini(&mesh);
    }
}
END_TEST

START_TEST(a_removed_device_fails_its_job_once)
{
    struct weft_error error;
    struct world_fault *fault;
    char states[64];

    mesh_test_init(&mesh, 2);
    mesh.wrap = wrap;
    mesh.rows[0].coll.count = 16u << 20;
    mesh.rows[0].size_bytes = 64u << 20;
    fault = mesh_test_fault(&mesh, 4 * MS, WORLD_FAULT_DEVICE_FATAL, 1);
    fault->has_port = true;
    fault->port = 1;
    mesh_test_start(&mesh);
    ck_assert_int_eq(mesh_test_run(&mesh, 100 * SECOND, &error), WEFT_OK);
    ck_assert_str_eq(mesh_test_states(&mesh, states, sizeof(states)), "failed failed");
    ck_assert_int_lt(mesh.world->ops->now(mesh.world), 60 * SECOND);
    mesh_test_fini(&mesh);
}
END_TEST

/* One end fails to read once, before the other end has received its first message. The other end
 * dials again, both at the rendezvous and for a connection, and is recognised. */
START_TEST(a_stream_lost_before_the_first_word_is_dialled_again)
{
    static const uint32_t nths[] = {1, 3, 5, 7, 9, 18, 20, 23};
    struct weft_error error;
    struct world_fault *fault;
    char states[64];

    mesh_test_init(&mesh, 2);
    mesh.wrap = wrap;
    fault = mesh_test_fault(&mesh, 0, WORLD_FAULT_CALL_ERROR, 0);
    fault->call = WORLD_CALL_RECV;
    fault->error = ENOMEM;
    fault->nth = nths[_i];
    mesh_test_start(&mesh);
    ck_assert_int_eq(mesh_test_run(&mesh, 100 * SECOND, &error), WEFT_OK);
    ck_assert_uint_eq(fault_world_hits(mesh.world, 0, 0), 1);
    ck_assert_str_eq(mesh_test_states(&mesh, states, sizeof(states)), "done done");
    mesh_test_fini(&mesh);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_nth_is_refused_and_count_more);
    tcase_add_test(tcase, a_fault_is_of_its_port_and_its_time);
    tcase_add_test(tcase, a_slow_verb_starts_later_and_can_be_given_up);
    tcase_add_test(tcase, an_object_given_up_when_it_was_there_is_undone);
    tcase_add_loop_test(tcase, a_queue_that_is_not_destroyed_wakes_nobody, 0, 2);
    tcase_add_test(tcase, posting_and_polling_may_fail);
    tcase_add_test(tcase, a_rule_begins_when_its_process_begins_the_row);
    tcase_add_test(tcase, a_device_goes_after_the_moment);
    tcase_add_test(tcase, what_is_sent_is_what_was_posted);
    tcase_add_test(tcase, a_device_that_goes_says_so_once);
    tcase_add_test(tcase, a_storm_of_events_is_told_in_full);
    tcase_add_test(tcase, no_operation_is_forgotten);
    tcase_add_test(tcase, nothing_changes_where_nothing_fails);
    tcase_add_test(tcase, a_removed_device_fails_its_job_once);
    tcase_add_loop_test(tcase, a_stream_lost_before_the_first_word_is_dialled_again, 0,
                        8);
    return suite_run(suite);
}
