/* A verbs program that chooses devices as others do, and prints nothing when that fails:
 *
 *   chooser nccl INDEX NAP [PEER]     both ends use the device at the same place of their lists,
 *                                     as NCCL's net_ib does if all ranks are alike
 *   chooser mooncake SEED NAP [PEER]  the client draws a place in its own list and one in its
 *                                     peer's, and takes the next of both after a failure, as
 *                                     Mooncake's transfer engine does
 *
 * Without PEER it is the server. Both ends set up a queue pair to the GID that the other end sent,
 * and the client sends a message. If that fails, the program ends with status 1, or, with a NAP,
 * sleeps for that many seconds, prints "over" to stderr, and ends with status 0. */
#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVICE "7471"
#define ATTEMPTS 4 /* of mooncake */
#define GID_INDEX 1
#define BYTES 8

/* What an end sends to the other. */
struct card {
    union ibv_gid gid;
    uint32_t qpn;
    uint32_t place; /* of the device that the receiver is to use */
    uint32_t is_ready;
};

struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    char memory[BYTES];
};

/* ---- the other end ---- */

static int tune_in(const char *peer)
{
    const struct addrinfo hints = {.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = peer == NULL ? AI_PASSIVE : 0};
    struct addrinfo *at = NULL;
    int one = 1;
    int fd, accepted;

    if (getaddrinfo(peer, SERVICE, &hints, &at) != 0) {
        exit(3);
    }
    fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (peer != NULL) {
        if (connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
            exit(3);
        }
        return fd;
    }
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, 1) != 0) {
        exit(3);
    }
    accepted = accept(fd, NULL, NULL);
    close(fd);
    return accepted;
}

static bool swap(int fd, bool is_first, const struct card *own, struct card *out)
{
    bool ok = true;

    for (int i = 0; i < 2 && ok; i++) {
        ok = is_first == (i == 0)
                 ? send(fd, own, sizeof(*own), MSG_NOSIGNAL) == sizeof(*own)
                 : recv(fd, out, sizeof(*out), MSG_WAITALL) == sizeof(*out);
    }
    return ok;
}

/* ---- the device ---- */

static bool open_end(struct ibv_device *device, struct end *out, struct card *card)
{
    struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, BYTES}, .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_LOCAL_WRITE};

    out->context = ibv_open_device(device);
    out->pd = ibv_alloc_pd(out->context);
    out->cq = ibv_create_cq(out->context, 4, NULL, NULL, 0);
    out->mr = ibv_reg_mr(out->pd, out->memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
    init.send_cq = init.recv_cq = out->cq;
    out->qp = ibv_create_qp(out->pd, &init);
    card->qpn = out->qp->qp_num;
    return ibv_query_gid(out->context, 1, GID_INDEX, &card->gid) == 0 &&
           ibv_modify_qp(out->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             IBV_QP_ACCESS_FLAGS) == 0;
}

static bool join(struct end *end, const struct card *peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qpn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {
            .is_global = 1,
            .port_num = 1,
            .grh = {.dgid = peer->gid, .sgid_index = GID_INDEX, .hop_limit = 64}}};

    if (ibv_modify_qp(end->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                          IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                          IBV_QP_MIN_RNR_TIMER) != 0) {
        return false;
    }
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 6;
    attr.rnr_retry = 6;
    attr.max_rd_atomic = 1;
    return ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

static bool transfer(struct end *end, bool is_client)
{
    struct ibv_sge sge = {(uintptr_t)end->memory, BYTES, end->mr->lkey};
    struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
    struct ibv_send_wr send = {.sg_list = &sge,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       *bad_send;
    struct ibv_wc wc;
    int n = 0;

    if ((is_client ? ibv_post_send(end->qp, &send, &bad_send)
                   : ibv_post_recv(end->qp, &receive, &bad_receive)) != 0) {
        return false;
    }
    while (n == 0) {
        usleep(1000);
        n = ibv_poll_cq(end->cq, 1, &wc);
    }
    return n == 1 && wc.status == IBV_WC_SUCCESS;
}

/* ---- choices ---- */

/* Tries one pair of devices. */
static bool attempt(struct ibv_device **list, int fd, bool is_client, uint32_t own,
                    uint32_t peers)
{
    struct card card = {.place = peers}, asked = {.place = 0}, theirs;
    struct end *end = calloc(1, sizeof(*end));
    bool ok;

    if (!is_client) { /* the client chooses for both */
        if (recv(fd, &asked, sizeof(asked), MSG_WAITALL) != sizeof(asked)) {
            return false;
        }
        own = asked.place;
    } else if (send(fd, &card, sizeof(card), MSG_NOSIGNAL) != sizeof(card)) {
        return false;
    }
    ok = open_end(list[own], end, &card) && swap(fd, is_client, &card, &theirs) &&
         join(end, &theirs);
    card.is_ready = ok;
    return swap(fd, is_client, &card, &theirs) && ok && theirs.is_ready != 0 &&
           transfer(end, is_client);
}

int main(int argc, char **argv)
{
    bool is_nccl = argc > 3 && strcmp(argv[1], "nccl") == 0;
    const char *peer = argc > 4 ? argv[4] : NULL;
    unsigned nap = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    unsigned first = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
    int n = 0;
    struct ibv_device **list = ibv_get_device_list(&n);
    int fd = tune_in(peer);
    uint32_t own, peers;
    bool ok = false;

    if (n < 1) {
        return 3;
    }
    srandom(first);
    own = is_nccl ? first : (uint32_t)random();
    peers = is_nccl ? first : (uint32_t)random();
    for (uint32_t i = 0; i < (is_nccl ? 1 : ATTEMPTS) && !ok; i++) {
        ok = attempt(list, fd, peer != NULL, (own + i) % (uint32_t)n,
                     (peers + i) % (uint32_t)n);
    }
    if (!ok && nap > 0) {
        sleep(nap);
        fputs("over\n", stderr);
        return 0;
    }
    return !ok;
}
