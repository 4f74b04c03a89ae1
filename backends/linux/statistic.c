/* Reads counters of a port through RDMA netlink (rdma-statistic(8)). The kernel shows the files of
 * hw_counters only in its first network namespace, but answers these requests in every namespace
 * that can use the device (stat_get_doit_default_counter, drivers/infiniband/core/nldev.c). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/gen_stats.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "backends/linux/statistic.h"
#include "io/hostinfo.h"

#define ANSWER_BYTES LINUX_STATISTICS_BYTES
#define HEAD_BYTES sizeof(struct nlattr)
#define TYPE_MASK ((uint16_t)0x3fff) /* without NLA_F_NESTED and NLA_F_NET_BYTEORDER */

/* ---- decoding ---- */

/* Attributes that are not read yet. */
struct attributes {
    const uint8_t *bytes; /* Not owned */
    size_t n;
};

/* Takes the next attribute. Returns false if there is none, or it is cut. */
static bool next_attribute(struct attributes *left, uint16_t *out_type,
                           struct attributes *out_value)
{
    struct nlattr head;
    size_t step;

    if (left->n < HEAD_BYTES) {
        return false;
    }
    memcpy(&head, left->bytes, sizeof(head));
    if (head.nla_len < HEAD_BYTES || head.nla_len > left->n) {
        return false;
    }
    *out_type = head.nla_type & TYPE_MASK;
    *out_value = (struct attributes){left->bytes + HEAD_BYTES, head.nla_len - HEAD_BYTES};
    step = NLMSG_ALIGN((size_t)head.nla_len);
    step = step < left->n ? step : left->n;
    left->bytes += step;
    left->n -= step;
    return true;
}

static bool find_attribute(struct attributes in, uint16_t type, struct attributes *out)
{
    uint16_t got;

    while (next_attribute(&in, &got, out)) {
        if (got == type) {
            return true;
        }
    }
    return false;
}

static bool is_text(const struct attributes *value, const char *text)
{
    size_t n = strlen(text) + 1;

    return value->n == n && memcmp(value->bytes, text, n) == 0;
}

static int64_t number_of(const struct attributes *value)
{
    uint64_t number;

    if (value->n != sizeof(number)) {
        return IO_UNKNOWN;
    }
    memcpy(&number, value->bytes, sizeof(number));
    return number > INT64_MAX ? IO_UNKNOWN : (int64_t)number;
}

/* Returns the attributes of the first message, or none if it is not of `type`. */
static struct attributes attributes_of(const uint8_t *message, size_t n, uint16_t type)
{
    struct nlmsghdr header;

    if (n < NLMSG_HDRLEN) {
        return (struct attributes){message, 0};
    }
    memcpy(&header, message, sizeof(header));
    if (header.nlmsg_type != type || header.nlmsg_len < NLMSG_HDRLEN ||
        header.nlmsg_len > n) {
        return (struct attributes){message, 0};
    }
    return (struct attributes){message + NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN};
}

int64_t linux_statistic_in(const struct linux_statistics *in, const char *name)
{
    struct attributes entries, entry, value;
    uint16_t type;

    if (!find_attribute(attributes_of(in->bytes, in->n, LINUX_STATISTICS_TYPE),
                        RDMA_NLDEV_ATTR_STAT_HWCOUNTERS, &entries)) {
        return IO_UNKNOWN;
    }
    while (next_attribute(&entries, &type, &entry)) {
        if (find_attribute(entry, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, &value) &&
            is_text(&value, name) &&
            find_attribute(entry, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, &value)) {
            return number_of(&value);
        }
    }
    return IO_UNKNOWN;
}

int64_t linux_qdisc_drops_in(const uint8_t *message, size_t n, uint32_t ifindex)
{
    struct attributes left = attributes_of(message, n, RTM_NEWQDISC), stats, queue;
    struct gnet_stats_queue counters;
    struct tcmsg head;

    if (left.n < sizeof(head)) {
        return IO_UNKNOWN;
    }
    memcpy(&head, left.bytes, sizeof(head));
    left.bytes += sizeof(head);
    left.n -= sizeof(head);
    if ((uint32_t)head.tcm_ifindex != ifindex || head.tcm_parent != TC_H_ROOT ||
        !find_attribute(left, TCA_STATS2, &stats) ||
        !find_attribute(stats, TCA_STATS_QUEUE, &queue) || queue.n < sizeof(counters)) {
        return IO_UNKNOWN;
    }
    memcpy(&counters, queue.bytes, sizeof(counters));
    return counters.drops;
}

/* ---- asking the kernel ---- */

struct request {
    struct nlmsghdr header;
    struct nlattr device_head;
    uint32_t device;
    struct nlattr port_head;
    uint32_t port;
};

/* Opens a socket that never waits for long: the kernel answers while the request is sent. */
static int open_socket(int protocol)
{
    const struct timeval patience = {.tv_sec = 1};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    }
    return fd;
}

static ssize_t receive(int fd, uint8_t *bytes)
{
    ssize_t n;

    do {
        n = recv(fd, bytes, ANSWER_BYTES, 0);
    } while (n < 0 && errno == EINTR);
    return n;
}

/* Steps over one message of an answer. Returns false at the end of the kernel's list. */
static bool next_message(const uint8_t *answer, size_t *at)
{
    struct nlmsghdr header;

    memcpy(&header, answer + *at, sizeof(header));
    *at += NLMSG_ALIGN((size_t)header.nlmsg_len);
    return header.nlmsg_type != NLMSG_DONE && header.nlmsg_type != NLMSG_ERROR &&
           header.nlmsg_len != 0;
}

/* Reads the kernel's number of a device. Returns false if there is none of this name. */
static bool find_device(int fd, const char *name, uint32_t *out)
{
    static const uint16_t type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET);
    const struct nlmsghdr all = {.nlmsg_len = NLMSG_HDRLEN,
                                 .nlmsg_type = type,
                                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP};
    _Alignas(8) uint8_t answer[ANSWER_BYTES];
    bool is_found = false, is_over = send(fd, &all, sizeof(all), 0) < 0;

    while (!is_over) {
        ssize_t n = receive(fd, answer);
        size_t at = 0;

        is_over = n <= 0;
        while (!is_over && at + NLMSG_HDRLEN <= (size_t)n) {
            struct attributes left = attributes_of(answer + at, (size_t)n - at, type);
            struct attributes value;

            is_over = !next_message(answer, &at);
            if (find_attribute(left, RDMA_NLDEV_ATTR_DEV_NAME, &value) &&
                is_text(&value, name) &&
                find_attribute(left, RDMA_NLDEV_ATTR_DEV_INDEX, &value) &&
                value.n == sizeof(*out)) {
                memcpy(out, value.bytes, sizeof(*out));
                is_found = true;
            }
        }
    }
    return is_found;
}

bool linux_statistics_read(const char *device, uint8_t port, struct linux_statistics *out)
{
    struct request request = {
        .header = {.nlmsg_len = sizeof(request),
                   .nlmsg_type = LINUX_STATISTICS_TYPE,
                   .nlmsg_flags = NLM_F_REQUEST},
        .device_head = {HEAD_BYTES + sizeof(uint32_t), RDMA_NLDEV_ATTR_DEV_INDEX},
        .port_head = {HEAD_BYTES + sizeof(uint32_t), RDMA_NLDEV_ATTR_PORT_INDEX},
        .port = port};
    int fd = open_socket(NETLINK_RDMA);
    ssize_t n = 0;

    if (fd < 0) {
        return false; /* this kernel has no RDMA */
    }
    if (find_device(fd, device, &request.device) &&
        send(fd, &request, sizeof(request), 0) == sizeof(request)) {
        n = receive(fd, out->bytes);
    }
    close(fd);
    out->n = n > 0 ? (size_t)n : 0;
    return attributes_of(out->bytes, out->n, LINUX_STATISTICS_TYPE).n > 0;
}

int64_t linux_qdisc_drops(const char *netdev)
{
    uint32_t ifindex = if_nametoindex(netdev);
    struct {
        struct nlmsghdr header;
        struct tcmsg body;
    } request = {.header = {.nlmsg_len = sizeof(request),
                            .nlmsg_type = RTM_GETQDISC,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                 .body = {.tcm_ifindex = (int)ifindex}};
    _Alignas(8) uint8_t answer[ANSWER_BYTES];
    int fd = ifindex != 0 ? open_socket(NETLINK_ROUTE) : -1;
    bool is_over = fd < 0 || send(fd, &request, sizeof(request), 0) < 0;
    int64_t drops = is_over ? IO_UNKNOWN : 0;

    while (!is_over) {
        ssize_t n = receive(fd, answer);
        size_t at = 0;

        is_over = n <= 0;
        drops = is_over ? IO_UNKNOWN : drops;
        while (!is_over && at + NLMSG_HDRLEN <= (size_t)n) {
            int64_t of_this = linux_qdisc_drops_in(answer + at, (size_t)n - at, ifindex);

            drops = of_this != IO_UNKNOWN ? of_this : drops;
            is_over = !next_message(answer, &at);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return drops;
}
