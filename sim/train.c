#include "sim/train.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/rc_impl.h"

enum {
    ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20,
    TRAIN_PACKETS_MAX = 4096 /* their bytes are counted in 32 bits */
};

static struct sim_frame *in_flight(struct sim_link *link, uint32_t index)
{
    return &link->ring[(link->head + index) & (link->cap - 1)];
}

/* Of events at `first`, `first` + `spacing` and so on, `n` in all, how many are past. */
static uint32_t n_past(const struct sim_engine *engine, weft_ps first, weft_ps spacing,
                       uint32_t n, uint32_t rank)
{
    weft_ps now = sim_now(engine);
    if (now < first) {
        return 0;
    }
    weft_ps last = (now - first) / spacing;
    if (last >= n) {
        return n;
    }
    /* Whatever came before that one is past, it may be only due. */
    return (uint32_t)last + sim_is_past(engine, first + last * spacing, rank);
}

/* ---- starting ---- */

/* The only QP that has something to send, or NULL. */
static struct sim_qp *only_ready(const struct sim_port *port)
{
    const struct sim_nic *nic = port->nic;
    const struct sim_nic_port *own =
        nic->ports[0].port == port ? &nic->ports[0] : &nic->ports[1];
    bool is_one = own->ready != NULL && own->ready->next_ready == NULL;
    return is_one ? own->ready : NULL;
}

/* Nothing on the way does anything to frames but let them pass. */
static bool is_plain(const struct sim_port *port, const struct sim_frame *frame)
{
    const struct sim_link *link = &port->out;
    const struct sim_port *to = link->to;
    uint32_t ip_bytes = (uint32_t)frame->wire_bytes - ETHERNET_OVERHEAD_BYTES;
    if (to == NULL || to->nic == NULL || to->bridge != NULL || to->root != NULL ||
        to->tap != NULL || frame->path->destination_mac != to->mac || to == port) {
        return false;
    }
    return port->root == NULL && port->bridge == NULL && port->tap == NULL &&
           !link->is_impaired && link->jitter_ps == 0 && link->path_limit_bytes == 0 &&
           port->n_matches == 0 && ip_bytes <= port->mtu_bytes &&
           ip_bytes <= to->mtu_bytes && sim_port_is_up(port);
}

/* Packets from `first_at` on come behind all that is in flight. */
static bool comes_last(struct sim_link *link, weft_ps first_at)
{
    return first_at >= link->last_at &&
           (link->n == 0 || in_flight(link, link->n - 1)->at <= first_at);
}

static void occupy(struct sim_port *port, const struct sim_frame *frame, weft_ps spacing)
{
    uint32_t n = frame->n_before + 1u;
    struct sim_direction_stats *stats = &port->out.stats;
    port->free_at = sim_now(port->engine) + spacing * n;
    stats->packets += n;
    stats->bytes += (uint64_t)frame->wire_bytes * n;
    stats->busy_ps += spacing * n;
}

bool sim_train_send(struct sim_port *port, struct sim_frame *frame)
{
    struct sim_link *link = &port->out;
    struct sim_qp *qp = only_ready(port);
    if (qp == NULL || port->waiting.n > 0 || !sim_engine_allows_trains(port->engine) ||
        !is_plain(port, frame)) {
        return false;
    }
    weft_ps spacing = sim_rate_time(&link->rate, frame->wire_bytes);
    weft_ps flight = link->delay_ps + sim_nic_rx_overhead(link->to->nic);
    if (flight <= 0 || !comes_last(link, sim_now(port->engine) + spacing + flight)) {
        return false;
    }
    uint32_t n = rc_train_extend(qp, frame, TRAIN_PACKETS_MAX - 1);
    if (n == 0) {
        return false;
    }
    frame->n_before = (uint16_t)n;
    port->train.qp = qp;
    port->train.n = n + 1;
    port->train.start = sim_now(port->engine);
    port->train.spacing = spacing;
    occupy(port, frame, spacing);
    link->n_trains++;
    sim_link_put_frame(link, frame, port->free_at, 0);
    if (link->n == 1) {
        sim_train_comes(link);
    }
    return true;
}

/* ---- interference ---- */

/* Leaves `n` fewer packets to the train that was put last. */
static void shorten(struct sim_link *link, uint32_t n, weft_ps spacing)
{
    struct sim_frame *frame = in_flight(link, link->n - 1);
    weft_check(frame->n_before >= n);
    frame->n_before = (uint16_t)(frame->n_before - n);
    frame->psn = (frame->psn - n) & RC_PSN_MASK;
    frame->payload -= (size_t)n * frame->n_payload;
    frame->flags &= (uint8_t)~SIM_FRAME_ACK_REQ;
    frame->at -= spacing * n;
    link->last_at = frame->at;
    link->n_trains -= frame->n_before == 0;
    if (link->n == 1) {
        sim_schedule(link->from->engine, &link->arrival, frame->at);
    }
}

void sim_train_cut_now(struct sim_port *port)
{
    struct sim_qp *qp = port->train.qp;
    weft_ps spacing = port->train.spacing;
    /* The first was sent when the train was. */
    uint32_t n_sent = 1 + n_past(port->engine, port->train.start + spacing, spacing,
                                 port->train.n - 1, port->transmit.rank);
    uint32_t n = port->train.n - n_sent;
    struct sim_direction_stats *stats = &port->out.stats;
    port->train.qp = NULL;
    if (n == 0) {
        return;
    }
    rc_train_take_back(qp, n);
    stats->packets -= n;
    stats->busy_ps -= spacing * n;
    stats->bytes -= (uint64_t)in_flight(&port->out, port->out.n - 1)->wire_bytes * n;
    shorten(&port->out, n, spacing);
    port->free_at -= spacing * n;
    sim_schedule(port->engine, &port->transmit, port->free_at);
}

/* Packets of the first train in flight that have arrived. */
static void execute_past(struct sim_link *link)
{
    const struct sim_frame *frame = in_flight(link, 0);
    weft_ps spacing = sim_rate_time(&link->rate, frame->wire_bytes);
    uint32_t n = n_past(link->from->engine, frame->at - spacing * frame->n_before,
                        spacing, frame->n_before, link->arrival.rank);
    if (n > link->n_executed) {
        rc_train_execute(link->to->nic, frame, link->n_executed, n - link->n_executed);
        link->n_executed = n;
    }
}

/* Writes the frames that `frame` stands for, but the first `skip` of them, to `out`. */
static uint32_t unfold(const struct sim_frame *frame, uint32_t skip, weft_ps spacing,
                       struct sim_frame *out)
{
    uint32_t n_written = 0;
    for (uint32_t i = skip; i <= frame->n_before; i++) {
        uint32_t back = frame->n_before - i;
        struct sim_frame *one = &out[n_written++];
        *one = *frame;
        one->n_before = 0;
        if (back > 0) {
            one->at -= spacing * back;
            one->psn = (frame->psn - back) & RC_PSN_MASK;
            one->payload -= (size_t)back * frame->n_payload;
            one->flags &= (uint8_t)~SIM_FRAME_ACK_REQ;
        }
    }
    return n_written;
}

/* Every packet in flight has its frame. */
static void unfold_all(struct sim_link *link)
{
    uint32_t n = 0;
    uint32_t cap = link->cap;
    for (uint32_t i = 0; i < link->n; i++) {
        n += in_flight(link, i)->n_before + 1u;
    }
    while (cap < n) {
        cap *= 2;
    }
    struct sim_frame *ring = weft_alloc(cap * sizeof(*ring));
    n = 0;
    for (uint32_t i = 0; i < link->n; i++) {
        const struct sim_frame *frame = in_flight(link, i);
        weft_ps spacing = sim_rate_time(&link->rate, frame->wire_bytes);
        n += unfold(frame, i == 0 ? link->n_executed : 0, spacing, &ring[n]);
    }
    free(link->ring);
    link->ring = ring;
    link->head = 0;
    link->n = n;
    link->cap = cap;
    link->n_trains = 0;
    link->n_executed = 0;
    sim_schedule(link->from->engine, &link->arrival, ring[0].at);
}

void sim_train_settle_link(struct sim_link *link)
{
    sim_train_cut(link->from);
    if (link->n_trains == 0) {
        return;
    }
    if (in_flight(link, 0)->n_before > 0) {
        execute_past(link);
    }
    unfold_all(link);
}

void sim_train_settle_now(struct sim_port *port)
{
    sim_train_settle_link(&port->out);
    if (port->out.to != NULL) {
        sim_train_settle_link(&port->out.to->out);
    }
}

/* ---- arriving ---- */

void sim_train_comes(struct sim_link *link)
{
    const struct sim_frame *frame = in_flight(link, 0);
    if (!rc_train_fits(link->to->nic, link->to, frame, frame->n_before + 1u)) {
        sim_train_settle_link(link);
    }
}

void sim_train_arrives(struct sim_link *link, const struct sim_frame *frame)
{
    rc_train_execute(link->to->nic, frame, link->n_executed,
                     frame->n_before - link->n_executed);
    link->n_executed = 0;
    link->n_trains--;
}
