#define _GNU_SOURCE
#include "backends/lab/netlink.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/check.h"

/* ---- building a request ---- */

static void append(struct netlink_request *request, const void *bytes, size_t n_bytes)
{
    size_t padded = NLMSG_ALIGN(n_bytes);

    weft_check(request->n + padded <= sizeof(request->bytes));
    memset(request->bytes + request->n, 0, padded);
    if (n_bytes > 0) {
        memcpy(request->bytes + request->n, bytes, n_bytes);
    }
    request->n += padded;
}

void netlink_begin(struct netlink_request *request, uint16_t type, uint16_t flags,
                   const void *body, size_t n_bytes)
{
    struct nlmsghdr header = {.nlmsg_type = type,
                              .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)};

    request->n = 0;
    request->n_nested = 0;
    append(request, &header, sizeof(header));
    append(request, body, n_bytes);
}

void netlink_put(struct netlink_request *request, uint16_t attribute, const void *bytes,
                 size_t n_bytes)
{
    struct nlattr head = {.nla_len = (uint16_t)(NETLINK_HEAD_BYTES + n_bytes),
                          .nla_type = attribute};

    append(request, &head, sizeof(head));
    append(request, bytes, n_bytes);
}

void netlink_put_u32(struct netlink_request *request, uint16_t attribute, uint32_t value)
{
    netlink_put(request, attribute, &value, sizeof(value));
}

void netlink_put_text(struct netlink_request *request, uint16_t attribute,
                      const char *text)
{
    netlink_put(request, attribute, text, strlen(text) + 1);
}

void netlink_put_body(struct netlink_request *request, const void *bytes, size_t n_bytes)
{
    append(request, bytes, n_bytes);
}

void netlink_nest(struct netlink_request *request, uint16_t attribute)
{
    struct nlattr head = {.nla_type = attribute};

    weft_check(request->n_nested < NETLINK_NESTING_MAX);
    request->nested[request->n_nested++] = request->n;
    append(request, &head, sizeof(head));
}

void netlink_unnest(struct netlink_request *request)
{
    struct nlattr head;
    size_t at;

    weft_check(request->n_nested > 0);
    at = request->nested[--request->n_nested];
    memcpy(&head, request->bytes + at, sizeof(head));
    head.nla_len = (uint16_t)(request->n - at);
    memcpy(request->bytes + at, &head, sizeof(head));
}

/* ---- exchange with the kernel ---- */

int netlink_open(int protocol, int *out_fd)
{
    struct timeval patience = {.tv_sec = 10};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd < 0) {
        return errno;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0) {
        int error = errno;

        close(fd);
        return error;
    }
    *out_fd = fd;
    return 0;
}

/* Number of the last request of this process, by which a late answer to an earlier one is
 * recognised. No request has the number 0. */
static atomic_uint last_seq;

int netlink_send(int fd, struct netlink_request *request, uint32_t *out_seq)
{
    struct nlmsghdr header;

    weft_check(request->n_nested == 0);
    do {
        *out_seq = atomic_fetch_add(&last_seq, 1) + 1;
    } while (*out_seq == 0);
    memcpy(&header, request->bytes, sizeof(header));
    header.nlmsg_len = (uint32_t)request->n;
    header.nlmsg_seq = *out_seq;
    memcpy(request->bytes, &header, sizeof(header));
    return send(fd, request->bytes, request->n, 0) < 0 ? errno : 0;
}

int netlink_receive(int fd, uint32_t seq, uint8_t *bytes, size_t n_max, size_t *out_n)
{
    struct nlmsghdr header = {.nlmsg_len = 0};
    ssize_t n;

    do {
        do {
            n = recv(fd, bytes, n_max, 0);
        } while (n < 0 && errno == EINTR);
        if (n < 0) {
            return errno == EAGAIN ? ETIMEDOUT : errno;
        }
        if ((size_t)n < NLMSG_HDRLEN) {
            return EBADMSG;
        }
        memcpy(&header, bytes, sizeof(header));
    } while (header.nlmsg_seq != seq);
    *out_n = (size_t)n;
    return 0;
}

/* Returns the errno of an acknowledgement (0 for success), or EAGAIN if the datagram is not
 * one. */
static int acknowledgement(const uint8_t *bytes, size_t n)
{
    struct nlmsghdr header;
    int error;

    if (n < NLMSG_HDRLEN + sizeof(error)) {
        return EBADMSG;
    }
    memcpy(&header, bytes, sizeof(header));
    if (header.nlmsg_type != NLMSG_ERROR) {
        return EAGAIN;
    }
    memcpy(&error, bytes + NLMSG_HDRLEN, sizeof(error));
    return -error;
}

int netlink_call(int fd, struct netlink_request *request)
{
    _Alignas(8) uint8_t answer[8192];
    struct nlmsghdr header;
    uint32_t seq;
    size_t n = 0;
    int error;

    memcpy(&header, request->bytes, sizeof(header));
    header.nlmsg_flags |= NLM_F_ACK;
    memcpy(request->bytes, &header, sizeof(header));
    error = netlink_send(fd, request, &seq);
    while (error == 0) {
        error = netlink_receive(fd, seq, answer, sizeof(answer), &n);
        if (error == 0) {
            error = acknowledgement(answer, n);
            if (error != EAGAIN) {
                return error;
            }
            error = 0;
        }
    }
    return error;
}

/* ---- queries of one link ---- */

/* Reads the struct ifinfomsg of a link, and the attribute `wanted` (0: none). */
static int query_link(int fd, const char *name, struct ifinfomsg *out_link,
                      uint16_t wanted, void *out_value, size_t n_bytes)
{
    _Alignas(8) uint8_t answer[16384];
    struct netlink_request request;
    struct nlmsghdr header;
    uint32_t seq;
    size_t n = 0;
    int error;

    netlink_begin(&request, RTM_GETLINK, 0, &(struct ifinfomsg){.ifi_family = AF_UNSPEC},
                  sizeof(struct ifinfomsg));
    netlink_put_text(&request, IFLA_IFNAME, name);
    error = netlink_send(fd, &request, &seq);
    if (error == 0) {
        error = netlink_receive(fd, seq, answer, sizeof(answer), &n);
    }
    if (error != 0) {
        return error;
    }
    error = acknowledgement(answer, n);
    if (error != EAGAIN) {
        return error != 0 ? error : EBADMSG;
    }
    memcpy(&header, answer, sizeof(header));
    if (n < NLMSG_SPACE(sizeof(*out_link)) || header.nlmsg_type != RTM_NEWLINK) {
        return EBADMSG;
    }
    memcpy(out_link, answer + NLMSG_HDRLEN, sizeof(*out_link));
    for (size_t at = NLMSG_SPACE(sizeof(*out_link)); at + NETLINK_HEAD_BYTES <= n;) {
        struct nlattr head;

        memcpy(&head, answer + at, sizeof(head));
        if (head.nla_len < NETLINK_HEAD_BYTES || at + head.nla_len > n) {
            break;
        }
        if (wanted != 0 && head.nla_type == wanted &&
            head.nla_len >= NETLINK_HEAD_BYTES + n_bytes) {
            memcpy(out_value, answer + at + NETLINK_HEAD_BYTES, n_bytes);
        }
        at += NLMSG_ALIGN((size_t)head.nla_len);
    }
    return 0;
}

uint32_t netlink_ifindex(int fd, const char *name)
{
    struct ifinfomsg link = {0};

    return query_link(fd, name, &link, 0, NULL, 0) == 0 ? (uint32_t)link.ifi_index : 0;
}

int netlink_counters(int fd, const char *name, struct netlink_counters *out)
{
    struct rtnl_link_stats64 stats = {0};
    struct ifinfomsg link = {0};
    /* Older kernels have fewer fields, but always those up to tx_dropped. */
    int error = query_link(fd, name, &link, IFLA_STATS64, &stats,
                           offsetof(struct rtnl_link_stats64, multicast));

    *out = (struct netlink_counters){.tx_packets = stats.tx_packets,
                                     .tx_bytes = stats.tx_bytes,
                                     .tx_dropped = stats.tx_dropped,
                                     .rx_dropped = stats.rx_dropped};
    return error;
}
