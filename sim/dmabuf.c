#include "sim/dmabuf.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/nic_objects.h"

enum { FD_FIRST = 3 };

struct sim_dmabuf {
    uint8_t *addr;
    size_t n_bytes;
    bool is_open, is_revoked;
    struct sim_mr *mrs;                /* attached regions, by next_attached */
    void (*revoke)(struct sim_mr *mr); /* called for each; valid if there is one */
};

struct sim_dmabufs {
    struct sim_dmabuf **open; /* Owned array of [n], by fd - FD_FIRST; NULL if free */
    int n;
};

struct sim_dmabufs *sim_dmabufs_create(void)
{
    return weft_calloc(1, sizeof(struct sim_dmabufs));
}

static void free_if_unused(struct sim_dmabuf *buffer)
{
    if (!buffer->is_open && buffer->mrs == NULL) {
        free(buffer);
    }
}

static struct sim_dmabuf *find(const struct sim_dmabufs *table, int fd)
{
    int index = fd - FD_FIRST;
    return table != NULL && index >= 0 && index < table->n ? table->open[index] : NULL;
}

int sim_dmabuf_export(struct sim_dmabufs *table, void *addr, size_t n_bytes)
{
    int index = 0;
    while (index < table->n && table->open[index] != NULL) {
        index++;
    }
    if (index == table->n) {
        table->n++;
        table->open =
            weft_realloc(table->open, (size_t)table->n * sizeof(struct sim_dmabuf *));
    }
    struct sim_dmabuf *buffer = weft_calloc(1, sizeof(*buffer));
    buffer->addr = addr;
    buffer->n_bytes = n_bytes;
    buffer->is_open = true;
    table->open[index] = buffer;
    return index + FD_FIRST;
}

int sim_dmabuf_close(struct sim_dmabufs *table, int fd)
{
    struct sim_dmabuf *buffer = find(table, fd);
    if (buffer == NULL) {
        return EBADF;
    }
    table->open[fd - FD_FIRST] = NULL;
    buffer->is_open = false;
    free_if_unused(buffer);
    return 0;
}

int sim_dmabuf_revoke(struct sim_dmabufs *table, int fd)
{
    struct sim_dmabuf *buffer = find(table, fd);
    if (buffer == NULL) {
        return EBADF;
    }
    buffer->is_revoked = true;
    for (struct sim_mr *mr = buffer->mrs; mr != NULL; mr = mr->next_attached) {
        buffer->revoke(mr);
    }
    return 0;
}

void sim_dmabufs_destroy(struct sim_dmabufs *table)
{
    if (table == NULL) {
        return;
    }
    for (int fd = FD_FIRST; fd < FD_FIRST + table->n; fd++) {
        (void)sim_dmabuf_revoke(table, fd);
        (void)sim_dmabuf_close(table, fd);
    }
    free(table->open);
    free(table);
}

void sim_nic_set_dmabufs(struct sim_nic *nic, uint32_t user, struct sim_dmabufs *table)
{
    nic->users[user]->dmabufs = table;
}

int sim_dmabuf_attach(struct sim_dmabufs *table, int fd, uint64_t offset, size_t length,
                      struct sim_mr *mr, void (*revoke)(struct sim_mr *mr))
{
    struct sim_dmabuf *buffer = find(table, fd);
    if (buffer == NULL) {
        return EBADF;
    }
    if (buffer->is_revoked || offset > buffer->n_bytes ||
        length > buffer->n_bytes - offset) {
        return EINVAL;
    }
    buffer->revoke = revoke;
    mr->dmabuf = buffer;
    mr->ibv.addr = buffer->addr + offset;
    mr->next_attached = buffer->mrs;
    buffer->mrs = mr;
    return 0;
}

void sim_dmabuf_detach(struct sim_mr *mr)
{
    struct sim_dmabuf *buffer = mr->dmabuf;
    struct sim_mr **at = &buffer->mrs;
    while (*at != mr) {
        at = &(*at)->next_attached;
    }
    *at = mr->next_attached;
    mr->dmabuf = NULL;
    free_if_unused(buffer);
}
