/* Memory of a GPU as one process exports it to devices: dmabuf file descriptors, simulated. A
 * region registered by one does not count as pinned, and loses its memory when the exporter
 * takes it back (move_notify, Linux drivers/dma-buf). */
#ifndef WEFT_SIM_DMABUF_H
#define WEFT_SIM_DMABUF_H

#include <stddef.h>
#include <stdint.h>

/* The exports of one process. */
struct sim_dmabufs;
/* One of them; alive while its descriptor is open or regions refer to it. */
struct sim_dmabuf;

struct sim_dmabufs *sim_dmabufs_create(void);
/* Closes all; regions lose their memory. NULL is ignored. */
void sim_dmabufs_destroy(struct sim_dmabufs *table);
/* Exports [addr, addr + n_bytes) and returns a descriptor, at least 3, the lowest free. */
int sim_dmabuf_export(struct sim_dmabufs *table, void *addr, size_t n_bytes);
/* EBADF if it is not open. Regions keep their memory. */
int sim_dmabuf_close(struct sim_dmabufs *table, int fd);
/* The exporter takes the memory back: accesses fail from now on. EBADF as above. */
int sim_dmabuf_revoke(struct sim_dmabufs *table, int fd);

struct sim_nic;
/* Gives the process that is `user` of `nic` its descriptors; without, all are EBADF. */
void sim_nic_set_dmabufs(struct sim_nic *nic, uint32_t user, struct sim_dmabufs *table);

/* The NIC's side. EBADF; EINVAL if [offset, offset + length) is not inside. */
struct sim_mr;
int sim_dmabuf_attach(struct sim_dmabufs *table, int fd, uint64_t offset, size_t length,
                      struct sim_mr *mr);
void sim_dmabuf_detach(struct sim_mr *mr);

#endif
