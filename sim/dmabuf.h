/* Simulated dmabuf file descriptors: GPU memory that one process exports to devices. A
 * region registered by descriptor does not count as pinned, and loses its memory when the
 * exporter revokes it (move_notify, Linux drivers/dma-buf). */
#ifndef WEFT_SIM_DMABUF_H
#define WEFT_SIM_DMABUF_H

#include <stddef.h>
#include <stdint.h>

/* The exports of one process. */
struct sim_dmabufs;
/* One export. It exists while its descriptor is open or regions refer to it. */
struct sim_dmabuf;

struct sim_dmabufs *sim_dmabufs_create(void);
/* Revokes and closes all exports. NULL is ignored. */
void sim_dmabufs_destroy(struct sim_dmabufs *table);
/* Exports [addr, addr + n_bytes). Returns the lowest free descriptor, at least 3. */
int sim_dmabuf_export(struct sim_dmabufs *table, void *addr, size_t n_bytes);
/* Closes the descriptor; regions keep their memory. Fails with EBADF if it is not
 * open. */
int sim_dmabuf_close(struct sim_dmabufs *table, int fd);
/* Revokes the memory, as the exporter may; accesses fail from now on. Fails with EBADF if
 * the descriptor is not open. */
int sim_dmabuf_revoke(struct sim_dmabufs *table, int fd);

struct sim_nic;
/* Sets the descriptors of the process that is `user` of `nic`. Without a table every
 * descriptor fails with EBADF. */
void sim_nic_set_dmabufs(struct sim_nic *nic, uint32_t user, struct sim_dmabufs *table);

/* For the NIC. Calls `revoke` when the memory is revoked. Fails with EBADF, or with EINVAL
 * if the memory was revoked before or [offset, offset + length) is not inside the export. */
struct sim_mr;
int sim_dmabuf_attach(struct sim_dmabufs *table, int fd, uint64_t offset, size_t length,
                      struct sim_mr *mr, void (*revoke)(struct sim_mr *mr));
void sim_dmabuf_detach(struct sim_mr *mr);

#endif
