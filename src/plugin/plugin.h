/* The functions behind the tables of all versions, in terms of the newest version. Each has the
 * meaning of the table's member (nccl_abi.h), and can be called from any thread. */
#ifndef WEFT_PLUGIN_PLUGIN_H
#define WEFT_PLUGIN_PLUGIN_H

#include "plugin/nccl_abi.h"

#define PLUGIN_NAME "Mesh"

abi_status plugin_init(void **context, uint64_t comm_id, struct abi_config *config,
                       abi_logger logger, abi_profiler profiler);
/* Returns the context of a communicator. */
void *plugin_context(const struct abi_config *config);
abi_status plugin_finalize(void *context);
abi_status plugin_devices(int *n);
abi_status plugin_properties(int device, struct abi_properties_v12 *out);
abi_status plugin_listen(void *context, int device, void *handle, void **comm);
abi_status plugin_connect(void *context, int device, void *handle, void **comm,
                          struct abi_device_handle **offload);
abi_status plugin_accept(void *listener, void **comm, struct abi_device_handle **offload);
abi_status plugin_reg_mr(void *comm, void *data, size_t size, int type, void **mhandle);
abi_status plugin_reg_mr_dmabuf(void *comm, void *data, size_t size, int type,
                                uint64_t offset, int fd, void **mhandle);
abi_status plugin_dereg_mr(void *comm, void *mhandle);
abi_status plugin_isend(void *comm, void *data, size_t size, int tag, void *mhandle,
                        void *event, void **request);
abi_status plugin_irecv(void *comm, int n, void **data, size_t *sizes, int *tags,
                        void **mhandles, void **events, void **request);
abi_status plugin_iflush(void *comm, int n, void **data, int *sizes, void **mhandles,
                         void **request);
abi_status plugin_test(void *request, int *done, int *sizes);
abi_status plugin_close(void *comm);
abi_status plugin_close_listen(void *listener);
abi_status plugin_set_attributes(void *context, struct abi_attributes *attributes);

#endif
