/* Implements NCCL's calls with the engine. */
#include "plugin/plugin.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/catalogue.h"
#include "plugin/finding.h"
#include "plugin/log.h"
#include "plugin/process.h"

static abi_status result_of(weft_status status)
{
    switch (status) {
    case WEFT_OK:
    case WEFT_AGAIN:
        return ABI_SUCCESS;
    case WEFT_ERR_INPUT:
        return ABI_INVALID_ARGUMENT;
    case WEFT_ERR_LIMIT:
        return ABI_INVALID_USAGE;
    case WEFT_ERR_SYSTEM:
    case WEFT_ERR_NOMEM:
    case WEFT_ERR_ENVIRONMENT:
        return ABI_SYSTEM_ERROR;
    case WEFT_ERR_COMPLETION:
    case WEFT_ERR_PROTOCOL:
    case WEFT_ERR_AUTH:
    case WEFT_ERR_TIMEOUT:
    case WEFT_ERR_CLOSED:
    case WEFT_ERR_ROUTE:
    case WEFT_ERR_UNSUPPORTED:
    case WEFT_ERR_DATA:
    default:
        return ABI_REMOTE_ERROR;
    }
}

static abi_status failed(const char *call, const struct weft_error *error)
{
    char text[400];

    finding_format(error, text, sizeof(text));
    plugin_log(ABI_LOG_WARN, "%s: %s", call, text);
    return result_of(error->status);
}

abi_status plugin_init(void **context, uint64_t comm_id, struct abi_config *config,
                       abi_logger logger, abi_profiler profiler)
{
    (void)comm_id;
    (void)profiler;
    *context = plugin_context(config);
    return process_start(logger);
}

/* The context of a communicator is only its traffic class, so nothing must be freed. */
void *plugin_context(const struct abi_config *config)
{
    if (config == NULL || config->traffic_class < 0 || config->traffic_class > 255) {
        return NULL;
    }
    return (void *)(uintptr_t)(config->traffic_class + 1);
}

static int class_of(const void *context)
{
    return context == NULL ? ENGINE_CLASS_USUAL : (int)(uintptr_t)context - 1;
}

/* Does nothing, because communicators share the engine, which exists until the process ends. The
 * next communicator finds its devices open. */
abi_status plugin_finalize(void *context)
{
    (void)context;
    return ABI_SUCCESS;
}

abi_status plugin_devices(int *n)
{
    if (!process_is_up()) {
        return ABI_INVALID_USAGE;
    }
    *n = process_n_devices();
    if (*n == 0) {
        plugin_log(ABI_LOG_WARN, "no RDMA port has a link and an address");
    }
    return ABI_SUCCESS;
}

abi_status plugin_properties(int device, struct abi_properties_v12 *out)
{
    struct engine *engine;
    const struct engine_port *port;
    uint32_t number;

    memset(out, 0, sizeof(*out));
    engine = process_is_up() ? process_device(device, &number) : NULL;
    if (engine == NULL) {
        return ABI_INVALID_ARGUMENT;
    }
    port = engine_port(engine, number);
    out->name = (char *)(uintptr_t)port->name;
    out->pci_path = port->pci_path[0] == '\0' ? NULL : (char *)(uintptr_t)port->pci_path;
    out->guid = port->guid;
    out->ptr_support = ABI_PTR_HOST |
                       (engine_takes(engine, ENGINE_PLACE_GPU) ? ABI_PTR_CUDA : 0) |
                       (engine_takes(engine, ENGINE_PLACE_DMABUF) ? ABI_PTR_DMABUF : 0);
    out->speed = (int)port->speed_mbps;
    out->port = (int)port->port;
    out->max_comms = 65536;
    out->max_recvs = ENGINE_GROUP_MAX;
    out->net_device_type = ABI_DEVICE_HOST;
    out->vdevice.n_devices = 1;
    out->vdevice.devices[0] = device;
    out->max_p2p_bytes = out->max_coll_bytes = (size_t)XFER_SIZE_MAX;
    out->max_multi_request_size = 1;
    out->rail_id = out->plane_id = ABI_UNDEFINED;
    return ABI_SUCCESS;
}

/* ---- set-up ---- */

_Static_assert(CONN_HANDLE_BYTES == ABI_HANDLE_BYTES, "a handle is as large as NCCL's");

/* The device is NCCL's guess. The engine uses the ports whose cables lead to the peer. In a
 * simulated mesh the device selects the host. */
abi_status plugin_listen(void *context, int device, void *handle, void **comm)
{
    uint32_t ignored;
    struct engine *engine = process_is_up() ? process_device(device, &ignored) : NULL;
    struct engine_listen *listen = NULL;
    struct weft_error error = {0};
    weft_status status;

    (void)context;
    *comm = NULL;
    if (engine == NULL) {
        return ABI_INVALID_ARGUMENT;
    }
    process_enter();
    status = engine_listen(engine, handle, &listen, &error);
    process_leave();
    if (status != WEFT_OK) {
        return failed("listen", &error);
    }
    *comm = listen;
    return ABI_SUCCESS;
}

abi_status plugin_connect(void *context, int device, void *handle, void **comm,
                          struct abi_device_handle **offload)
{
    uint32_t ignored;
    struct engine *engine = process_is_up() ? process_device(device, &ignored) : NULL;
    struct engine_comm *connected = NULL;
    struct weft_error error = {0};
    weft_status status;

    (void)offload;
    *comm = NULL;
    if (engine == NULL) {
        return process_is_up() ? ABI_INVALID_ARGUMENT : ABI_INVALID_USAGE;
    }
    process_enter();
    status = engine_connect_as(engine, handle, class_of(context), &connected, &error);
    process_leave();
    if (status < 0) {
        return failed("connect", &error);
    }
    if (status == WEFT_AGAIN) {
        process_polled();
    }
    *comm = connected;
    return ABI_SUCCESS;
}

abi_status plugin_accept(void *listener, void **comm, struct abi_device_handle **offload)
{
    struct engine_comm *accepted = NULL;
    struct weft_error error = {0};
    weft_status status;

    (void)offload;
    *comm = NULL;
    if (!process_is_up()) {
        return ABI_INVALID_USAGE;
    }
    status = engine_accept(listener, &accepted, &error);
    if (status < 0) {
        return failed("accept", &error);
    }
    if (status == WEFT_AGAIN) {
        process_polled();
    }
    *comm = accepted;
    return ABI_SUCCESS;
}

abi_status plugin_close(void *comm)
{
    if (comm != NULL && process_is_up()) {
        engine_close_now(comm);
    }
    return ABI_SUCCESS;
}

abi_status plugin_close_listen(void *listener)
{
    if (listener != NULL && process_is_up()) {
        engine_close_listen(listener);
    }
    return ABI_SUCCESS;
}

/* ---- memory ---- */

static abi_status register_region(const char *call, void *comm,
                                  const struct engine_region *region, void **mhandle)
{
    struct engine_memory *memory = NULL;
    struct weft_error error = {0};

    *mhandle = NULL;
    if (region->addr == NULL || region->length == 0 || !process_is_up()) {
        return ABI_INVALID_ARGUMENT;
    }
    if (engine_register(comm, region, &memory, &error) != WEFT_OK) {
        (void)failed(call, &error);
        return error.status == WEFT_ERR_UNSUPPORTED ? ABI_INVALID_USAGE
                                                    : result_of(error.status);
    }
    *mhandle = memory;
    return ABI_SUCCESS;
}

abi_status plugin_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle)
{
    struct engine_region region = {.place = type == ABI_PTR_CUDA ? ENGINE_PLACE_GPU
                                                                 : ENGINE_PLACE_HOST,
                                   .addr = data,
                                   .length = size};

    if (type != ABI_PTR_HOST && type != ABI_PTR_CUDA) {
        *mhandle = NULL;
        return ABI_INVALID_ARGUMENT;
    }
    return register_region("regMr", comm, &region, mhandle);
}

abi_status plugin_reg_mr_dmabuf(void *comm, void *data, size_t size, int type,
                                uint64_t offset, int fd, void **mhandle)
{
    struct engine_region region = {.place = ENGINE_PLACE_DMABUF,
                                   .addr = data,
                                   .length = size,
                                   .fd = fd,
                                   .offset = offset};

    (void)type;
    return register_region("regMrDmaBuf", comm, &region, mhandle);
}

abi_status plugin_dereg_mr(void *comm, void *mhandle)
{
    if (mhandle != NULL && process_is_up()) {
        engine_deregister(comm, mhandle);
    }
    return ABI_SUCCESS;
}

/* ---- data ---- */

static abi_status comm_failed(struct engine_comm *comm)
{
    struct weft_error error;

    engine_comm_error(comm, &error);
    return failed(engine_comm_is_sender(comm) ? "send" : "receive", &error);
}

static abi_status not_registered(const char *call, const void *data, size_t size)
{
    const char *code = diag_entry(DIAG_PLUGIN_NOT_REGISTERED)->code;

    plugin_log(ABI_LOG_WARN,
               "%s: %zu bytes at %p are not all in the memory of their regMr [%s: weft "
               "explain %s]",
               call, size, data, code, code);
    return ABI_INVALID_ARGUMENT;
}

/* Rejects a size that no message can have. */
static abi_status too_large(const char *call, size_t size)
{
    plugin_log(ABI_LOG_WARN, "%s: %zu bytes, of at most %llu", call, size,
               (unsigned long long)XFER_SIZE_MAX);
    return ABI_INVALID_ARGUMENT;
}

abi_status plugin_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                        void *event, void **request)
{
    struct engine_request *open = NULL;
    weft_status status;

    (void)event;
    *request = NULL;
    if (size > XFER_SIZE_MAX) {
        return too_large("isend", size);
    }
    status = engine_isend(comm, data, size, (uint32_t)tag, mhandle, &open);
    if (status == WEFT_ERR_INPUT) {
        return not_registered("isend", data, size);
    }
    if (status < 0) {
        return comm_failed(comm);
    }
    *request = open;
    return ABI_SUCCESS;
}

/* Ignores the mark of an optional completion. It is only an offer, so the request is done when
 * the message has arrived. */
abi_status plugin_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
                        void **mhandles, void **events, void **request)
{
    struct engine_request *open = NULL;
    struct engine_memory *memories[ENGINE_GROUP_MAX];
    uint32_t as_unsigned[ENGINE_GROUP_MAX];
    weft_status status;

    (void)events;
    *request = NULL;
    if (n < 1 || n > ENGINE_GROUP_MAX) {
        plugin_log(ABI_LOG_WARN, "irecv: %d buffers, of 1 to %d", n, ENGINE_GROUP_MAX);
        return ABI_INVALID_ARGUMENT;
    }
    for (int i = 0; i < n; i++) {
        if (sizes[i] > XFER_SIZE_MAX) {
            return too_large("irecv", sizes[i]);
        }
        memories[i] = mhandles[i];
        as_unsigned[i] = (uint32_t)tags[i];
    }
    status = engine_irecv(comm, (uint32_t)n, data, sizes, as_unsigned, memories, &open);
    if (status == WEFT_ERR_INPUT) {
        return not_registered("irecv", data[0], sizes[0]);
    }
    if (status < 0) {
        return comm_failed(comm);
    }
    *request = open;
    return ABI_SUCCESS;
}

/* Host memory needs no flush. One flush of the last buffer in GPU memory is enough, because it
 * also completes earlier writes. */
abi_status plugin_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                         void **request)
{
    struct engine_request *open = NULL;

    *request = NULL;
    for (int i = n; i-- > 0;) {
        weft_status status = engine_iflush(
            comm, data[i], sizes[i] < 0 ? 0 : (size_t)sizes[i], mhandles[i], &open);

        if (status == WEFT_ERR_INPUT) {
            return not_registered("iflush", data[i], (size_t)sizes[i]);
        }
        if (status < 0) {
            return comm_failed(comm);
        }
        if (status ==
            WEFT_AGAIN) { /* a NULL request would mean that there is nothing to do */
            plugin_log(ABI_LOG_WARN, "iflush: more than %d requests", ENGINE_REQUESTS);
            return ABI_INVALID_USAGE;
        }
        if (open != NULL) {
            break;
        }
    }
    *request = open;
    return ABI_SUCCESS;
}

abi_status plugin_test(void *request, int *done, int *sizes)
{
    size_t as_size[ENGINE_GROUP_MAX];
    struct engine_comm *comm = engine_request_comm(request);
    uint32_t n = 0;
    weft_status status = engine_test(request, as_size, &n);

    *done = status == WEFT_OK;
    for (uint32_t i = 0; i < n && sizes != NULL; i++) {
        sizes[i] = (int)as_size[i];
    }
    if (status == WEFT_AGAIN) {
        process_polled();
    }
    return status < 0 ? comm_failed(comm) : ABI_SUCCESS;
}

abi_status plugin_set_attributes(void *context, struct abi_attributes *attributes)
{
    (void)context;
    (void)attributes;
    return ABI_SUCCESS;
}
