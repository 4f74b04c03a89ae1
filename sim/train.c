#include "sim/train.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/rc_impl.h"

enum {
    ETHERNET_OVERHEAD_BYTES = 14 + 4 + 20,
    ROUNDS_MIN = 2,           /* shorter trains are not worth their cost */
    TRAIN_PACKETS_MAX = 4096, /* sizes are counted in 32 bits */
};

static struct sim_frame *in_flight(const struct sim_link *link, uint32_t index)
{
    return &link->ring[(link->head + index) & (link->cap - 1)];
}

/* Returns how many of `n` events at `first`, `first` + `spacing` and so on are past. */
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
    /* Events before that one are past. It may be due but not yet past. */
    return (uint32_t)last + sim_is_past(engine, first + last * spacing, rank);
}

/* Returns how many of `n` packets belong to QP `index` when `n_qps` QPs send in turn. */
static uint32_t share(uint32_t n, uint32_t n_qps, uint32_t index)
{
    return n > index ? (n - index - 1) / n_qps + 1 : 0;
}

static struct sim_nic_port *nic_port(const struct sim_port *port)
{
    struct sim_nic *nic = port->nic;
    return nic->ports[0].port == port ? &nic->ports[0] : &nic->ports[1];
}

/* ---- starting ---- */

/* Lists the ready QPs in the order in which they will be served. Returns 0 if there are
 * too many. */
static uint32_t list_ready(const struct sim_port *port, struct sim_qp **out)
{
    uint32_t n = 0;
    for (struct sim_qp *qp = nic_port(port)->ready; qp != NULL; qp = qp->next_ready) {
        if (n == SIM_TRAIN_QPS_MAX) {
            return 0;
        }
        out[n++] = qp;
    }
    return n;
}

/* Moves the last QP, which was just served, to the front. Returns true if it built
 * `built`. */
static bool put_first(struct sim_qp **qps, uint32_t n, const struct sim_frame *built)
{
    struct sim_qp *last = qps[n - 1];
    for (uint32_t i = n - 1; i > 0; i--) {
        qps[i] = qps[i - 1];
    }
    qps[0] = last;
    return last->ibv.qp_num == built->source_qpn;
}

/* Returns true if the link does nothing to frames of that size but transfer them. */
static bool is_plain(const struct sim_port *port, const struct sim_path *path,
                     uint32_t wire_bytes)
{
    const struct sim_link *link = &port->out;
    const struct sim_port *to = link->to;
    uint32_t ip_bytes = wire_bytes - ETHERNET_OVERHEAD_BYTES;
    if (to == NULL || to->nic == NULL || to->bridge != NULL || to->root != NULL ||
        to->tap != NULL || path->destination_mac != to->mac || to == port) {
        return false;
    }
    return port->root == NULL && port->bridge == NULL && port->tap == NULL &&
           !link->is_impaired && link->jitter_ps == 0 && link->path_limit_bytes == 0 &&
           port->n_matches == 0 && ip_bytes <= port->mtu_bytes &&
           ip_bytes <= to->mtu_bytes && sim_port_is_up(port);
}

/* Returns true if packets from `first_at` on arrive after all frames in flight. They must
 * arrive later, because of two in one picosecond the second would count as past with the
 * first. */
static bool comes_last(const struct sim_link *link, weft_ps first_at)
{
    return first_at > link->last_at &&
           (link->n == 0 || in_flight(link, link->n - 1)->at < first_at);
}

static bool same_size(const struct sim_qp *a, const struct sim_qp *b)
{
    return a->mtu_bytes == b->mtu_bytes &&
           a->path->destination_mac == b->path->destination_mac &&
           a->path->header_bytes == b->path->header_bytes &&
           a->path->tag_bytes == b->path->tag_bytes;
}

/* Returns how many packets the QPs can send in turn, including the one that the first has
 * built. */
static uint32_t n_together(const struct sim_port *port, uint32_t n_qps,
                           const struct sim_frame *built)
{
    struct sim_qp *const *qps = port->train.qps;
    uint32_t least = TRAIN_PACKETS_MAX;
    for (uint32_t i = 0; i < n_qps; i++) {
        uint32_t n_built = i == 0 && built != NULL;
        uint32_t limit = port->engine->nic_ops->train_limit(qps[i], n_built);
        if (limit == 0 || !same_size(qps[i], qps[0])) {
            return 0;
        }
        /* The number of packets before the first turn at which this QP cannot send. */
        uint32_t n = (limit + n_built) * n_qps + i;
        least = n < least ? n : least;
    }
    return least;
}

/* Orders the ready list as it is after `n` packets of the train have been sent. */
static void line_up(struct sim_port *port, uint32_t n)
{
    const struct sim_train *train = &port->train;
    struct sim_nic_port *own = nic_port(port);
    struct sim_qp *rest = own->ready;
    for (uint32_t i = 0; i < train->n_qps; i++) {
        rest = rest->next_ready;
    }
    struct sim_qp **link = &own->ready;
    for (uint32_t i = 0; i < train->n_qps; i++) {
        *link = train->qps[(n + i) % train->n_qps];
        link = &(*link)->next_ready;
    }
    *link = rest;
    if (rest == NULL) {
        own->ready_tail = link;
    }
}

static void occupy(struct sim_port *port, uint32_t wire_bytes)
{
    const struct sim_train *train = &port->train;
    struct sim_direction_stats *stats = &port->out.stats;
    port->free_at = train->start + train->spacing * train->n;
    stats->packets += train->n;
    stats->bytes += (uint64_t)wire_bytes * train->n;
    stats->busy_ps += train->spacing * train->n;
}

/* Makes every QP build its share. */
static void build_shares(struct sim_port *port, struct sim_frame *frames,
                         const struct sim_frame *built)
{
    struct sim_train *train = &port->train;
    for (uint32_t i = 0; i < train->n_qps; i++) {
        struct sim_qp *qp = train->qps[i];
        if (i == 0 && built != NULL) {
            frames[0] = *built;
        } else {
            bool is_built = port->engine->nic_ops->build_request(qp, &frames[i]);
            weft_check(is_built && frames[i].wire_bytes == frames[0].wire_bytes);
            train->turns[i] = qp->reply_turn;
            qp->reply_turn = true;
            qp->nic->tx_packets++;
        }
        port->engine->nic_ops->train_extend(qp, &frames[i],
                                            share(train->n, train->n_qps, i) - 1);
        frames[i].stride = (uint8_t)train->n_qps;
        frames[i].is_agreed = false;
    }
}

static void put_shares(struct sim_port *port, const struct sim_frame *frames)
{
    const struct sim_train *train = &port->train;
    struct sim_link *link = &port->out;
    /* In the order of the last packets of the shares. */
    for (uint32_t n = train->n - train->n_qps + 1; n <= train->n; n++) {
        const struct sim_frame *frame = &frames[(n - 1) % train->n_qps];
        link->n_trains += frame->n_before > 0;
        link->n_unasked += frame->n_before > 0;
        sim_link_put_frame(link, frame, train->start + train->spacing * n, 0);
    }
}

/* Returns the bytes that each packet of a train occupies on the wire. */
static uint32_t wire_bytes_of(const struct sim_qp *qp)
{
    uint32_t ip_bytes = sim_frame_ip_bytes(qp->path, 0, qp->mtu_bytes);
    return ip_bytes + ETHERNET_OVERHEAD_BYTES + qp->path->tag_bytes;
}

/* Starts a train of the first `n_qps` QPs of the port's list at `at`. Returns false if
 * that is not possible. */
static bool start(struct sim_port *port, weft_ps at, uint32_t n_qps,
                  const struct sim_frame *built)
{
    struct sim_train *train = &port->train;
    struct sim_link *link = &port->out;
    const struct sim_path *path = train->qps[0]->path;
    uint32_t wire_bytes = wire_bytes_of(train->qps[0]);
    if (!is_plain(port, path, wire_bytes)) {
        return false;
    }
    weft_ps spacing = sim_rate_time(&link->rate, wire_bytes);
    weft_ps flight = link->delay_ps + link->to->rx_overhead_ps;
    uint32_t n = n_together(port, n_qps, built);
    if (n < ROUNDS_MIN * n_qps || flight <= 0 ||
        !comes_last(link, at + spacing + flight)) {
        return false;
    }
    struct sim_frame frames[SIM_TRAIN_QPS_MAX];
    train->n_qps = n_qps;
    train->n = n;
    port->in_train = true;
    train->start = at;
    train->spacing = spacing;
    occupy(port, wire_bytes);
    build_shares(port, frames, built);
    weft_check(frames[0].wire_bytes == wire_bytes);
    line_up(port, n);
    put_shares(port, frames);
    sim_train_ask(link);
    return true;
}

bool sim_train_send(struct sim_port *port, const struct sim_frame *built)
{
    const unsigned in_the_way = SIM_FRAME_ACK_REQ | SIM_FRAME_CORRUPT | SIM_FRAME_OWNED |
                                SIM_FRAME_RETRANSMIT | SIM_FRAME_HASHED;
    bool is_middle = built->opcode == RC_SEND_MIDDLE || built->opcode == RC_WRITE_MIDDLE;
    if (!is_middle || (built->flags & in_the_way) != 0 || port->waiting.n > 0) {
        return false;
    }
    uint32_t n_qps = list_ready(port, port->train.qps);
    return n_qps > 0 && put_first(port->train.qps, n_qps, built) &&
           start(port, sim_now(port->engine), n_qps, built);
}

void sim_train_follow(struct sim_port *port)
{
    const struct sim_qp *first = nic_port(port)->ready;
    if (first == NULL || first->sq.packet == 0 || port->waiting.n > 0) {
        return;
    }
    uint32_t n_qps = list_ready(port, port->train.qps);
    if (n_qps > 0) {
        (void)start(port, port->free_at, n_qps, NULL);
    }
}

/* ---- interference ---- */

/* Sorts the frames by arrival, and schedules the event of the first. */
static void sort(struct sim_link *link)
{
    for (uint32_t i = 1; i < link->n; i++) {
        struct sim_frame frame = *in_flight(link, i);
        uint32_t at = i;
        for (; at > 0 && in_flight(link, at - 1)->at > frame.at; at--) {
            *in_flight(link, at) = *in_flight(link, at - 1);
        }
        *in_flight(link, at) = frame;
    }
    sim_schedule(link->from->engine, &link->arrival, in_flight(link, 0)->at);
}

/* Returns the index of the frame that a QP put last. */
static uint32_t last_of(const struct sim_link *link, const struct sim_qp *qp)
{
    uint32_t i = link->n;
    do {
        weft_check(i > 0);
        i--;
    } while (in_flight(link, i)->source_qpn != qp->ibv.qp_num);
    return i;
}

static void forget_train(struct sim_link *link, const struct sim_frame *frame)
{
    link->n_trains--;
    link->n_unasked -= !frame->is_agreed;
}

static void drop_at(struct sim_link *link, uint32_t index)
{
    if (in_flight(link, index)->n_before > 0) {
        forget_train(link, in_flight(link, index));
    }
    for (; index + 1 < link->n; index++) {
        *in_flight(link, index) = *in_flight(link, index + 1);
    }
    link->n--;
}

/* Removes the last `n` packets that the frame stands for, because they were not sent. */
static void shorten(struct sim_link *link, uint32_t index, uint32_t n, weft_ps spacing)
{
    struct sim_frame *frame = in_flight(link, index);
    weft_check(n <= frame->n_before);
    if (n == frame->n_before) {
        forget_train(link, frame);
    }
    frame->n_before = (uint16_t)(frame->n_before - n);
    frame->psn = (frame->psn - n) & RC_PSN_MASK;
    frame->payload -= (size_t)n * frame->n_payload;
    frame->flags &= (uint8_t)~SIM_FRAME_ACK_REQ;
    frame->at -= spacing * n;
}

/* Executes what remains of a share if it has arrived meanwhile, which is possible if the
 * cable is short and the QPs are many. */
static void deliver_if_past(struct sim_link *link, uint32_t index)
{
    const struct sim_frame *frame = in_flight(link, index);
    if (sim_is_past(link->from->engine, frame->at, link->arrival.rank)) {
        link->from->engine->nic_ops->train_execute(link->to->nic, frame,
                                                   frame->n_before + 1u);
        drop_at(link, index);
    }
}

static void take_back(struct sim_port *port, uint32_t n_sent)
{
    const struct sim_train *train = &port->train;
    struct sim_link *link = &port->out;
    for (uint32_t i = 0; i < train->n_qps; i++) {
        struct sim_qp *qp = train->qps[i];
        uint32_t kept = share(n_sent, train->n_qps, i);
        uint32_t n = share(train->n, train->n_qps, i) - kept;
        if (n == 0) {
            continue;
        }
        uint32_t index = last_of(link, qp);
        port->engine->nic_ops->train_take_back(qp, n);
        if (kept > 0) {
            shorten(link, index, n, train->spacing * train->n_qps);
            deliver_if_past(link, index);
        } else {
            qp->reply_turn = train->turns[i];
            drop_at(link, index);
        }
    }
}

void sim_train_cut_now(struct sim_port *port)
{
    struct sim_train *train = &port->train;
    uint32_t n_sent =
        n_past(port->engine, train->start, train->spacing, train->n, port->transmit.rank);
    uint32_t n = train->n - n_sent;
    if (n > 0) {
        struct sim_direction_stats *stats = &port->out.stats;
        uint32_t wire_bytes = in_flight(&port->out, port->out.n - 1)->wire_bytes;
        stats->packets -= n;
        stats->busy_ps -= train->spacing * n;
        stats->bytes -= (uint64_t)wire_bytes * n;
        take_back(port, n_sent);
        line_up(port, n_sent);
        sort(&port->out);
        port->out.last_at = in_flight(&port->out, port->out.n - 1)->at;
        port->free_at -= train->spacing * n;
        sim_schedule(port->engine, &port->transmit, port->free_at);
    }
    port->in_train = false;
}

static weft_ps spacing_of(const struct sim_link *link, const struct sim_frame *frame)
{
    return sim_rate_time(&link->rate, frame->wire_bytes) * frame->stride;
}

/* Executes the packets of the train ending with `frame` that have arrived, and writes
 * frames for the others to `out`. Returns their number. */
static uint32_t unfold(struct sim_link *link, const struct sim_frame *frame,
                       struct sim_frame *out)
{
    weft_ps spacing = spacing_of(link, frame);
    uint32_t n = n_past(link->from->engine, frame->at - spacing * frame->n_before,
                        spacing, frame->n_before, link->arrival.rank);
    if (n > 0) {
        weft_check(frame->is_agreed);
        link->from->engine->nic_ops->train_execute(link->to->nic, frame, n);
    }
    uint32_t n_written = 0;
    for (uint32_t back = frame->n_before - n; back > 0; back--) {
        struct sim_frame *one = &out[n_written++];
        *one = *frame;
        one->n_before = 0;
        one->at -= spacing * back;
        one->psn = (frame->psn - back) & RC_PSN_MASK;
        one->payload -= (size_t)back * frame->n_payload;
        one->flags &= (uint8_t)~SIM_FRAME_ACK_REQ;
    }
    out[n_written] = *frame;
    out[n_written].n_before = 0;
    return n_written + 1;
}

void sim_train_settle_link(struct sim_link *link)
{
    sim_train_cut(link->from);
    if (link->n_trains == 0) {
        return;
    }
    uint32_t n = 0;
    uint32_t cap = link->cap;
    for (uint32_t i = 0; i < link->n; i++) {
        n += in_flight(link, i)->n_before + 1u;
    }
    while (cap < n) {
        cap *= 2;
    }
    struct sim_frame *ring = sim_link_make_ring(link, cap);
    n = 0;
    for (uint32_t i = 0; i < link->n; i++) {
        const struct sim_frame *frame = in_flight(link, i);
        if (frame->n_before > 0) {
            n += unfold(link, frame, &ring[n]);
        } else {
            ring[n++] = *frame;
        }
    }
    sim_link_set_ring(link, ring, cap);
    link->n = n;
    link->n_trains = 0;
    link->n_unasked = 0;
    sort(link);
}

void sim_train_settle_now(struct sim_port *port)
{
    sim_train_settle_link(&port->out);
    if (port->out.to != NULL) {
        sim_train_settle_link(&port->out.to->out);
    }
}

void sim_train_acked(struct sim_port *port, const struct sim_qp *qp, uint32_t psn)
{
    const struct sim_train *train = &port->train;
    for (uint32_t i = 0; i < train->n_qps; i++) {
        if (train->qps[i] != qp) {
            continue;
        }
        uint32_t first = qp->sq.next_psn - share(train->n, train->n_qps, i);
        int32_t ahead = rc_psn_diff(psn, first);
        bool has_begun = sim_is_past(port->engine, train->start + train->spacing * i,
                                     port->transmit.rank);
        if (ahead >= 0 || (ahead == -1 && !has_begun)) {
            sim_train_cut(port);
            return;
        }
    }
}

/* ---- arriving ---- */

/* Returns true if no earlier frame in flight is for the same QP. Only then is the state
 * of the receiver that `frame` will meet known. */
static bool is_next_of_its_qp(const struct sim_link *link, uint32_t index)
{
    uint32_t dest_qpn = in_flight(link, index)->dest_qpn;
    for (uint32_t i = 0; i < index; i++) {
        if (in_flight(link, i)->dest_qpn == dest_qpn) {
            return false;
        }
    }
    return true;
}

void sim_train_ask(struct sim_link *link)
{
    for (uint32_t i = 0; i < link->n && link->n_unasked > 0; i++) {
        struct sim_frame *frame = in_flight(link, i);
        if (frame->n_before == 0 || frame->is_agreed || !is_next_of_its_qp(link, i)) {
            continue;
        }
        if (!link->from->engine->nic_ops->train_fits(link->to->nic, link->to, frame)) {
            sim_train_settle_link(link);
            return;
        }
        frame->is_agreed = true;
        link->n_unasked--;
    }
}

void sim_train_arrives(struct sim_link *link, const struct sim_frame *frame)
{
    weft_check(frame->is_agreed);
    link->from->engine->nic_ops->train_execute(link->to->nic, frame, frame->n_before);
    link->n_trains--;
}
