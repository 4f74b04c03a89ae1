#include <errno.h>

#include "io/verbs.h"
#include "rdma/rdma.h"

/* Starts a verb, and abandons it if it is not done at once. Returns an errno if it failed at
 * once. */
static int submit_forgotten(struct io_device *device, const struct io_op *filled)
{
    struct io_op op = *filled;
    int error = device->ops->submit(device, &op);

    if (error == 0 && op.state == IO_OP_RUNNING) {
        device->ops->abandon(device, &op);
        return 0;
    }
    return error != 0 ? error : op.error;
}

void rdma_forget_op(struct io_device *device, const struct io_op *filled)
{
    int error = submit_forgotten(device, filled);

    /* Try again, because no caller repeats the verb and the object would leak. */
    if (error == EAGAIN || error == EINTR || error == ENOMEM) {
        (void)submit_forgotten(device, filled);
    }
}
