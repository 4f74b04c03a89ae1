/* The reference plugin's first part: what it keeps, its devices, and how connections come about. */
#ifndef REFERENCE_SETUP_H
#define REFERENCE_SETUP_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "plugin/nccl_abi.h"

#define GROUPS 32
#define GROUP_MAX 8
#define REQUESTS (GROUPS * GROUP_MAX)
#define DEVICES 2

/* Receiver to sender: a posted group. */
struct grant {
    uint32_t n;
    int32_t tags[GROUP_MAX];
    uint64_t sizes[GROUP_MAX];
};
/* Sender to receiver, then the bytes. */
struct header {
    uint32_t group, index;
    uint64_t size;
};

struct comm;

struct request {
    bool is_used, is_done, is_flush;
    struct comm *comm;
    int n, n_in; /* receiver: buffers, and those that are full */
    void *data[GROUP_MAX];
    size_t posted[GROUP_MAX], size[GROUP_MAX];
    struct header header; /* sender */
    size_t written;
    struct request *next; /* sender: in the queue */
};

struct group {
    struct grant grant;
    bool is_matched[GROUP_MAX];
    uint32_t n_matched;
};

struct comm {
    int fd;
    bool is_sender;
    pthread_mutex_t lock;
    pthread_t maker;
    struct request requests[REQUESTS];
    /* sender: groups as granted; receiver: requests by group */
    struct group groups[GROUPS];
    struct request *receives[GROUPS];
    uint32_t first, last; /* groups first..last-1 are open */
    struct request *queue, *queue_end;
    struct grant grants[GROUPS]; /* receiver: not yet written */
    uint32_t grants_out;
    size_t grant_written;
    size_t n_read; /* of what comes: header, then data; or grant */
    struct header header;
    struct grant incoming;
};

struct listener {
    int fd, pending;
    uint64_t cookie, seen;
    size_t n_seen;
};

/* In the 128 bytes; the rest of the state is the connector's own, kept where NCCL lets it. */
struct handle {
    uint64_t cookie;
    uint16_t port;
    int32_t stage; /* 0: not begun */
    int32_t fd;
    uint32_t written;
};

static abi_logger log_to;

static abi_status ref_init(void **context, uint64_t id, struct abi_config *config,
                           abi_logger logger, abi_profiler profiler)
{
    (void)id, (void)config, (void)profiler;
    log_to = logger;
    *context = malloc(1);
    return ABI_SUCCESS;
}

static abi_status ref_finalize(void *context)
{
    free(context);
    return ABI_SUCCESS;
}

static abi_status ref_devices(int *n)
{
    *n = DEVICES;
    return ABI_SUCCESS;
}

static abi_status ref_properties(int device, struct abi_properties_v12 *out)
{
    static char *names[DEVICES] = {"lo0", "lo1"};

    memset(out, 0, sizeof(*out));
    out->name = names[device];
    out->guid = 0x100 + (uint64_t)device;
    out->ptr_support = ABI_PTR_HOST;
    out->speed = 10000;
    out->port = 1;
    out->max_comms = 65536;
    out->max_recvs = GROUP_MAX;
    out->vdevice.n_devices = 1;
    out->vdevice.devices[0] = device;
    out->max_p2p_bytes = out->max_coll_bytes = UINT64_C(1) << 30;
    out->max_multi_request_size = 1;
    out->rail_id = out->plane_id = ABI_UNDEFINED;
    return ABI_SUCCESS;
}

/* ---- connections ---- */

static int new_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static abi_status ref_listen(void *context, int device, void *memory, void **out)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    struct listener *listener = calloc(1, sizeof(*listener));
    struct handle handle = {0};
    static _Atomic uint64_t cookies;

    (void)context, (void)device;
    listener->fd = new_socket();
    listener->pending = -1;
    if (bind(listener->fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
        listen(listener->fd, 16) != 0 ||
        getsockname(listener->fd, (struct sockaddr *)&at, &n) != 0) {
        close(listener->fd);
        free(listener);
        return ABI_SYSTEM_ERROR;
    }
    listener->cookie = ((uint64_t)getpid() << 32) + ++cookies;
    handle.cookie = listener->cookie;
    handle.port = ntohs(at.sin_port);
    memset(memory, 0, ABI_HANDLE_BYTES);
    memcpy(memory, &handle, sizeof(handle));
    *out = listener;
    return ABI_SUCCESS;
}

static struct comm *new_comm(int fd, bool is_sender)
{
    struct comm *comm = calloc(1, sizeof(*comm));
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    pthread_mutex_init(&comm->lock, NULL);
    comm->fd = fd;
    comm->is_sender = is_sender;
    comm->maker = pthread_self();
    return comm;
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS ||
           errno == EALREADY || errno == ENOTCONN || errno == EINTR;
}

static abi_status ref_connect(void *context, int device, void *memory, void **out,
                              struct abi_device_handle **offload)
{
    struct handle handle;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    abi_status status = ABI_SUCCESS;
    char answer;
    ssize_t n;

    (void)context, (void)device, (void)offload;
    *out = NULL;
    memcpy(&handle, memory, sizeof(handle));
    if (handle.stage == 0) {
        handle.fd = new_socket();
        handle.stage = 1;
        to.sin_port = htons(handle.port);
        if (connect(handle.fd, (struct sockaddr *)&to, sizeof(to)) != 0 &&
            !would_block()) {
            status = ABI_REMOTE_ERROR;
        }
    } else if (handle.stage == 1) {
        n = send(handle.fd, (char *)&handle.cookie + handle.written,
                 sizeof(handle.cookie) - handle.written, MSG_NOSIGNAL);
        if (n > 0) {
            handle.written += (uint32_t)n;
            handle.stage = handle.written == sizeof(handle.cookie) ? 2 : 1;
        } else if (!would_block()) {
            status = ABI_REMOTE_ERROR;
        }
    } else {
        n = recv(handle.fd, &answer, 1, 0);
        if (n == 1) {
            *out = new_comm(handle.fd, true);
        } else if (n == 0 || !would_block()) {
            status = ABI_REMOTE_ERROR;
        }
    }
    if (status != ABI_SUCCESS) {
        close(handle.fd);
    }
    memcpy(memory, &handle, sizeof(handle));
    return status;
}

static abi_status ref_accept(void *opaque, void **out, struct abi_device_handle **offload)
{
    struct listener *listener = opaque;
    ssize_t n;

    (void)offload;
    *out = NULL;
    if (listener->pending < 0) {
        listener->pending =
            accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        listener->n_seen = 0;
    }
    if (listener->pending < 0) {
        return ABI_SUCCESS;
    }
    n = recv(listener->pending, (char *)&listener->seen + listener->n_seen,
             sizeof(listener->seen) - listener->n_seen, 0);
    listener->n_seen += n > 0 ? (size_t)n : 0;
    if (n == 0 || (n < 0 && !would_block()) ||
        (listener->n_seen == sizeof(listener->seen) &&
         listener->seen != listener->cookie)) {
        close(listener->pending); /* a stranger */
        listener->pending = -1;
    } else if (listener->n_seen == sizeof(listener->seen) &&
               send(listener->pending, "k", 1, MSG_NOSIGNAL) == 1) {
        *out = new_comm(listener->pending, false);
        listener->pending = -1;
    }
    return ABI_SUCCESS;
}

static abi_status ref_close_listen(void *opaque)
{
    struct listener *listener = opaque;

    if (listener->pending >= 0) {
        close(listener->pending);
    }
    close(listener->fd);
    free(listener);
    return ABI_SUCCESS;
}

static abi_status ref_close(void *opaque)
{
    struct comm *comm = opaque;

    close(comm->fd);
    pthread_mutex_destroy(&comm->lock);
    free(comm);
    return ABI_SUCCESS;
}

static abi_status ref_reg_mr(void *comm, void *data, size_t size, int type,
                             void **mhandle)
{
    (void)comm, (void)size;
    if (type != ABI_PTR_HOST) {
        return ABI_INVALID_USAGE;
    }
    *mhandle = data;
    return ABI_SUCCESS;
}

static abi_status ref_reg_mr_dmabuf(void *comm, void *data, size_t size, int type,
                                    uint64_t offset, int fd, void **mhandle)
{
    (void)comm, (void)data, (void)size, (void)type, (void)offset, (void)fd, (void)mhandle;
    return ABI_INVALID_USAGE;
}

static abi_status ref_dereg_mr(void *comm, void *mhandle)
{
    (void)comm, (void)mhandle;
    return ABI_SUCCESS;
}

#endif
