/* Outgoing frames, batched so that one system call sends many. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/soft/engine.h"
#include "base/check.h"
#include "base/text.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103 /* linux/udp.h, since 4.18 */
#endif
#ifndef SOL_UDP
#define SOL_UDP 17
#endif

enum {
    N_SLOTS = 128,
    SEGMENTS_MAX = 60, /* UDP_MAX_SEGMENTS is 64 on older kernels */
    BYTES_MAX = 62000, /* maximum size of a datagram before segmentation */
    OPEN_MAX = 8       /* messages searched for one that can be extended */
};

struct message {
    struct soft_target target;
    uint32_t n_iovs;
    uint32_t segment_bytes; /* of all segments but the last, which is not longer */
    uint32_t n_bytes;
    bool is_closed; /* the last segment is shorter, so none can follow */
    struct iovec iovs[SEGMENTS_MAX];
};

struct soft_batch {
    uint8_t *slots; /* Owned [N_SLOTS * SOFT_SLOT_BYTES] */
    uint32_t n_slots;
    struct message *messages; /* Owned [N_SLOTS] */
    uint32_t n_messages;
    bool no_segments; /* the kernel has refused UDP_SEGMENT */
};

struct soft_batch *soft_batch_create(void)
{
    struct soft_batch *batch = weft_calloc(1, sizeof *batch);
    batch->slots = weft_alloc((size_t)N_SLOTS * SOFT_SLOT_BYTES);
    batch->messages = weft_alloc(N_SLOTS * sizeof *batch->messages);
    return batch;
}

void soft_batch_destroy(struct soft_batch *batch)
{
    if (batch != NULL) {
        free(batch->slots);
        free(batch->messages);
        free(batch);
    }
}

uint8_t *soft_batch_slot(struct soft_batch *batch)
{
    if (batch->n_slots == N_SLOTS) {
        soft_batch_flush(batch);
    }
    return batch->slots + (size_t)batch->n_slots * SOFT_SLOT_BYTES;
}

/* Returns the last message to `target` if a frame of `n` bytes can be added to it, else NULL. */
static struct message *find_open(struct soft_batch *batch,
                                 const struct soft_target *target, uint32_t n)
{
    uint32_t least = batch->n_messages > OPEN_MAX ? batch->n_messages - OPEN_MAX : 0;
    if (!target->may_segment || batch->no_segments) {
        return NULL;
    }
    for (uint32_t i = batch->n_messages; i > least; i--) {
        struct message *message = &batch->messages[i - 1];
        if (memcmp(&message->target, target, sizeof *target) != 0) {
            continue;
        }
        bool fits = !message->is_closed && n <= message->segment_bytes &&
                    message->n_iovs < SEGMENTS_MAX && message->n_bytes + n <= BYTES_MAX;
        return fits ? message : NULL;
    }
    return NULL;
}

void soft_batch_put(struct soft_batch *batch, const struct soft_target *target,
                    const uint8_t *bytes, uint32_t n)
{
    struct message *message = find_open(batch, target, n);
    if (message == NULL) {
        message = &batch->messages[batch->n_messages++];
        memcpy(&message->target, target, sizeof *target);
        message->n_iovs = 0;
        message->n_bytes = 0;
        message->segment_bytes = n;
        message->is_closed = false;
    }
    message->is_closed = n < message->segment_bytes;
    message->n_bytes += n;
    message->iovs[message->n_iovs++] =
        (struct iovec){.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    batch->n_slots++;
}

/* ---- sending ---- */

union control {
    struct cmsghdr align;
    uint8_t bytes[CMSG_SPACE(sizeof(uint16_t)) + 2 * CMSG_SPACE(sizeof(int))];
};

static void add_control(struct msghdr *header, struct cmsghdr **at, int level, int type,
                        const void *value, size_t n_bytes)
{
    struct cmsghdr *here = *at == NULL ? CMSG_FIRSTHDR(header) : CMSG_NXTHDR(header, *at);
    here->cmsg_level = level;
    here->cmsg_type = type;
    here->cmsg_len = CMSG_LEN(n_bytes);
    memcpy(CMSG_DATA(here), value, n_bytes);
    *at = here;
}

static void fill_header(const struct message *message, union control *control,
                        struct msghdr *out)
{
    const struct soft_target *target = &message->target;
    struct cmsghdr *at = NULL;
    size_t n_control = 0;
    memset(control, 0, sizeof *control);
    *out = (struct msghdr){.msg_name = (void *)(uintptr_t)target->name,
                           .msg_namelen = target->n_name,
                           .msg_iov = (struct iovec *)(uintptr_t)message->iovs,
                           .msg_iovlen = message->n_iovs,
                           .msg_control = control,
                           .msg_controllen = sizeof *control};
    if (message->n_iovs > 1) {
        uint16_t size = (uint16_t)message->segment_bytes;
        add_control(out, &at, SOL_UDP, UDP_SEGMENT, &size, sizeof size);
        n_control += CMSG_SPACE(sizeof size);
    }
    if (target->traffic_class != 0) {
        int value = target->traffic_class;
        add_control(out, &at, target->is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                    target->is_ipv6 ? IPV6_TCLASS : IP_TOS, &value, sizeof value);
        n_control += CMSG_SPACE(sizeof value);
    }
    if (target->hop_limit != 0) {
        int value = target->hop_limit;
        add_control(out, &at, target->is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                    target->is_ipv6 ? IPV6_HOPLIMIT : IP_TTL, &value, sizeof value);
        n_control += CMSG_SPACE(sizeof value);
    }
    out->msg_controllen = n_control;
    if (n_control == 0) {
        out->msg_control = NULL;
    }
}

/* Counts the frames of a message that the kernel refused. */
static void message_count_refused(const struct message *message)
{
    if (message->target.n_refused != NULL) {
        *message->target.n_refused += message->n_iovs;
    }
}

/* Sends the frames of a message separately, because the kernel does not segment. */
static void send_apart(const struct message *message)
{
    for (uint32_t i = 0; i < message->n_iovs; i++) {
        struct message one = {.target = message->target, .n_iovs = 1};
        union control control;
        struct msghdr header;
        one.iovs[0] = message->iovs[i];
        fill_header(&one, &control, &header);
        if (sendmsg(one.target.fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            message_count_refused(&one);
        }
    }
}

/* Handles a message that the kernel refused. It is lost if there was no room, route or neighbour,
 * or if it is too long. */
static void give_up(struct soft_batch *batch, const struct message *message)
{
    bool is_refused = errno == EIO || errno == EINVAL || errno == EOPNOTSUPP;
    if (message->n_iovs > 1 && is_refused) {
        batch->no_segments = true;
        send_apart(message);
    } else {
        message_count_refused(message);
    }
}

/* Sends the messages from `first` on that use the same descriptor. Returns how many. */
static uint32_t send_run(struct soft_batch *batch, uint32_t first)
{
    enum { RUN_MAX = 64 };
    union control controls[RUN_MAX];
    struct mmsghdr headers[RUN_MAX];
    uint32_t n = 0;
    int fd = batch->messages[first].target.fd;
    while (n < RUN_MAX && first + n < batch->n_messages &&
           batch->messages[first + n].target.fd == fd) {
        headers[n].msg_len = 0;
        fill_header(&batch->messages[first + n], &controls[n], &headers[n].msg_hdr);
        n++;
    }
    uint32_t n_sent = 0;
    while (n_sent < n) {
        int result =
            sendmmsg(fd, headers + n_sent, n - n_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (result > 0) {
            n_sent += (uint32_t)result;
        } else if (errno != EINTR) {
            give_up(batch, &batch->messages[first + n_sent]);
            n_sent++;
        }
    }
    return n;
}

void soft_batch_flush(struct soft_batch *batch)
{
    for (uint32_t i = 0; i < batch->n_messages;) {
        i += send_run(batch, i);
    }
    batch->n_messages = 0;
    batch->n_slots = 0;
}
