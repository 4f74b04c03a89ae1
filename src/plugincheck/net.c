#include "plugincheck/net.h"

#include <pthread.h>
#include <string.h>

#include "base/check.h"

#define GROUP_MAX 8

static pthread_mutex_t init_mutex = PTHREAD_MUTEX_INITIALIZER;

/* Copies the members that every version has under the same names. */
#define TAKE_COMMON(net, from)                                                           \
    do {                                                                                 \
        (net)->devices = (from)->devices;                                                \
        (net)->accept = (from)->accept;                                                  \
        (net)->reg_mr = (from)->reg_mr;                                                  \
        (net)->reg_mr_dmabuf = (from)->reg_mr_dmabuf;                                    \
        (net)->dereg_mr = (from)->dereg_mr;                                              \
        (net)->iflush = (from)->iflush;                                                  \
        (net)->test = (from)->test;                                                      \
        (net)->close_send = (from)->close_send;                                          \
        (net)->close_recv = (from)->close_recv;                                          \
        (net)->close_listen = (from)->close_listen;                                      \
        has_rest = (from)->get_properties != NULL && (from)->listen != NULL &&           \
                   (from)->connect != NULL && (from)->isend != NULL &&                   \
                   (from)->irecv != NULL;                                                \
    } while (0)

#define TAKE_FIRST(net, from)                                                            \
    ((net)->name = (from)->name, has_init = (from)->init != NULL)

const char *check_net_take(struct check_net *net, unsigned version, const void *symbol)
{
    bool has_init;

    memset(net, 0, sizeof(*net));
    net->version = version;
    net->table.any = symbol;
    switch (version) {
    case 8:
        TAKE_FIRST(net, net->table.v8);
        break;
    case 9:
        TAKE_FIRST(net, net->table.v9);
        break;
    case 10:
        TAKE_FIRST(net, net->table.v10);
        break;
    case 11:
        TAKE_FIRST(net, net->table.v11);
        break;
    default:
        TAKE_FIRST(net, net->table.v12);
        break;
    }
    if (net->name == NULL || net->name[0] == '\0') {
        return "name";
    }
    return has_init ? NULL : "init";
}

/* Copies the members that can be set by init. Returns a missing one, or NULL. */
static const char *take_rest(struct check_net *net)
{
    bool has_rest;

    switch (net->version) {
    case 8:
        TAKE_COMMON(net, net->table.v8);
        break;
    case 9:
        TAKE_COMMON(net, net->table.v9);
        break;
    case 10:
        TAKE_COMMON(net, net->table.v10);
        break;
    case 11:
        TAKE_COMMON(net, net->table.v11);
        break;
    default:
        TAKE_COMMON(net, net->table.v12);
        break;
    }
    if (net->version >= 11 && net->table.v11->finalize == NULL) {
        return "finalize";
    }
    return has_rest && net->devices != NULL && net->accept != NULL &&
                   net->reg_mr != NULL && net->dereg_mr != NULL && net->iflush != NULL &&
                   net->test != NULL && net->close_send != NULL &&
                   net->close_recv != NULL && net->close_listen != NULL
               ? NULL
               : "a function that is called without asking";
}

static abi_status call_init(const struct check_net *net, uint64_t comm_id,
                            abi_logger logger, void **out_context)
{
    struct abi_config config = {.traffic_class = ABI_UNDEFINED};

    switch (net->version) {
    case 8:
        return net->table.v8->init(logger);
    case 9:
        return net->table.v9->init(logger);
    case 10:
        return net->table.v10->init(logger, NULL);
    case 11:
        return net->table.v11->init(out_context, comm_id, &config, logger, NULL);
    default:
        return net->table.v12->init(out_context, comm_id, &config, logger, NULL);
    }
}

abi_status check_net_init(struct check_net *net, uint64_t comm_id, abi_logger logger,
                          void **out_context, bool *out_is_first,
                          const char **out_missing)
{
    abi_status status = ABI_SUCCESS;

    *out_context = NULL;
    *out_missing = NULL;
    pthread_mutex_lock(&init_mutex);
    *out_is_first = !net->is_init;
    if (*out_is_first || net->version >= 11) {
        status = call_init(net, comm_id, logger, out_context);
    }
    if (*out_is_first && status == ABI_SUCCESS) {
        *out_missing = take_rest(net);
        net->is_init = *out_missing == NULL;
    }
    pthread_mutex_unlock(&init_mutex);
    return status;
}

abi_status check_net_finalize(const struct check_net *net, void *context)
{
    if (net->version < 11) {
        return ABI_SUCCESS;
    }
    return net->version == 11 ? net->table.v11->finalize(context)
                              : net->table.v12->finalize(context);
}

#define COPY_COMMON(to, from)                                                            \
    do {                                                                                 \
        (to)->name = (from).name;                                                        \
        (to)->pci_path = (from).pci_path;                                                \
        (to)->guid = (from).guid;                                                        \
        (to)->ptr_support = (from).ptr_support;                                          \
        (to)->reg_is_global = (from).reg_is_global;                                      \
        (to)->speed = (from).speed;                                                      \
        (to)->port = (from).port;                                                        \
        (to)->latency = (from).latency;                                                  \
        (to)->max_comms = (from).max_comms;                                              \
        (to)->max_recvs = (from).max_recvs;                                              \
        (to)->net_device_type = (from).net_device_type;                                  \
        (to)->net_device_version = (from).net_device_version;                            \
    } while (0)

abi_status check_net_properties(const struct check_net *net, int device,
                                struct abi_properties_v12 *out)
{
    struct abi_properties_v8 v8 = {0};
    struct abi_properties_v9 v9 = {0};
    struct abi_properties_v11 v11 = {0};
    abi_status status;

    memset(out, 0, sizeof(*out));
    out->max_p2p_bytes = ABI_SIZE_MAX_V8;
    out->rail_id = out->plane_id = ABI_UNDEFINED;
    switch (net->version) {
    case 8:
        status = net->table.v8->get_properties(device, &v8);
        COPY_COMMON(out, v8);
        return status;
    case 9:
    case 10:
        status = net->version == 9 ? net->table.v9->get_properties(device, &v9)
                                   : net->table.v10->get_properties(device, &v9);
        COPY_COMMON(out, v9);
        out->max_p2p_bytes = v9.max_p2p_bytes;
        return status;
    case 11:
        status = net->table.v11->get_properties(device, &v11);
        COPY_COMMON(out, v11);
        out->max_p2p_bytes = v11.max_p2p_bytes;
        return status;
    default:
        return net->table.v12->get_properties(device, out);
    }
}

abi_status check_net_listen(const struct check_net *net, void *context, int device,
                            void *handle, void **comm)
{
    switch (net->version) {
    case 8:
        return net->table.v8->listen(device, handle, comm);
    case 9:
        return net->table.v9->listen(device, handle, comm);
    case 10:
        return net->table.v10->listen(device, handle, comm);
    case 11:
        return net->table.v11->listen(context, device, handle, comm);
    default:
        return net->table.v12->listen(context, device, handle, comm);
    }
}

abi_status check_net_connect(const struct check_net *net, void *context, int device,
                             void *handle, void **comm)
{
    struct abi_config config = {.traffic_class = ABI_UNDEFINED};
    struct abi_device_handle *none = NULL;

    switch (net->version) {
    case 8:
        return net->table.v8->connect(device, handle, comm, &none);
    case 9:
        return net->table.v9->connect(device, handle, comm, &none);
    case 10:
        return net->table.v10->connect(device, &config, handle, comm, &none);
    case 11:
        return net->table.v11->connect(context, device, handle, comm, &none);
    default:
        return net->table.v12->connect(context, device, handle, comm, &none);
    }
}

abi_status check_net_isend(const struct check_net *net, void *comm, void *data,
                           size_t size, int tag, void *mhandle, void **request)
{
    switch (net->version) {
    case 8:
        return net->table.v8->isend(comm, data, (int)size, tag, mhandle, request);
    case 9:
        return net->table.v9->isend(comm, data, size, tag, mhandle, request);
    case 10:
        return net->table.v10->isend(comm, data, size, tag, mhandle, NULL, request);
    case 11:
        return net->table.v11->isend(comm, data, size, tag, mhandle, NULL, request);
    default:
        return net->table.v12->isend(comm, data, size, tag, mhandle, NULL, request);
    }
}

abi_status check_net_irecv(const struct check_net *net, void *comm, int n, void **data,
                           const size_t *sizes, int *tags, void **mhandles,
                           void **request)
{
    void *events[GROUP_MAX] = {0};
    size_t copy[GROUP_MAX] = {0};
    int as_int[GROUP_MAX] = {0};

    weft_check(n >= 1 && n <= GROUP_MAX);
    for (int i = 0; i < n; i++) {
        copy[i] = sizes[i];
        as_int[i] = (int)sizes[i];
    }
    switch (net->version) {
    case 8:
        return net->table.v8->irecv(comm, n, data, as_int, tags, mhandles, request);
    case 9:
        return net->table.v9->irecv(comm, n, data, copy, tags, mhandles, request);
    case 10:
        return net->table.v10->irecv(comm, n, data, copy, tags, mhandles, events,
                                     request);
    case 11:
        return net->table.v11->irecv(comm, n, data, copy, tags, mhandles, events,
                                     request);
    default:
        return net->table.v12->irecv(comm, n, data, copy, tags, mhandles, events,
                                     request);
    }
}
