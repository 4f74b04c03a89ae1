/* Streams, events and memory of other processes. Exports and imports can fail, as in a container;
 * all other calls are forwarded to the inner GPU. */
#include "backends/fault/private.h"

static struct io_gpu *below(struct io_gpu *io)
{
    return weft_container_of(io, struct fault_gpu, io)->inner;
}

static int judge(struct io_gpu *io, enum world_call call)
{
    struct fault_gpu *gpu = weft_container_of(io, struct fault_gpu, io);

    return fault_judge(gpu->env, FAULT_NO_DEVICE, call).error;
}

static int identify(struct io_gpu *io, struct io_gpu_identity *out)
{
    return below(io)->sharing->identify(below(io), out);
}

static int export_memory(struct io_gpu *io, const void *address, uint32_t kinds,
                         struct io_gpu_export *out)
{
    int error = judge(io, WORLD_CALL_EXPORT_MEMORY);

    return error != 0 ? error
                      : below(io)->sharing->export_memory(below(io), address, kinds, out);
}

static void unexport(struct io_gpu *io, const struct io_gpu_export *exported)
{
    below(io)->sharing->unexport(below(io), exported);
}

static int import_memory(struct io_gpu *io, const struct io_gpu_export *exported,
                         void **out)
{
    int error = judge(io, WORLD_CALL_IMPORT_MEMORY);

    return error != 0 ? error
                      : below(io)->sharing->import_memory(below(io), exported, out);
}

static void unimport(struct io_gpu *io, void *memory)
{
    below(io)->sharing->unimport(below(io), memory);
}

static int stream_create(struct io_gpu *io, struct io_gpu_stream **out)
{
    return below(io)->sharing->stream_create(below(io), out);
}

static void stream_destroy(struct io_gpu *io, struct io_gpu_stream *stream)
{
    below(io)->sharing->stream_destroy(below(io), stream);
}

static int event_create(struct io_gpu *io, struct io_gpu_event **out)
{
    return below(io)->sharing->event_create(below(io), out);
}

static void event_destroy(struct io_gpu *io, struct io_gpu_event *event)
{
    below(io)->sharing->event_destroy(below(io), event);
}

static int record(struct io_gpu *io, struct io_gpu_event *event,
                  struct io_gpu_stream *stream)
{
    return below(io)->sharing->record(below(io), event, stream);
}

static int wait_for(struct io_gpu *io, struct io_gpu_event *event,
                    struct io_gpu_stream *stream)
{
    return below(io)->sharing->wait(below(io), event, stream);
}

static int query(struct io_gpu *io, struct io_gpu_event *event)
{
    return below(io)->sharing->query(below(io), event);
}

static int export_event(struct io_gpu *io, struct io_gpu_event *event,
                        struct io_gpu_handle *out)
{
    return below(io)->sharing->export_event(below(io), event, out);
}

static int import_event(struct io_gpu *io, const struct io_gpu_handle *handle,
                        struct io_gpu_event **out)
{
    return below(io)->sharing->import_event(below(io), handle, out);
}

const struct io_gpu_sharing_ops fault_sharing_ops = {
    .identify = identify,
    .export_memory = export_memory,
    .unexport = unexport,
    .import_memory = import_memory,
    .unimport = unimport,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record,
    .wait = wait_for,
    .query = query,
    .export_event = export_event,
    .import_event = import_event,
};
