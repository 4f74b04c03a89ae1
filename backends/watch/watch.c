/* libweft-watch.so: stands in front of functions of libibverbs in a program that it is preloaded
 * into, and records their arguments and results. It changes neither, and writes nothing else. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/watch/record.h"
#include "backends/watch/symbol.h"

#undef ibv_reg_mr /* macros of verbs.h that add an argument */
#undef ibv_reg_mr_iova

#define VERBS "libibverbs.so"
#define N_CONTEXTS 64
#define N_EXTENDED 512 /* extended CQs; a power of two */
#define FLUSHES_MAX 16 /* recorded for one process; they follow from another error */
#define GID_TEXT_BYTES 48

#define EXPORTED __attribute__((visibility("default")))

typedef int poll_function(struct ibv_cq *cq, int n, struct ibv_wc *completions);
typedef struct ibv_qp *create_qp_ex_function(struct ibv_context *context,
                                             struct ibv_qp_init_attr_ex *attributes);
typedef struct ibv_cq_ex *create_cq_ex_function(struct ibv_context *context,
                                                struct ibv_cq_init_attr_ex *attributes);

/* ---- the real functions ---- */

enum function {
    OPEN_DEVICE,
    CLOSE_DEVICE,
    QUERY_GID,
    QUERY_GID_EX,
    ALLOC_PD,
    REG_MR,
    REG_MR_IOVA2,
    CREATE_CQ,
    DESTROY_CQ,
    CREATE_SRQ,
    CREATE_QP,
    DESTROY_QP,
    MODIFY_QP,
    CREATE_AH,
    GET_ASYNC_EVENT,
    N_FUNCTIONS
};

EXPORTED int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
                               uint32_t gid_index, struct ibv_gid_entry *entry,
                               uint32_t flags, size_t entry_size);

static const struct {
    const char *name;
    void *own;
} functions[N_FUNCTIONS] = {
    [OPEN_DEVICE] = {"ibv_open_device", ibv_open_device},
    [CLOSE_DEVICE] = {"ibv_close_device", ibv_close_device},
    [QUERY_GID] = {"ibv_query_gid", ibv_query_gid},
    [QUERY_GID_EX] = {"_ibv_query_gid_ex", _ibv_query_gid_ex},
    [ALLOC_PD] = {"ibv_alloc_pd", ibv_alloc_pd},
    [REG_MR] = {"ibv_reg_mr", ibv_reg_mr},
    [REG_MR_IOVA2] = {"ibv_reg_mr_iova2", ibv_reg_mr_iova2},
    [CREATE_CQ] = {"ibv_create_cq", ibv_create_cq},
    [DESTROY_CQ] = {"ibv_destroy_cq", ibv_destroy_cq},
    [CREATE_SRQ] = {"ibv_create_srq", ibv_create_srq},
    [CREATE_QP] = {"ibv_create_qp", ibv_create_qp},
    [DESTROY_QP] = {"ibv_destroy_qp", ibv_destroy_qp},
    [MODIFY_QP] = {"ibv_modify_qp", ibv_modify_qp},
    [CREATE_AH] = {"ibv_create_ah", ibv_create_ah},
    [GET_ASYNC_EVENT] = {"ibv_get_async_event", ibv_get_async_event},
};

static _Atomic(void *) reals[N_FUNCTIONS];

/* Returns NULL if libibverbs is not loaded, or has no such function. */
static void *real(enum function function)
{
    if (reals[function] == NULL) {
        reals[function] = watch_symbol(VERBS, functions[function].name);
    }
    return reals[function];
}

/* ---- what is recorded ---- */

static void record_call(const char *name, struct ibv_context *context, bool has_failed,
                        int problem)
{
    if (has_failed) {
        watch_record(true, "%s device=%s errno=%d", name, context->device->name, problem);
    }
}

static const char *gid_text(const union ibv_gid *gid, char *out)
{
    const uint8_t *raw = gid->raw;

    snprintf(out, GID_TEXT_BYTES,
             "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x",
             raw[0], raw[1], raw[2], raw[3], raw[4], raw[5], raw[6], raw[7], raw[8],
             raw[9], raw[10], raw[11], raw[12], raw[13], raw[14], raw[15]);
    return out;
}

static void record_gid(struct ibv_context *context, unsigned port, int index,
                       const union ibv_gid *gid, int problem)
{
    char text[GID_TEXT_BYTES] = "-";

    watch_record(problem != 0, "query_gid device=%s port=%u index=%d gid=%s errno=%d",
                 context->device->name, port, index,
                 problem == 0 ? gid_text(gid, text) : text, problem);
}

static void record_qp(struct ibv_context *context, const struct ibv_qp *qp, int type,
                      int problem)
{
    watch_record(qp == NULL, "create_qp device=%s qp=%u type=%d errno=%d",
                 context->device->name, qp != NULL ? qp->qp_num : 0, type,
                 qp == NULL ? problem : 0);
}

/* ---- completions ---- */

struct watched_context {
    _Atomic(struct ibv_context *) context; /* NULL if the entry is free */
    poll_function *poll;
    create_qp_ex_function *create_qp_ex;
    create_cq_ex_function *create_cq_ex;
};

static struct watched_context contexts[N_CONTEXTS];
static atomic_uint n_flushes;

static struct watched_context *entry_of(const struct ibv_context *context)
{
    for (size_t i = 0; i < N_CONTEXTS; i++) {
        if (contexts[i].context == context) {
            return &contexts[i];
        }
    }
    return NULL;
}

static void record_completion(const struct ibv_cq *cq, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_WR_FLUSH_ERR || n_flushes++ < FLUSHES_MAX) {
        watch_record(true, "completion device=%s qp=%u status=%d vendor=%u opcode=%d",
                     cq->context->device->name, wc->qp_num, (int)wc->status,
                     wc->vendor_err, (int)wc->opcode);
    }
    if (wc->status != IBV_WC_WR_FLUSH_ERR) {
        watch_wake();
    }
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *completions)
{
    int polled = entry_of(cq->context)->poll(cq, n, completions);

    for (int i = 0; i < polled; i++) {
        if (completions[i].status != IBV_WC_SUCCESS) {
            record_completion(cq, &completions[i]);
        }
    }
    return polled;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context,
                                   struct ibv_qp_init_attr_ex *attributes)
{
    struct ibv_qp *qp = entry_of(context)->create_qp_ex(context, attributes);

    record_qp(context, qp, (int)attributes->qp_type, errno);
    return qp;
}

/* ---- extended CQs ---- */

/* Functions that verbs.h defines inline call those in the CQ. */
struct watched_cq {
    _Atomic(const struct ibv_cq_ex *) cq; /* NULL if the entry is free */
    int (*start)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attributes);
    int (*next)(struct ibv_cq_ex *cq);
};

static struct watched_cq extended[N_EXTENDED];

/* Returns the entry of the CQ, the first after its hash; NULL if there is none. */
static struct watched_cq *extended_of(const struct ibv_cq_ex *cq)
{
    size_t hash = (uintptr_t)cq / 64;

    for (size_t i = 0; i < N_EXTENDED; i++) {
        struct watched_cq *entry = &extended[(hash + i) % N_EXTENDED];

        if (entry->cq == cq) {
            return entry;
        }
    }
    return NULL;
}

/* Records the completion at hand if it is in error; only its status and QP are valid then. */
static void record_current(struct ibv_cq_ex *cq)
{
    struct ibv_wc wc = {.status = cq->status};

    if (wc.status != IBV_WC_SUCCESS) {
        wc.qp_num = cq->read_qp_num != NULL ? ibv_wc_read_qp_num(cq) : 0;
        wc.vendor_err = cq->read_vendor_err != NULL ? ibv_wc_read_vendor_err(cq) : 0;
        record_completion(ibv_cq_ex_to_cq(cq), &wc);
    }
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attributes)
{
    int result = extended_of(cq)->start(cq, attributes);

    if (result == 0) {
        record_current(cq);
    }
    return result;
}

static int next_poll(struct ibv_cq_ex *cq)
{
    int result = extended_of(cq)->next(cq);

    if (result == 0) {
        record_current(cq);
    }
    return result;
}

static void watch_cq(struct ibv_cq_ex *cq)
{
    size_t hash = (uintptr_t)cq / 64;
    const struct ibv_cq_ex *none = NULL;

    for (size_t i = 0; i < N_EXTENDED; i++) {
        struct watched_cq *entry = &extended[(hash + i) % N_EXTENDED];

        if (!atomic_compare_exchange_strong(&entry->cq, &none, cq)) {
            none = NULL;
            continue;
        }
        entry->start = cq->start_poll;
        entry->next = cq->next_poll;
        cq->start_poll = start_poll;
        cq->next_poll = next_poll;
        break;
    }
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
                                      struct ibv_cq_init_attr_ex *attributes)
{
    struct ibv_cq_ex *cq = entry_of(context)->create_cq_ex(context, attributes);

    record_call("create_cq_ex", context, cq == NULL, errno);
    if (cq != NULL) {
        watch_cq(cq);
    }
    return cq;
}

EXPORTED int ibv_destroy_cq(struct ibv_cq *cq)
{
    int (*next)(struct ibv_cq *) = real(DESTROY_CQ);
    struct ibv_cq_ex *own = (struct ibv_cq_ex *)cq;
    struct watched_cq *entry = extended_of(own);
    int result;

    if (entry == NULL) {
        return next(cq);
    }
    own->start_poll = entry->start;
    own->next_poll = entry->next;
    entry->cq = NULL; /* before another thread may have a CQ at this address */
    result = next(cq);
    if (result != 0) {
        watch_cq(own);
    }
    return result;
}

/* ---- contexts ---- */

/* Functions that verbs.h defines inline call the context's. */
static void watch_context(struct ibv_context *context)
{
    struct verbs_context *more = verbs_get_ctx(context);
    struct ibv_context *none = NULL;

    for (size_t i = 0; i < N_CONTEXTS; i++) {
        struct watched_context *entry = &contexts[i];

        if (!atomic_compare_exchange_strong(&entry->context, &none, context)) {
            none = NULL;
            continue;
        }
        entry->poll = context->ops.poll_cq;
        context->ops.poll_cq = poll_cq;
        if (more != NULL && more->create_qp_ex != NULL) {
            entry->create_qp_ex = more->create_qp_ex;
            more->create_qp_ex = create_qp_ex;
        }
        if (more != NULL && more->create_cq_ex != NULL) {
            entry->create_cq_ex = more->create_cq_ex;
            more->create_cq_ex = create_cq_ex;
        }
        break;
    }
}

/* ---- functions of libibverbs ---- */

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*next)(struct ibv_device *) = real(OPEN_DEVICE);
    struct ibv_context *context = next(device);

    watch_record(context == NULL, "open_device device=%s errno=%d", device->name,
                 context == NULL ? errno : 0);
    if (context != NULL) {
        watch_context(context);
    }
    return context;
}

EXPORTED int ibv_close_device(struct ibv_context *context)
{
    int (*next)(struct ibv_context *) = real(CLOSE_DEVICE);
    struct watched_context *entry = entry_of(context);

    if (entry != NULL) {
        context->ops.poll_cq = entry->poll;
        entry->context = NULL;
    }
    return next(context);
}

EXPORTED int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
                           union ibv_gid *gid)
{
    int (*next)(struct ibv_context *, uint8_t, int, union ibv_gid *) = real(QUERY_GID);
    int result = next(context, port_num, index, gid);

    record_gid(context, port_num, index, gid,
               result == 0 ? 0 : (errno != 0 ? errno : EIO));
    return result;
}

EXPORTED int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num,
                               uint32_t gid_index, struct ibv_gid_entry *entry,
                               uint32_t flags, size_t entry_size)
{
    int (*next)(struct ibv_context *, uint32_t, uint32_t, struct ibv_gid_entry *,
                uint32_t, size_t) = real(QUERY_GID_EX);
    int result = next(context, port_num, gid_index, entry, flags, entry_size);

    record_gid(context, port_num, (int)gid_index, &entry->gid, result);
    return result;
}

EXPORTED struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *(*next)(struct ibv_context *) = real(ALLOC_PD);
    struct ibv_pd *pd = next(context);

    record_call("alloc_pd", context, pd == NULL, errno);
    return pd;
}

EXPORTED struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length,
                                   int access)
{
    struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, int) = real(REG_MR);
    struct ibv_mr *mr = next(pd, addr, length, access);

    record_call("reg_mr", pd->context, mr == NULL, errno);
    return mr;
}

EXPORTED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                         uint64_t iova, unsigned int access)
{
    struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int) =
        real(REG_MR_IOVA2);
    struct ibv_mr *mr = next(pd, addr, length, iova, access);

    record_call("reg_mr", pd->context, mr == NULL, errno);
    return mr;
}

EXPORTED struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe,
                                      void *cq_context, struct ibv_comp_channel *channel,
                                      int comp_vector)
{
    struct ibv_cq *(*next)(struct ibv_context *, int, void *, struct ibv_comp_channel *,
                           int) = real(CREATE_CQ);
    struct ibv_cq *cq = next(context, cqe, cq_context, channel, comp_vector);

    record_call("create_cq", context, cq == NULL, errno);
    return cq;
}

EXPORTED struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
                                        struct ibv_srq_init_attr *attributes)
{
    struct ibv_srq *(*next)(struct ibv_pd *, struct ibv_srq_init_attr *) =
        real(CREATE_SRQ);
    struct ibv_srq *srq = next(pd, attributes);

    record_call("create_srq", pd->context, srq == NULL, errno);
    return srq;
}

EXPORTED struct ibv_qp *ibv_create_qp(struct ibv_pd *pd,
                                      struct ibv_qp_init_attr *attributes)
{
    struct ibv_qp *(*next)(struct ibv_pd *, struct ibv_qp_init_attr *) = real(CREATE_QP);
    struct ibv_qp *qp = next(pd, attributes);

    record_qp(pd->context, qp, (int)attributes->qp_type, errno);
    return qp;
}

EXPORTED int ibv_destroy_qp(struct ibv_qp *qp)
{
    int (*next)(struct ibv_qp *) = real(DESTROY_QP);
    const char *device = qp->context->device->name;
    uint32_t number = qp->qp_num;
    int result = next(qp);

    watch_note("destroy_qp device=%s qp=%u errno=%d", device, number, result);
    return result;
}

/* Appends " NAME=VALUE" if the caller sets the attribute. */
static void add(char *out, size_t n_bytes, int mask, int bit, const char *name,
                unsigned value)
{
    size_t n = strlen(out);

    if ((mask & bit) != 0) {
        snprintf(out + n, n_bytes - n, " %s=%u", name, value);
    }
}

static void record_modify(const struct ibv_qp *qp, const struct ibv_qp_attr *attributes,
                          int mask, int problem)
{
    char text[256] = "", gid[GID_TEXT_BYTES];
    const struct ibv_ah_attr *ah = &attributes->ah_attr;

    add(text, sizeof(text), mask, IBV_QP_STATE, "to", attributes->qp_state);
    add(text, sizeof(text), mask, IBV_QP_PORT, "port", attributes->port_num);
    add(text, sizeof(text), mask, IBV_QP_PATH_MTU, "mtu", attributes->path_mtu);
    add(text, sizeof(text), mask, IBV_QP_DEST_QPN, "dest_qp", attributes->dest_qp_num);
    add(text, sizeof(text), mask, IBV_QP_TIMEOUT, "timeout", attributes->timeout);
    add(text, sizeof(text), mask, IBV_QP_RETRY_CNT, "retry", attributes->retry_cnt);
    add(text, sizeof(text), mask, IBV_QP_RNR_RETRY, "rnr_retry", attributes->rnr_retry);
    if ((mask & IBV_QP_AV) != 0 && ah->is_global != 0) {
        add(text, sizeof(text), mask, IBV_QP_AV, "sgid_index", ah->grh.sgid_index);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " dgid=%s",
                 gid_text(&ah->grh.dgid, gid));
    }
    watch_record(problem != 0, "modify_qp device=%s qp=%u%s errno=%d",
                 qp->context->device->name, qp->qp_num, text, problem);
    if (problem != 0) {
        watch_wake();
    }
}

EXPORTED int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int) = real(MODIFY_QP);
    int result = next(qp, attr, attr_mask);

    record_modify(qp, attr, attr_mask, result);
    if (result == 0 && (attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RTS) {
        watch_ready(qp->context->device->name);
    }
    return result;
}

EXPORTED struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attributes)
{
    struct ibv_ah *(*next)(struct ibv_pd *, struct ibv_ah_attr *) = real(CREATE_AH);
    struct ibv_ah *ah = next(pd, attributes);
    int problem = ah == NULL ? errno : 0;
    char gid[GID_TEXT_BYTES];

    if (attributes->is_global != 0) {
        watch_record(ah == NULL, "create_ah device=%s sgid_index=%u dgid=%s errno=%d",
                     pd->context->device->name, attributes->grh.sgid_index,
                     gid_text(&attributes->grh.dgid, gid), problem);
    } else {
        record_call("create_ah", pd->context, ah == NULL, problem);
    }
    if (ah == NULL) {
        watch_wake();
    }
    return ah;
}

/* Returns true if what the event is about does not work any more. */
static bool is_fatal(enum ibv_event_type type)
{
    static const enum ibv_event_type fatal[] = {
        IBV_EVENT_CQ_ERR,        IBV_EVENT_QP_FATAL,     IBV_EVENT_QP_REQ_ERR,
        IBV_EVENT_QP_ACCESS_ERR, IBV_EVENT_DEVICE_FATAL, IBV_EVENT_SRQ_ERR,
        IBV_EVENT_WQ_FATAL,
    };
    bool is = false;

    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++) {
        is = is || type == fatal[i];
    }
    return is;
}

EXPORTED int ibv_get_async_event(struct ibv_context *context,
                                 struct ibv_async_event *event)
{
    int (*next)(struct ibv_context *, struct ibv_async_event *) = real(GET_ASYNC_EVENT);
    int result = next(context, event);

    if (result == 0) {
        watch_record(is_fatal(event->event_type), "event device=%s type=%d fatal=%d",
                     context->device->name, (int)event->event_type,
                     is_fatal(event->event_type));
        if (is_fatal(event->event_type)) {
            watch_wake();
        }
    }
    return result;
}

/* ---- programs that open libibverbs themselves ---- */

/* Returns the function of this library if `found` is the real one. */
static void *in_front_of(void *found)
{
    for (size_t i = 0; found != NULL && i < N_FUNCTIONS; i++) {
        if (reals[i] == found) {
            return functions[i].own;
        }
    }
    return found;
}

static bool is_ours(const char *name)
{
    bool may_be = watch_begins(name, "ibv_") || watch_begins(name, "_ibv_");

    for (size_t i = 0; may_be && i < N_FUNCTIONS; i++) {
        if (watch_is_same(functions[i].name, name)) {
            return real((enum function)i) != NULL;
        }
    }
    return false;
}

/* Any other call of both is passed on as a jump, because their result depends on the caller if the
 * handle is RTLD_NEXT. */
EXPORTED void *dlsym(void *handle, const char *name)
{
    static _Atomic(void *) next;
    void *(*function)(void *, const char *);

    if (next == NULL) {
        next = watch_libc_symbol("dlsym");
    }
    function = next;
    if (handle == RTLD_NEXT || !is_ours(name)) {
        return function(handle, name);
    }
    return in_front_of(function(handle, name));
}

EXPORTED void *dlvsym(void *handle, const char *name, const char *version)
{
    static _Atomic(void *) next;
    void *(*function)(void *, const char *, const char *);

    if (next == NULL) {
        next = watch_libc_symbol("dlvsym");
    }
    function = next;
    if (handle == RTLD_NEXT || !is_ours(name)) {
        return function(handle, name, version);
    }
    return in_front_of(function(handle, name, version));
}
