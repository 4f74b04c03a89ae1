/* Calls that wait for the engine's thread: register, deregister and close. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "plugin/engine_private.h"
#include "plugin/finding.h"

static void submit(struct engine *engine, struct engine_call *call)
{
    pthread_mutex_lock(&engine->lock);
    call->next = engine->new_calls;
    engine->new_calls = call;
    pthread_mutex_unlock(&engine->lock);
    engine->config.wake(engine->config.context);
    engine->config.wait(engine->config.context, &call->is_done);
}

bool engine_takes(const struct engine *engine, enum engine_place place)
{
    const struct rdma *rdma = engine->rdma;
    bool all = true;

    for (uint32_t i = 0; i < rdma->n_ports; i++) {
        uint32_t device = rdma->ports[i].device_index;
        const struct io_device_attr *attr = &rdma->attrs[device];

        all = all &&
              (conn_excludes(&engine->config.conn, device, rdma->ports[i].port) ||
               place == ENGINE_PLACE_HOST ||
               (place == ENGINE_PLACE_GPU ? attr->has_peer_memory : attr->has_dmabuf));
    }
    return all;
}

weft_status engine_register(struct engine_comm *comm, const struct engine_region *region,
                            struct engine_memory **out, struct weft_error *error)
{
    struct engine_call call = {.kind = ENGINE_CALL_REGISTER,
                               .comm = comm,
                               .memory = weft_calloc(1, sizeof(struct engine_memory)),
                               .region = *region};

    *out = NULL;
    call.memory->comm = comm;
    submit(comm->engine, &call);
    if (call.status != WEFT_OK) {
        free(call.memory);
        *error = call.error;
        return call.status;
    }
    *out = call.memory;
    return WEFT_OK;
}

void engine_deregister(struct engine_comm *comm, struct engine_memory *memory)
{
    struct engine_call call = {
        .kind = ENGINE_CALL_DEREGISTER, .comm = comm, .memory = memory};

    submit(comm->engine, &call);
    if (!call.is_kept) {
        free(memory);
    }
}

void engine_close_now(struct engine_comm *comm)
{
    struct engine_call call = {.kind = ENGINE_CALL_CLOSE, .comm = comm};

    submit(comm->engine, &call);
}

/* Deregisters at once, and keeps no registration for reuse, because the caller may free the
 * memory. */
static void deregister(struct engine_call *call)
{
    struct engine_comm *comm = call->comm;
    struct xfer_memory *memory = &call->memory->memory;
    void *addr = memory->addr;
    size_t length = memory->length;

    /* An abort deregisters before it closes. Until then, open requests must find a memory
     * object, without a key. */
    call->is_kept = engine_comm_uses(comm, memory);
    if (call->is_kept) {
        call->memory->next = comm->forgotten;
        comm->forgotten = call->memory;
    }

    flow_deregister(call->comm->flow, memory);
    flow_invalidate(call->comm->flow, addr, length);
}

static weft_status begin(struct engine_call *call)
{
    const struct engine_region *region = &call->region;
    struct xfer_memory *memory = &call->memory->memory;
    struct flow *flow = call->comm->flow;
    weft_status status;

    if (!engine_takes(call->comm->engine, region->place)) {
        return weft_fail(&call->error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_REGISTER,
                         "not every device registers %s",
                         region->place == ENGINE_PLACE_GPU
                             ? "GPU memory by its address: no nvidia_peermem"
                             : "dma-bufs");
    }
    if (region->place == ENGINE_PLACE_DMABUF) {
        return flow_register_dmabuf(flow, region->addr, region->length, region->fd,
                                    region->offset, memory, &call->error);
    }
    status = flow_register(flow, region->addr, region->length, memory, &call->error);
    memory->is_gpu = region->place == ENGINE_PLACE_GPU;
    return status;
}

static void progress(struct engine_call *call)
{
    struct flow *flow = call->comm->flow;
    bool was_started = call->is_started;

    call->is_started = true;
    if (call->kind == ENGINE_CALL_CLOSE) {
        engine_comm_close(call->comm);
        call->status = WEFT_OK;
    } else if (flow == NULL) {
        call->status = weft_fail(&call->error, WEFT_ERR_CLOSED, WEFT_PHASE_REGISTER,
                                 "the connection is not open");
    } else if (call->kind == ENGINE_CALL_DEREGISTER) {
        deregister(call);
        call->status = WEFT_OK;
    } else {
        struct xfer_memory *memory = &call->memory->memory;

        call->status = was_started ? WEFT_OK : begin(call);
        if (call->status == WEFT_OK) {
            call->status = flow_register_progress(flow, memory, &call->error);
        }
        if (call->status < 0) {
            /* Remove partial registrations, and keep none for reuse. */
            flow_deregister(flow, memory);
            flow_invalidate(flow, call->region.addr, call->region.length);
            finding_name(call->comm->engine->rdma, &call->error);
        }
    }
}

void engine_calls_progress(struct engine *engine)
{
    struct engine_call **at = &engine->calls, *call;

    pthread_mutex_lock(&engine->lock);
    while ((call = engine->new_calls) != NULL) {
        engine->new_calls = call->next;
        call->next = engine->calls;
        engine->calls = call;
    }
    pthread_mutex_unlock(&engine->lock);
    while ((call = *at) != NULL) {
        progress(call);
        if (call->status == WEFT_AGAIN) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        atomic_store(&call->is_done, 1); /* owned by its caller from now on */
        engine->config.done(engine->config.context);
    }
}
