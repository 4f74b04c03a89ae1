/* A net plugin that keeps the contract, over TCP on the loopback: what `weft plugin-check` is
 * tried on. Nothing for use. The plugins of ci/bad-plugins include it and break one thing each. */
#define _GNU_SOURCE
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

/* ---- set-up ---- */

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
        if (connect(handle.fd, (struct sockaddr *)&to, sizeof(to)) != 0 && !would_block()) {
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

static abi_status ref_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
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

/* ---- data ---- */

/* Moves up to n - *done bytes; -1: the connection failed, 0: not all yet, 1: all. */
static int pump(int fd, bool out, void *bytes, size_t n, size_t *done)
{
    while (*done < n) {
        ssize_t moved = out ? send(fd, (char *)bytes + *done, n - *done, MSG_NOSIGNAL)
                            : recv(fd, (char *)bytes + *done, n - *done, 0);

        if (moved == 0 || (moved < 0 && !would_block())) {
            return -1;
        }
        if (moved < 0) {
            return 0;
        }
        *done += (size_t)moved;
    }
    return 1;
}

static int progress_sender(struct comm *comm)
{
    int result = 1;

    while (result == 1 && comm->last - comm->first < GROUPS) {
        result = pump(comm->fd, false, &comm->incoming, sizeof(comm->incoming),
                      &comm->n_read);
        if (result == 1) {
            comm->groups[comm->last++ % GROUPS] = (struct group){.grant = comm->incoming};
            comm->n_read = 0;
        }
    }
    while (result >= 0 && comm->queue != NULL) {
        struct request *request = comm->queue;
        size_t head = sizeof(request->header), at;

        result = 1;
        if (request->written < head) {
            result = pump(comm->fd, true, &request->header, head, &request->written);
        }
        if (result == 1) {
            at = request->written - head;
            result = pump(comm->fd, true, request->data[0], request->size[0], &at);
            request->written = head + at;
        }
        if (result != 1) {
            break;
        }
        request->is_done = true;
        comm->queue = request->next;
    }
    return result;
}

static int progress_receiver(struct comm *comm)
{
    size_t head = sizeof(comm->header);
    int result = 1;

    while (result == 1 && comm->grants_out != comm->last) {
        result = pump(comm->fd, true, &comm->grants[comm->grants_out % GROUPS],
                      sizeof(struct grant), &comm->grant_written);
        if (result == 1) {
            comm->grant_written = 0;
            comm->grants_out++;
        }
    }
    while (result >= 0) {
        struct request *request;
        size_t at;

        result = 1;
        if (comm->n_read < head) {
            result = pump(comm->fd, false, &comm->header, head, &comm->n_read);
        }
        if (result != 1) {
            break;
        }
        request = comm->receives[comm->header.group % GROUPS];
        at = comm->n_read - head;
        result = pump(comm->fd, false, request->data[comm->header.index],
                      comm->header.size, &at);
        comm->n_read = head + at;
        if (result == 1) {
            request->size[comm->header.index] = comm->header.size;
            request->is_done = ++request->n_in == request->n;
            comm->n_read = 0;
        }
    }
    return result;
}

static abi_status progress(struct comm *comm)
{
    int result = comm->is_sender ? progress_sender(comm) : progress_receiver(comm);

    return result < 0 ? ABI_REMOTE_ERROR : ABI_SUCCESS;
}

static struct request *take_request(struct comm *comm)
{
    for (int i = 0; i < REQUESTS; i++) {
        if (!comm->requests[i].is_used) {
            comm->requests[i] = (struct request){.is_used = true, .comm = comm};
            return &comm->requests[i];
        }
    }
    return NULL;
}

static abi_status ref_isend(void *opaque, void *data, size_t size, int tag, void *mhandle,
                            void *event, void **out)
{
    struct comm *comm = opaque;
    struct request *request;
    abi_status status;

    (void)mhandle, (void)event;
    *out = NULL;
    pthread_mutex_lock(&comm->lock);
    status = progress(comm);
    if (status == ABI_SUCCESS && comm->first != comm->last) {
        struct group *group = &comm->groups[comm->first % GROUPS];

        for (uint32_t i = 0; i < group->grant.n; i++) {
            if (group->is_matched[i] || group->grant.tags[i] != tag ||
                (request = take_request(comm)) == NULL) {
                continue;
            }
            group->is_matched[i] = true;
            request->data[0] = data;
            request->n = 1;
            request->size[0] = size < group->grant.sizes[i] ? size : group->grant.sizes[i];
            request->header = (struct header){comm->first, i, request->size[0]};
            if (comm->queue == NULL) {
                comm->queue = request;
            } else {
                comm->queue_end->next = request;
            }
            comm->queue_end = request;
            *out = request;
            if (++group->n_matched == group->grant.n) {
                comm->first++;
            }
            break;
        }
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}

static abi_status ref_irecv(void *opaque, int n, void **data, size_t *sizes, int *tags,
                            void **mhandles, void **events, void **out)
{
    struct comm *comm = opaque;
    struct request *request = NULL;

    (void)mhandles, (void)events;
    *out = NULL;
    pthread_mutex_lock(&comm->lock);
    while (comm->first != comm->last && comm->receives[comm->first % GROUPS] == NULL) {
        comm->first++;
    }
    if (comm->last - comm->first < GROUPS) {
        request = take_request(comm);
    }
    if (request != NULL) {
        struct grant *grant = &comm->grants[comm->last % GROUPS];

        memset(grant, 0, sizeof(*grant));
        grant->n = (uint32_t)n;
        request->n = n;
        for (int i = 0; i < n; i++) {
            grant->tags[i] = tags[i];
            grant->sizes[i] = sizes[i];
            request->data[i] = data[i];
            request->posted[i] = sizes[i];
        }
        comm->receives[comm->last++ % GROUPS] = request;
        *out = request;
    }
    pthread_mutex_unlock(&comm->lock);
    return ABI_SUCCESS;
}

static abi_status ref_iflush(void *opaque, int n, void **data, int *sizes, void **mhandles,
                             void **out)
{
    struct comm *comm = opaque;
    struct request *request;

    (void)n, (void)data, (void)sizes, (void)mhandles;
    pthread_mutex_lock(&comm->lock);
    request = take_request(comm);
    if (request != NULL) {
        request->is_done = request->is_flush = true;
    }
    pthread_mutex_unlock(&comm->lock);
    *out = request;
    return ABI_SUCCESS;
}

static abi_status ref_test(void *opaque, int *done, int *sizes)
{
    struct request *request = opaque;
    struct comm *comm = request->comm;
    abi_status status;

    *done = 0;
    pthread_mutex_lock(&comm->lock);
    status = progress(comm);
    if (request->is_done) {
        for (int i = 0; i < request->n && sizes != NULL; i++) {
            sizes[i] = (int)request->size[i];
        }
        for (uint32_t g = 0; g < GROUPS && !comm->is_sender && !request->is_flush; g++) {
            if (comm->receives[g] == request) {
                comm->receives[g] = NULL;
            }
        }
        request->is_used = false;
        *done = 1;
        status = ABI_SUCCESS;
    }
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* ---- tables ---- */

#define COPY(to, from)                                                                   \
    ((to)->name = (from)->name, (to)->pci_path = (from)->pci_path,                       \
     (to)->guid = (from)->guid, (to)->ptr_support = (from)->ptr_support,                 \
     (to)->reg_is_global = (from)->reg_is_global, (to)->speed = (from)->speed,           \
     (to)->port = (from)->port, (to)->latency = (from)->latency,                         \
     (to)->max_comms = (from)->max_comms, (to)->max_recvs = (from)->max_recvs,           \
     (to)->net_device_type = (from)->net_device_type,                                    \
     (to)->net_device_version = (from)->net_device_version)

__attribute__((unused)) static abi_status ref_properties_v11(int device,
                                                             struct abi_properties_v11 *out)
{
    struct abi_properties_v12 all;

    memset(out, 0, sizeof(*out));
    ref_properties(device, &all);
    COPY(out, &all);
    out->vdevice.n_devices = 1;
    out->vdevice.devices[0] = device;
    out->max_p2p_bytes = out->max_coll_bytes = all.max_p2p_bytes;
    out->max_multi_request_size = 1;
    return ABI_SUCCESS;
}

#define REST                                                                             \
    .accept = ref_accept, .reg_mr = ref_reg_mr, .reg_mr_dmabuf = ref_reg_mr_dmabuf,      \
    .dereg_mr = ref_dereg_mr, .iflush = ref_iflush, .test = ref_test,                    \
    .close_send = ref_close, .close_recv = ref_close, .close_listen = ref_close_listen,  \
    .devices = ref_devices, .name = "Reference"

__attribute__((unused)) static const struct abi_net_v11 reference_v11 = {
    REST,
    .init = ref_init,
    .get_properties = ref_properties_v11,
    .listen = ref_listen,
    .connect = ref_connect,
    .isend = ref_isend,
    .irecv = ref_irecv,
    .finalize = ref_finalize};

#ifndef BAD_PLUGIN

static abi_status init_v10(abi_logger logger, abi_profiler profiler)
{
    (void)profiler;
    log_to = logger;
    return ABI_SUCCESS;
}

static abi_status init_v9(abi_logger logger)
{
    return init_v10(logger, NULL);
}

static abi_status properties_v9(int device, struct abi_properties_v9 *out)
{
    struct abi_properties_v12 all;

    memset(out, 0, sizeof(*out));
    ref_properties(device, &all);
    COPY(out, &all);
    out->max_p2p_bytes = out->max_coll_bytes = all.max_p2p_bytes;
    return ABI_SUCCESS;
}

static abi_status properties_v8(int device, struct abi_properties_v8 *out)
{
    struct abi_properties_v12 all;

    memset(out, 0, sizeof(*out));
    ref_properties(device, &all);
    COPY(out, &all);
    return ABI_SUCCESS;
}

static abi_status listen_v10(int device, void *handle, void **out)
{
    return ref_listen(NULL, device, handle, out);
}

static abi_status connect_v10(int device, struct abi_config *config, void *handle,
                              void **out, struct abi_device_handle **offload)
{
    (void)config;
    return ref_connect(NULL, device, handle, out, offload);
}

static abi_status connect_v9(int device, void *handle, void **out,
                             struct abi_device_handle **offload)
{
    return ref_connect(NULL, device, handle, out, offload);
}

static abi_status isend_v9(void *comm, void *data, size_t size, int tag, void *mhandle,
                           void **out)
{
    return ref_isend(comm, data, size, tag, mhandle, NULL, out);
}

static abi_status isend_v8(void *comm, void *data, int size, int tag, void *mhandle,
                           void **out)
{
    return ref_isend(comm, data, (size_t)size, tag, mhandle, NULL, out);
}

static abi_status irecv_v9(void *comm, int n, void **data, size_t *sizes, int *tags,
                           void **mhandles, void **out)
{
    return ref_irecv(comm, n, data, sizes, tags, mhandles, NULL, out);
}

static abi_status irecv_v8(void *comm, int n, void **data, int *sizes, int *tags,
                           void **mhandles, void **out)
{
    size_t wide[GROUP_MAX];

    for (int i = 0; i < n; i++) {
        wide[i] = (size_t)sizes[i];
    }
    return ref_irecv(comm, n, data, wide, tags, mhandles, NULL, out);
}

const struct abi_net_v8 ncclNetPlugin_v8 = {
    REST,
    .init = init_v9,
    .get_properties = properties_v8,
    .listen = listen_v10,
    .connect = connect_v9,
    .isend = isend_v8,
    .irecv = irecv_v8};
const struct abi_net_v9 ncclNetPlugin_v9 = {
    REST,
    .init = init_v9,
    .get_properties = properties_v9,
    .listen = listen_v10,
    .connect = connect_v9,
    .isend = isend_v9,
    .irecv = irecv_v9};
const struct abi_net_v10 ncclNetPlugin_v10 = {
    REST,
    .init = init_v10,
    .get_properties = properties_v9,
    .listen = listen_v10,
    .connect = connect_v10,
    .isend = ref_isend,
    .irecv = ref_irecv};
const struct abi_net_v11 ncclNetPlugin_v11 = {
    REST,
    .init = ref_init,
    .get_properties = ref_properties_v11,
    .listen = ref_listen,
    .connect = ref_connect,
    .isend = ref_isend,
    .irecv = ref_irecv,
    .finalize = ref_finalize};
const struct abi_net_v12 ncclNetPlugin_v12 = {
    REST,
    .init = ref_init,
    .get_properties = ref_properties,
    .listen = ref_listen,
    .connect = ref_connect,
    .isend = ref_isend,
    .irecv = ref_irecv,
    .finalize = ref_finalize};

#else

/* A copy of the table for a plugin to spoil, in a function that follows. */
#define SPOIL(net)                                                                       \
    struct abi_net_v11 ncclNetPlugin_v11;                                                \
    static void spoil_it(struct abi_net_v11 *net);                                       \
    __attribute__((constructor)) static void spoil(void)                                 \
    {                                                                                    \
        ncclNetPlugin_v11 = reference_v11;                                               \
        spoil_it(&ncclNetPlugin_v11);                                                    \
    }                                                                                    \
    static void spoil_it(struct abi_net_v11 *net)

#endif
