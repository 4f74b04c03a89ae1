#include "xfer/relay.h"

#include "base/check.h"
weft_status relay_open(struct rdma *rdma, const struct relay_config *config,
                       struct io_task *task, struct relay **out, struct weft_error *error)
{
    (void)rdma;
    (void)config;
    (void)task;
    (void)error;
    *out = NULL;
    return WEFT_ERR_UNSUPPORTED;
}
bool relay_accept(struct relay *relay, struct conn *conn)
{
    (void)relay;
    (void)conn;
    return false;
}
bool relay_owns(const struct relay *relay, const struct conn *conn)
{
    (void)relay;
    (void)conn;
    return false;
}
void relay_progress(struct relay *relay)
{
    (void)relay;
}
void relay_close(struct relay *relay)
{
    (void)relay;
}
bool relay_is_closed(const struct relay *relay)
{
    (void)relay;
    return true;
}
void relay_destroy(struct relay *relay)
{
    (void)relay;
}
void relay_counters(const struct relay *relay, struct relay_counters *out)
{
    (void)relay;
    (void)out;
}
