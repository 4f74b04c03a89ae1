/* Measures how fast each rail moves large parts of messages while it is busy. Short messages do not
 * count, because their time is mostly latency. Time without a part under way does not count,
 * because the rail then waits for the receiver, other rails or the program. */
#include "xfer/private.h"

static struct xfer_rail_pace *pace_of(struct xfer *xfer,
                                      const struct xfer_part_send *part)
{
    return &xfer->paces[part->qp % xfer->conn->n_rails];
}

static bool is_large(const struct xfer_part_send *part)
{
    return part->end - part->begin >= XFER_PACE_PART_BYTES;
}

void xfer_pace_begin(struct xfer *xfer, const struct xfer_part_send *part)
{
    if (is_large(part)) {
        struct xfer_rail_pace *pace = pace_of(xfer, part);

        if (pace->n_under_way++ == 0) {
            pace->since_ns = io_now(xfer->conn->rdma->env);
        }
    }
}

void xfer_pace_end(struct xfer *xfer, const struct xfer_part_send *part)
{
    struct xfer_rail_pace *pace = pace_of(xfer, part);
    weft_ns now;

    if (!is_large(part) || pace->n_under_way == 0) {
        return;
    }
    now = io_now(xfer->conn->rdma->env);
    pace->n_under_way--;
    pace->busy_ns += now - pace->since_ns;
    pace->since_ns = now;
    pace->window_bytes += part->end - part->begin;
    if (pace->window_bytes >= XFER_PACE_WINDOW_BYTES && pace->busy_ns >= 1000) {
        uint64_t bps = pace->window_bytes * 8000000 / (uint64_t)(pace->busy_ns / 1000);

        pace->out.best_bps = bps > pace->out.best_bps ? bps : pace->out.best_bps;
        pace->out.n_bytes += pace->window_bytes;
        pace->window_bytes = 0;
        pace->busy_ns = 0;
    }
}

struct xfer_pace xfer_pace_of(const struct xfer *xfer, uint32_t rail)
{
    return xfer->paces[rail].out;
}
