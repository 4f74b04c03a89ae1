/* Adds the data path of a device to the event log: posted work requests and polled completions,
 * in the words of the simulated NIC. Replaces the plain data path only while a log is written. A
 * completion is logged when its owner polls it. */
#include "backends/verbs/device.h"
#include "base/observe.h"
#include "base/text.h"
#include "base/trace.h"

static struct verbs_device *owner_of(const struct ibv_cq *cq)
{
    return ((const struct verbs_cq *)cq->cq_context)->device;
}

static void begin(const struct verbs_device *device, uint32_t qpn, const char *event)
{
    char object[64];
    weft_ns now;
    weft_format(object, sizeof object, "%s/qp%u", device->io.name, qpn);
    weft_observe_begin();
    now = linux_loop_now(device->loop);
    weft_observe_end();
    weft_trace_begin(device->story, now, device->host, object, event);
}

static void tell_post(const struct verbs_device *device, uint32_t qpn, const char *opcode,
                      const struct ibv_sge *sges, int n_sges)
{
    int64_t n_bytes = 0;
    for (int i = 0; i < n_sges; i++) {
        n_bytes += sges[i].length;
    }
    begin(device, qpn, "post");
    weft_trace_text(device->story, "opcode", opcode);
    weft_trace_int(device->story, "bytes", n_bytes);
    weft_trace_end(device->story);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    const struct verbs_device *device = owner_of(qp->send_cq);
    int result = device->plain->post_send(qp, wr, bad);
    const struct ibv_send_wr *end = result == 0 ? NULL : *bad;
    for (; wr != NULL && wr != end; wr = wr->next) {
        tell_post(device, qp->qp_num, io_wr_opcode_name((int)wr->opcode), wr->sg_list,
                  wr->num_sge);
    }
    return result;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    const struct verbs_device *device = owner_of(qp->recv_cq);
    int result = device->plain->post_recv(qp, wr, bad);
    const struct ibv_recv_wr *end = result == 0 ? NULL : *bad;
    for (; wr != NULL && wr != end; wr = wr->next) {
        tell_post(device, qp->qp_num, "RECV", wr->sg_list, wr->num_sge);
    }
    return result;
}

/* In a failed completion only status and QP number are valid (ibv_poll_cq(3)), besides wr_id and
 * vendor_err. */
static void tell_completion(const struct verbs_device *device, const struct ibv_wc *wc)
{
    begin(device, wc->qp_num, "complete");
    if (wc->status == IBV_WC_SUCCESS) {
        weft_trace_text(device->story, "opcode", io_wc_opcode_name((int)wc->opcode));
    }
    weft_trace_text(device->story, "status", io_wc_status_name((int)wc->status));
    if (wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV) != 0) {
        weft_trace_int(device->story, "bytes", wc->byte_len);
    }
    weft_trace_end(device->story);
}

static int poll_cq(struct ibv_cq *cq, int n_max, struct ibv_wc *wc, int *out_n)
{
    const struct verbs_device *device = owner_of(cq);
    int result = device->plain->poll_cq(cq, n_max, wc, out_n);
    for (int i = 0; i < *out_n; i++) {
        tell_completion(device, &wc[i]);
    }
    return result;
}

void verbs_device_tell(struct verbs_device *device, struct weft_trace *story,
                       const char *host)
{
    if (!weft_trace_on(story, WEFT_TRACE_STORY)) {
        return;
    }
    weft_format(device->host, sizeof device->host, "%s", host);
    device->story = story;
    device->plain = device->io.ops;
    device->telling = *device->plain;
    device->telling.post_send = post_send;
    device->telling.post_recv = post_recv;
    device->telling.poll_cq = poll_cq;
    device->io.ops = &device->telling;
}
