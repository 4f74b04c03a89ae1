/* A verbs program with a race of two threads: racy DEVICE GID_INDEX.
 *
 * One thread posts a receive, the other one sends to it, and nothing orders them. If the send is
 * first, it ends with RNR_RETRY_EXC (13), because rnr_retry is 0. Both queue pairs belong to one
 * device, so that one host is enough. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NAPS 400 /* of each thread, whose wake-ups race */
#define NAP_NS 10000
#define SEND_NS 1500 /* about as long as the send needs to arrive */
#define START_S 1    /* from the program's start to that of the race */

struct bed {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qps[2]; /* sends, receives */
    union ibv_gid gid;
    int gid_index;
    struct timespec start;
    char memory[8];
};

static struct bed bed;

static void must(int is_right, const char *what)
{
    if (!is_right) {
        perror(what);
        exit(3);
    }
}

/* Begins at the same instant in both threads; the end differs by what their calls cost. */
static void nap(void)
{
    const struct timespec time = {.tv_nsec = NAP_NS};

    prctl(PR_SET_TIMERSLACK, 1UL);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &bed.start, NULL);
    for (int i = 0; i < NAPS; i++) {
        nanosleep(&time, NULL);
    }
}

static void *receive(void *unused)
{
    struct ibv_sge sge = {(uintptr_t)bed.memory, 4, bed.mr->lkey};
    struct ibv_recv_wr work = {.sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    const struct timespec time = {.tv_nsec = SEND_NS};

    nap();
    nanosleep(&time, NULL);
    must(ibv_post_recv(bed.qps[1], &work, &bad) == 0, "ibv_post_recv");
    return unused;
}

static void *send_to_it(void *unused)
{
    struct ibv_sge sge = {(uintptr_t)bed.memory + 4, 4, bed.mr->lkey};
    struct ibv_send_wr work = {.sg_list = &sge,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED,
                               .wr_id = 1};
    struct ibv_send_wr *bad;

    nap();
    must(ibv_post_send(bed.qps[0], &work, &bad) == 0, "ibv_post_send");
    return unused;
}

static void open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    must(list != NULL, "ibv_get_device_list");
    for (int i = 0; list[i] != NULL && bed.context == NULL; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            bed.context = ibv_open_device(list[i]);
        }
    }
    must(bed.context != NULL, name);
    bed.pd = ibv_alloc_pd(bed.context);
    bed.cq = ibv_create_cq(bed.context, 4, NULL, NULL, 0);
    bed.mr = ibv_reg_mr(bed.pd, bed.memory, sizeof(bed.memory), IBV_ACCESS_LOCAL_WRITE);
    must(bed.pd != NULL && bed.cq != NULL && bed.mr != NULL, "objects");
    must(ibv_query_gid(bed.context, 1, bed.gid_index, &bed.gid) == 0, "ibv_query_gid");
}

static void make_queue_pairs(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = bed.cq,
        .recv_cq = bed.cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};

    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

        bed.qps[i] = ibv_create_qp(bed.pd, &init);
        must(bed.qps[i] != NULL, "ibv_create_qp");
        must(ibv_modify_qp(bed.qps[i], &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                               IBV_QP_ACCESS_FLAGS) == 0,
             "INIT");
    }
}

static void connect_queue_pair(int i)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = bed.qps[1 - i]->qp_num,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12};

    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = bed.gid;
    attr.ah_attr.grh.sgid_index = (uint8_t)bed.gid_index;
    attr.ah_attr.grh.hop_limit = 1;
    must(ibv_modify_qp(bed.qps[i], &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                           IBV_QP_MIN_RNR_TIMER) == 0,
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 1;
    attr.rnr_retry = 0;
    attr.max_rd_atomic = 1;
    must(ibv_modify_qp(bed.qps[i], &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) ==
             0,
         "RTS");
}

/* Of the send. */
static enum ibv_wc_status status_of_send(void)
{
    const struct timespec time = {.tv_nsec = NAP_NS};
    struct ibv_wc wc = {.wr_id = 0};

    do {
        int n;

        while ((n = ibv_poll_cq(bed.cq, 1, &wc)) == 0) {
            nanosleep(&time, NULL);
        }
        must(n == 1, "ibv_poll_cq");
    } while (wc.wr_id != 1);
    return wc.status;
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    enum ibv_wc_status status;

    if (argc != 3) {
        fprintf(stderr, "usage: racy DEVICE GID_INDEX\n");
        return 2;
    }
    bed.gid_index = atoi(argv[2]);
    open_device(argv[1]);
    make_queue_pairs();
    connect_queue_pair(0);
    connect_queue_pair(1);
    clock_gettime(CLOCK_MONOTONIC, &bed.start);
    bed.start.tv_sec += START_S;
    must(pthread_create(&threads[0], NULL, receive, NULL) == 0 &&
             pthread_create(&threads[1], NULL, send_to_it, NULL) == 0,
         "pthread_create");
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    status = status_of_send();
    if (status != IBV_WC_SUCCESS) {
        printf("Got completion with status %d (%s)\n", status, ibv_wc_status_str(status));
        return 1;
    }
    printf("sent\n");
    return 0;
}
