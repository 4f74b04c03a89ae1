/* Requests: queued with a comm and tested by any thread. Nothing here allocates or takes a lock
 * other than the comm's. */
#include "base/check.h"
#include "plugin/engine_private.h"

static bool has_failed(struct engine_comm *comm)
{
    return atomic_load_explicit(&comm->state, memory_order_acquire) == ENGINE_COMM_FAILED;
}

/* Returns why the comm failed. Not inlined, so that a call that succeeds saves no register for
 * it. */
WEFT_APART static weft_status status_of(struct engine_comm *comm)
{
    weft_status status;

    pthread_mutex_lock(&comm->lock);
    status = comm->error.status;
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* Returns a free request, and holds the lock until post(). Returns NULL if none is free, the
 * comm has failed, or its peer has closed and the request is no flush. */
static struct engine_request *begin(struct engine_comm *comm, bool is_flush,
                                    weft_status *out_status)
{
    struct engine_request *request;

    *out_status = WEFT_OK;
    if (has_failed(comm)) {
        *out_status = status_of(comm);
        return NULL;
    }
    if (!is_flush && atomic_load(&comm->peer_closed)) {
        *out_status = WEFT_AGAIN; /* as if the peer never posted the matching request */
        return NULL;
    }
    pthread_mutex_lock(&comm->lock);
    request = comm->free;
    if (request == NULL) {
        pthread_mutex_unlock(&comm->lock);
        *out_status = WEFT_AGAIN;
        return NULL;
    }
    comm->free = request->next;
    request->n = 1;
    request->is_flush = false;
    request->flow = NULL;
    atomic_store_explicit(&request->state, ENGINE_OPEN, memory_order_relaxed);
    return request;
}

static void post(struct engine_request *request)
{
    struct engine_comm *comm = request->comm;

    engine_queue_push(&comm->incoming, request);
    pthread_mutex_unlock(&comm->lock);
    engine_comm_kick(comm);
}

/* Returns true if the data lies within memory registered for this comm. Other addresses would
 * fail the connection, or access memory that belongs to another user. */
static bool is_registered(const struct engine_comm *comm,
                          const struct engine_memory *memory, const void *data, size_t n)
{
    uintptr_t at = (uintptr_t)data, first;

    if (n == 0) {
        return true;
    }
    if (memory == NULL || memory->comm != comm) {
        return false;
    }
    first = (uintptr_t)memory->memory.addr;
    return at >= first && n <= memory->memory.length &&
           at - first <= memory->memory.length - n;
}

weft_status engine_isend(struct engine_comm *comm, const void *data, size_t n_bytes,
                         uint32_t tag, const struct engine_memory *memory,
                         struct engine_request **out)
{
    weft_status status;
    struct engine_request *request;

    *out = NULL;
    if (!is_registered(comm, memory, data, n_bytes)) {
        return WEFT_ERR_INPUT;
    }
    request = begin(comm, false, &status);
    *out = request;
    if (request == NULL) {
        return status;
    }
    request->data[0] = (void *)(uintptr_t)data;
    request->sizes[0] = n_bytes;
    request->tags[0] = tag;
    request->memories[0] = memory == NULL ? NULL : &memory->memory;
    post(request);
    return WEFT_OK;
}

weft_status engine_irecv(struct engine_comm *comm, uint32_t n, void *const *data,
                         const size_t *sizes, const uint32_t *tags,
                         struct engine_memory *const *memories,
                         struct engine_request **out)
{
    weft_status status;
    struct engine_request *request;

    weft_check(n >= 1 && n <= ENGINE_GROUP_MAX);
    *out = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_registered(comm, memories[i], data[i], sizes[i])) {
            return WEFT_ERR_INPUT;
        }
    }
    request = begin(comm, false, &status);
    *out = request;
    if (request == NULL) {
        return status;
    }
    request->n = n;
    for (uint32_t i = 0; i < n; i++) {
        request->data[i] = data[i];
        request->sizes[i] = sizes[i];
        request->tags[i] = tags[i];
        request->memories[i] = memories[i] == NULL ? NULL : &memories[i]->memory;
    }
    post(request);
    return WEFT_OK;
}

weft_status engine_iflush(struct engine_comm *comm, const void *data, size_t n_bytes,
                          const struct engine_memory *memory, struct engine_request **out)
{
    weft_status status;
    struct engine_request *request;

    *out = NULL;
    if (n_bytes == 0 || memory == NULL || !memory->memory.is_gpu) {
        return WEFT_OK;
    }
    if (!is_registered(comm, memory, data, n_bytes)) {
        return WEFT_ERR_INPUT;
    }
    request = begin(comm, true, &status);
    *out = request;
    if (request == NULL) {
        return status;
    }
    request->is_flush = true;
    request->n = 0;
    request->data[0] = (void *)(uintptr_t)data;
    request->sizes[0] = n_bytes;
    request->memories[0] = &memory->memory;
    post(request);
    return WEFT_OK;
}

weft_status engine_test(struct engine_request *request, size_t *sizes, uint32_t *out_n)
{
    struct engine_comm *comm = request->comm;

    if (atomic_load_explicit(&request->state, memory_order_acquire) != ENGINE_DONE) {
        return has_failed(comm) ? status_of(comm) : WEFT_AGAIN;
    }
    /* Read under the lock, because another thread may take the request once it is free. */
    pthread_mutex_lock(&comm->lock);
    *out_n = request->n;
    for (uint32_t i = 0; i < request->n; i++) { /* mostly one: cheaper than memcpy() */
        sizes[i] = request->sizes[i];
    }
    atomic_store_explicit(&request->state, ENGINE_FREE, memory_order_relaxed);
    request->next = comm->free;
    comm->free = request;
    pthread_mutex_unlock(&comm->lock);
    return WEFT_OK;
}
