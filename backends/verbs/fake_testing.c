#define _GNU_SOURCE
#include "backends/verbs/fake_testing.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

struct fake fake;

static struct ibv_device handles[FAKE_DEVICES_MAX];
static atomic_int n_live;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_stalled;
static struct fake_cq *live_cqs; /* guarded by `lock` */
static uint64_t n_cqs;           /* total, guarded by `lock` */

struct fake_context {
    struct ibv_context ibv;
    struct fake_device *device;
    int async_write_fd;
};

struct fake_channel {
    struct ibv_comp_channel ibv;
    int write_fd;
};

struct fake_cq {
    struct ibv_cq ibv;
    struct fake_cq *next; /* in live_cqs */
    uint64_t number;      /* content of its events */
    atomic_bool is_armed;
    int n_completions;
    uint64_t n_polled;
    atomic_int n_qps;
    unsigned n_unacked; /* events; guarded by `lock` */
};

/* ---- stalling ---- */

void fake_stall(void)
{
    pthread_mutex_lock(&lock);
    is_stalled = true;
    pthread_mutex_unlock(&lock);
}

void fake_go_on(void)
{
    pthread_mutex_lock(&lock);
    is_stalled = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void maybe_stall(void)
{
    pthread_mutex_lock(&lock);
    while (is_stalled) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- devices ---- */

static struct fake_device *device_of(struct ibv_context *context)
{
    return ((struct fake_context *)(void *)context)->device;
}

static struct ibv_device **get_device_list(int *out_n)
{
    if (fake.n_devices < 0) {
        errno = ENOSYS;
        return NULL;
    }
    struct ibv_device **list = weft_calloc(FAKE_DEVICES_MAX + 1, sizeof *list);
    for (int i = 0; i < fake.n_devices; i++) {
        list[i] = &handles[i];
    }
    *out_n = fake.n_devices;
    return list;
}

static void free_device_list(struct ibv_device **list)
{
    free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
    return fake.devices[device - handles].name;
}

static __be64 get_device_guid(struct ibv_device *device)
{
    return htobe64(fake.devices[device - handles].guid);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    (void)qp;
    *bad = wr;
    return ENOMEM;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    if (fake.takes_receives) {
        return 0;
    }
    *bad = wr;
    errno = EINVAL;
    return -1;
}

static int poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc)
{
    struct fake_cq *self = (struct fake_cq *)(void *)cq;
    int n = 0;
    if (fake.poll_cq_fails) {
        return -1;
    }
    for (; n < n_max && self->n_completions > 0; n++) {
        self->n_completions--;
        wc[n] = (struct ibv_wc){.wr_id = FAKE_FIRST_WR + self->n_polled++};
    }
    return n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
    struct fake_cq *self = (struct fake_cq *)(void *)cq;
    (void)solicited_only;
    fake.n_arms++;
    if (fake.arming_result != 0) {
        return fake.arming_result;
    }
    self->n_completions += fake.completes_before_arming;
    atomic_store(&self->is_armed, true);
    return 0;
}

static struct ibv_context *open_device(struct ibv_device *handle)
{
    struct fake_device *device = &fake.devices[handle - handles];
    int fds[2];
    if (device->cannot_open) {
        errno = EPERM;
        return NULL;
    }
    weft_check(pipe(fds) == 0);
    struct fake_context *context = weft_calloc(1, sizeof *context);
    context->device = device;
    context->ibv.async_fd = fds[0];
    context->async_write_fd = fds[1];
    context->ibv.ops.post_send = post_send;
    context->ibv.ops.post_recv = post_recv;
    context->ibv.ops.poll_cq = poll_cq;
    context->ibv.ops.req_notify_cq = req_notify_cq;
    atomic_fetch_add(&n_live, 1);
    return &context->ibv;
}

static int drop(void *object)
{
    free(object);
    atomic_fetch_sub(&n_live, 1);
    return 0;
}

int fake_n_live(void)
{
    return atomic_load(&n_live);
}

static int close_device(struct ibv_context *context)
{
    close(context->async_fd);
    close(((struct fake_context *)(void *)context)->async_write_fd);
    return drop(context);
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    const struct fake_device *device = device_of(context);
    *out = (struct ibv_device_attr){.vendor_id = device->vendor_id,
                                    .hw_ver = device->hw_ver,
                                    .max_qp = 100,
                                    .phys_port_cnt =
                                        device->n_ports == 0 ? 1 : device->n_ports};
    return 0;
}

static int query_port(struct ibv_context *context, uint8_t port,
                      struct _compat_ibv_port_attr *out)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)(void *)out;
    weft_check(port >= 1 && (port == 1 || port <= device_of(context)->n_ports));
    attr->state = IBV_PORT_ACTIVE;
    attr->gid_tbl_len = FAKE_GIDS;
    attr->max_msg_sz = device_of(context)->max_msg_bytes;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *out, uint32_t flags, size_t entry_bytes)
{
    weft_check(port >= 1 && flags == 0 && entry_bytes == sizeof *out);
    *out = port == 1 ? device_of(context)->gids[index]
                     : (struct ibv_gid_entry){.port_num = port};
    return out->gid.raw[0] == 0 && out->gid.raw[10] == 0 ? ENODATA : 0;
}

/* ---- objects ---- */

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = weft_calloc(1, sizeof *pd);
    pd->context = context;
    atomic_fetch_add(&n_live, 1);
    return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
    return drop(pd);
}

static struct ibv_mr *make_mr(struct ibv_pd *pd, void *addr, size_t length)
{
    struct ibv_mr *mr = weft_calloc(1, sizeof *mr);
    *mr =
        (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
    atomic_fetch_add(&n_live, 1);
    return mr;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    fake.reg_mr_access = access;
    return make_mr(pd, addr, length);
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                   uint64_t iova, unsigned access)
{
    weft_check(iova == (uintptr_t)addr);
    fake.used_iova2 = true;
    fake.reg_mr_access = (int)access;
    return make_mr(pd, addr, length);
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access)
{
    (void)pd;
    (void)offset;
    (void)length;
    (void)iova;
    (void)access;
    weft_check(fd == -1);
    errno = fake.has_dmabuf ? EBADF : EOPNOTSUPP;
    return NULL;
}

static int dereg_mr(struct ibv_mr *mr)
{
    return drop(mr);
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *context)
{
    int fds[2];
    weft_check(pipe(fds) == 0);
    struct fake_channel *channel = weft_calloc(1, sizeof *channel);
    channel->ibv.context = context;
    channel->ibv.fd = fds[0];
    channel->write_fd = fds[1];
    atomic_fetch_add(&n_live, 1);
    return &channel->ibv;
}

static int destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    close(((struct fake_channel *)(void *)channel)->write_fd);
    return drop(channel);
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int vector)
{
    struct fake_cq *cq = weft_calloc(1, sizeof *cq);
    weft_check(vector == 0);
    cq->ibv.context = context;
    cq->ibv.cqe = cqe;
    cq->ibv.cq_context = cq_context;
    cq->ibv.channel = channel;
    pthread_mutex_lock(&lock);
    cq->number = n_cqs++;
    cq->next = live_cqs;
    live_cqs = cq;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&n_live, 1);
    return &cq->ibv;
}

/* Waits until every event that was read is acknowledged (ibv_destroy_cq(3)). */
static int destroy_cq(struct ibv_cq *ibv)
{
    struct fake_cq *cq = (struct fake_cq *)(void *)ibv, **at = &live_cqs;
    if (fake.destroy_cq_result != 0 || cq->n_qps > 0) {
        return fake.destroy_cq_result != 0 ? fake.destroy_cq_result : EBUSY;
    }
    pthread_mutex_lock(&lock);
    while (*at != cq) {
        at = &(*at)->next;
    }
    *at = cq->next;
    while (cq->n_unacked > 0) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return drop(cq);
}

/* Skips events of CQs that were destroyed, as the kernel does. */
static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out_cq,
                        void **out_cq_context)
{
    struct fake_cq *cq = NULL;
    uint64_t number;
    pthread_mutex_lock(&lock);
    while (cq == NULL && read(channel->fd, &number, sizeof number) == sizeof number) {
        for (cq = live_cqs; cq != NULL && cq->number != number;) {
            cq = cq->next;
        }
    }
    if (cq != NULL) {
        cq->n_unacked++;
        *out_cq = &cq->ibv;
        *out_cq_context = cq->ibv.cq_context;
    }
    pthread_mutex_unlock(&lock);
    return cq != NULL ? 0 : -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned n)
{
    pthread_mutex_lock(&lock);
    ((struct fake_cq *)(void *)cq)->n_unacked -= n;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    const struct fake_device *device = device_of(pd->context);
    maybe_stall();
    if (fake.create_qp_errno != 0 ||
        (init->cap.max_inline_data > device->max_inline_bytes &&
         !device->lowers_inline)) {
        errno = fake.create_qp_errno != 0 ? fake.create_qp_errno : EINVAL;
        return NULL;
    }
    if (init->cap.max_inline_data > device->max_inline_bytes) {
        init->cap.max_inline_data = device->max_inline_bytes;
    }
    init->cap.max_send_wr = 64; /* like hns, which rounds up */
    struct ibv_qp *qp = weft_calloc(1, sizeof *qp);
    *qp = (struct ibv_qp){.context = pd->context,
                          .pd = pd,
                          .recv_cq = init->recv_cq,
                          .qp_num = 0x123456,
                          .qp_type = init->qp_type};
    atomic_fetch_add(&((struct fake_cq *)(void *)qp->recv_cq)->n_qps, 1);
    atomic_fetch_add(&n_live, 1);
    return qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    (void)qp;
    weft_check(mask != 0);
    maybe_stall();
    if (attr->qp_state == IBV_QPS_ERR) {
        fake.n_to_error++;
    }
    errno = EINVAL;
    return fake.modify_qp_result;
}

static int destroy_qp(struct ibv_qp *qp)
{
    atomic_fetch_sub(&((struct fake_cq *)(void *)qp->recv_cq)->n_qps, 1);
    return drop(qp);
}

static int query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
                                  uint32_t flags)
{
    (void)qp;
    return opcode == IBV_WR_RDMA_WRITE && flags == 0;
}

static int get_async_event(struct ibv_context *context, struct ibv_async_event *out)
{
    return read(context->async_fd, out, sizeof *out) == sizeof *out ? 0 : -1;
}

static void ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

/* ---- functions for tests ---- */

void fake_reset(void)
{
    fake = (struct fake){.library = {.get_device_list = get_device_list,
                                     .free_device_list = free_device_list,
                                     .get_device_name = get_device_name,
                                     .get_device_guid = get_device_guid,
                                     .open_device = open_device,
                                     .close_device = close_device,
                                     .query_device = query_device,
                                     .query_port = query_port,
                                     .query_gid_ex = query_gid_ex,
                                     .alloc_pd = alloc_pd,
                                     .dealloc_pd = dealloc_pd,
                                     .reg_mr = reg_mr,
                                     .reg_mr_iova2 = reg_mr_iova2,
                                     .reg_dmabuf_mr = reg_dmabuf_mr,
                                     .dereg_mr = dereg_mr,
                                     .create_comp_channel = create_comp_channel,
                                     .destroy_comp_channel = destroy_comp_channel,
                                     .create_cq = create_cq,
                                     .destroy_cq = destroy_cq,
                                     .get_cq_event = get_cq_event,
                                     .ack_cq_events = ack_cq_events,
                                     .create_qp = create_qp,
                                     .modify_qp = modify_qp,
                                     .destroy_qp = destroy_qp,
                                     .query_qp_data_in_order = query_qp_data_in_order,
                                     .get_async_event = get_async_event,
                                     .ack_async_event = ack_async_event}};
    atomic_store(&n_live, 0);
    is_stalled = false;
}

void fake_complete(struct ibv_cq *cq)
{
    struct fake_cq *self = (struct fake_cq *)(void *)cq;
    self->n_completions++;
    if (atomic_exchange(&self->is_armed, false)) {
        int fd = ((struct fake_channel *)(void *)cq->channel)->write_fd;
        weft_check(write(fd, &self->number, sizeof self->number) == sizeof self->number);
    }
}

void fake_async(struct ibv_context *context, enum ibv_event_type type, void *element)
{
    struct ibv_async_event event = {.event_type = type};
    if (type == IBV_EVENT_PORT_ERR) {
        event.element.port_num = 1;
    } else {
        event.element.qp = element;
    }
    int fd = ((struct fake_context *)(void *)context)->async_write_fd;
    weft_check(write(fd, &event, sizeof event) == sizeof event);
}

void fake_put_file(const char *root, const char *path, const char *text)
{
    char full[300];
    weft_format(full, sizeof full, "%s/%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        weft_check(mkdir(full, 0700) == 0 || errno == EEXIST);
        *at = '/';
    }
    FILE *file = fopen(full, "w");
    weft_check(file != NULL);
    fputs(text, file);
    fclose(file);
}
