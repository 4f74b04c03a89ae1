/* libibverbs, opened at run time, because a program that uses no RDMA device does not need it. */
#ifndef WEFT_BACKENDS_VERBS_LIBRARY_H
#define WEFT_BACKENDS_VERBS_LIBRARY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define VERBS_LIBRARY "libibverbs.so.1"

/* The functions that Weft calls, named as in their manual pages without "ibv_". dlsym(3) returns
 * each symbol's default version. Functions that <infiniband/verbs.h> defines inline (posting,
 * polling) are called through the context and need no symbol. Those marked NULL are missing in
 * old libraries. */
struct verbs_library {
    void *handle; /* of dlopen(3); NULL for a library made by a test */
    struct ibv_device **(*get_device_list)(int *out_n);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    __be64 (*get_device_guid)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *out);
    /* Fills only the first part of the attributes; see verbs_query_port() in facts.c. */
    int (*query_port)(struct ibv_context *context, uint8_t port,
                      struct _compat_ibv_port_attr *out);
    int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *out, uint32_t flags,
                        size_t entry_bytes); /* NULL before 1.11 */
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t length,
                                   uint64_t iova, unsigned access); /* NULL before 1.8 */
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd,
                                    int access); /* NULL before 1.12 */
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **out_cq,
                        void **out_cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned n);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *init);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
                                  uint32_t flags); /* NULL before 1.14 */
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *out);
    void (*ack_async_event)(struct ibv_async_event *event);
};

/* Opens `name` (NULL: VERBS_LIBRARY). Fails with WEFT_ERR_ENVIRONMENT, and holds nothing, if it
 * is not installed or lacks a required function. */
weft_status verbs_library_open(const char *name, struct verbs_library *out,
                               struct weft_error *error);
/* Closes the library. None of its objects may exist any more. */
void verbs_library_close(struct verbs_library *library);

#endif
