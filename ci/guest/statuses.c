/* Makes one completion with an error that the peer's device answers with, or waits for any:
 *
 *     statuses invalid|refused|unusable|long|silent DEVICE GID_INDEX [SERVER]
 *
 * Without SERVER it is the server, which posts a receive and waits until its client is gone. The
 * client posts one request, and prints the status of its completion:
 *
 *     invalid   9, an RDMA WRITE to a queue pair that allows none
 *     refused   10, an RDMA WRITE with a key that the server has not given
 *     unusable  11, a SEND to a receive whose own key is none
 *     long      11 over rdma_rxe, 9 over NICs: a SEND that is longer than the receive
 *     silent    RDMA WRITEs for two seconds or until one fails, of which it prints nothing */
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TCP_PORT "18600"
#define LONG_BYTES 64
#define SHORT_BYTES 8
#define SILENT_REQUESTS 10000

/* What each end sends to the other. */
struct end {
    union ibv_gid gid;
    uint64_t address;
    uint32_t qpn, rkey;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;
static char memory[LONG_BYTES];

static void must(int is_right, const char *what)
{
    if (!is_right) {
        perror(what);
        exit(3);
    }
}

static void open_device(const char *name)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_qp_init_attr init = {
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};

    must(list != NULL, "ibv_get_device_list");
    for (int i = 0; list[i] != NULL && context == NULL; i++) {
        if (strcmp(ibv_get_device_name(list[i]), name) == 0) {
            context = ibv_open_device(list[i]);
        }
    }
    must(context != NULL, name);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    must(pd != NULL && cq != NULL, "objects");
    mr = ibv_reg_mr(pd, memory, sizeof(memory),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    init.send_cq = init.recv_cq = cq;
    qp = ibv_create_qp(pd, &init);
    must(mr != NULL && qp != NULL, "objects");
}

/* Returns the connection between server and client. */
static int meet(const char *server)
{
    struct addrinfo hints = {.ai_family = AF_INET,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = server == NULL ? AI_PASSIVE : 0};
    struct addrinfo *found;
    int one = 1, fd, peer;

    must(getaddrinfo(server, TCP_PORT, &hints, &found) == 0, "getaddrinfo");
    fd = socket(found->ai_family, found->ai_socktype, 0);
    must(fd >= 0, "socket");
    if (server != NULL) {
        must(connect(fd, found->ai_addr, found->ai_addrlen) == 0, "connect");
        return fd;
    }
    must(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
             bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0,
         "listen");
    peer = accept(fd, NULL, NULL);
    must(peer >= 0, "accept");
    return peer;
}

static void connect_queue_pair(const struct end *peer, int gid_index, int access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = (unsigned)access,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer->qpn,
                               .max_dest_rd_atomic = 1,
                               .min_rnr_timer = 12,
                               .timeout = 14,
                               .retry_cnt = 6, /* 7 has no end over rdma_rxe */
                               .rnr_retry = 7,
                               .max_rd_atomic = 1};

    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = peer->gid;
    attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
    attr.ah_attr.grh.hop_limit = 1;
    must(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                           IBV_QP_ACCESS_FLAGS) == 0,
         "INIT");
    attr.qp_state = IBV_QPS_RTR;
    must(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                           IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                           IBV_QP_MIN_RNR_TIMER) == 0,
         "RTR");
    attr.qp_state = IBV_QPS_RTS;
    must(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                           IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) ==
             0,
         "RTS");
}

static void post_receive(int is_unusable, int is_short)
{
    struct ibv_sge sge = {(uintptr_t)memory, is_short ? SHORT_BYTES : LONG_BYTES,
                          is_unusable ? mr->lkey ^ 0x5500 : mr->lkey};
    struct ibv_recv_wr work = {.sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    must(ibv_post_recv(qp, &work, &bad) == 0, "ibv_post_recv");
}

/* Returns the status of the one request. */
static enum ibv_wc_status request(const struct end *peer, int is_write, int has_key)
{
    struct ibv_sge sge = {(uintptr_t)memory, LONG_BYTES, mr->lkey};
    struct ibv_send_wr work = {.sg_list = &sge,
                               .num_sge = 1,
                               .opcode = is_write ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    int n;

    work.wr.rdma.remote_addr = peer->address;
    work.wr.rdma.rkey = has_key ? peer->rkey : peer->rkey ^ 0x5500;
    must(ibv_post_send(qp, &work, &bad) == 0, "ibv_post_send");
    while ((n = ibv_poll_cq(cq, 1, &wc)) == 0) {
        usleep(100);
    }
    must(n == 1, "ibv_poll_cq");
    return wc.status;
}

static int is(const char *mode, const char *name)
{
    return strcmp(mode, name) == 0;
}

static int serve(int fd, const char *mode)
{
    post_receive(is(mode, "unusable"), is(mode, "long"));
    must(write(fd, "", 1) == 1 && read(fd, memory, 1) == 0, "the client's end");
    return 0;
}

static int ask(int fd, const char *mode, const struct end *peer)
{
    int is_invalid = is(mode, "invalid");
    enum ibv_wc_status status;

    must(read(fd, memory, 1) == 1, "the server's receive");
    for (int i = 0; is(mode, "silent") && i < SILENT_REQUESTS; i++) {
        if (request(peer, 1, 1) != IBV_WC_SUCCESS) {
            return 1;
        }
        usleep(200);
    }
    if (is(mode, "silent")) {
        return 0;
    }
    status = request(peer, is_invalid || is(mode, "refused"), is_invalid);
    printf("Got completion with status %d (%s)\n", status, ibv_wc_status_str(status));
    return status != IBV_WC_SUCCESS;
}

int main(int argc, char **argv)
{
    int is_client = argc == 5, gid_index = argc >= 4 ? atoi(argv[3]) : 0;
    struct end own, peer;
    int fd;

    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: statuses MODE DEVICE GID_INDEX [SERVER]\n");
        return 2;
    }
    open_device(argv[2]);
    own = (struct end){.address = (uintptr_t)memory, .qpn = qp->qp_num, .rkey = mr->rkey};
    must(ibv_query_gid(context, 1, gid_index, &own.gid) == 0, "ibv_query_gid");
    fd = meet(is_client ? argv[4] : NULL);
    must(write(fd, &own, sizeof(own)) == sizeof(own) &&
             recv(fd, &peer, sizeof(peer), MSG_WAITALL) == sizeof(peer),
         "exchange");
    connect_queue_pair(&peer, gid_index,
                       is(argv[1], "invalid") ? 0 : IBV_ACCESS_REMOTE_WRITE);
    return is_client ? ask(fd, argv[1], &peer) : serve(fd, argv[1]);
}
