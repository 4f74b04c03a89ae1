/* Flows over a simulated fabric, with relays where a test wants them, and numbered messages on
 * them that are checked byte by byte: each must come once, in order, and be the right one. */
#ifndef WEFT_XFER_GRID_TESTING_H
#define WEFT_XFER_GRID_TESTING_H

#include "xfer/fabric_testing.h"
#include "xfer/flow.h"
#include "xfer/relay.h"
#include "xfer/wire.h"

#define GRID_FLOWS_MAX 64
#define GRID_MIXED_MAX 1000000
#define GRID_SLOTS 8 /* messages under way per flow and end */

/* Messages of one flow. */
struct grid_traffic {
    uint32_t n_messages;
    size_t (*size_of)(uint32_t number); /* sent; at most max_bytes */
    size_t max_bytes;                   /* every buffer posted */
    uint32_t n_group;                   /* buffers per receive: 1 unless told */
    uint32_t slots;                     /* GRID_SLOTS unless told */
    bool is_stalled;                    /* the receiver posts nothing */
    uint32_t seed;

    uint8_t *sent, *received; /* GRID_SLOTS x n_group x max_bytes each */
    struct xfer_memory sent_memory, received_memory;
    bool sent_ready, received_ready;
    struct flow_request *sends[GRID_SLOTS * XFER_MULTI_MAX], *receives[GRID_SLOTS];
    uint32_t n_filled, n_sent, n_send_done; /* messages */
    uint32_t n_posted, n_received;          /* groups */
};

struct grid_flow {
    uint32_t from, to;
    struct flow *out, *in;
    struct io_task out_task, in_task;
    struct grid_traffic traffic;
    weft_status out_status, in_status; /* negative: dead */
};

struct grid {
    struct fabric fabric;
    struct grid_flow flows[GRID_FLOWS_MAX];
    uint32_t n_flows;
    struct relay *relays[FABRIC_HOSTS_MAX];
    struct io_task relay_tasks[FABRIC_HOSTS_MAX];
    bool no_port_events; /* flows are not told */
    bool dead[FABRIC_HOSTS_MAX];
};

/* Fills in what `config` needs to have flows and opens the fabric. */
void grid_open(struct grid *grid, const struct fabric_config *config);
/* A relay on `host`; `memory_max` and `lanes_max` as relay_config's. */
void grid_relay(struct grid *grid, uint32_t host, uint64_t memory_max,
                uint32_t lanes_max);
/* A flow between ranks (hosts) with the lanes of `config`, whose ends, conn configuration and
 * handles are filled in; ranks are hosts. Returns its index. */
uint32_t grid_flow(struct grid *grid, uint32_t from, uint32_t to,
                   const struct flow_config *config);
/* The same, by one lane over `via`. */
uint32_t grid_route(struct grid *grid, uint32_t from, uint32_t to, uint32_t n_via,
                    const uint32_t *via, uint32_t relay_buffers);
void grid_send(struct grid *grid, uint32_t flow, const struct grid_traffic *traffic);
/* Sends over every flow; the receives of the second have four buffers each. */
void grid_send_all(struct grid *grid, uint32_t n_messages,
                   size_t (*size_of)(uint32_t number), size_t max_bytes);
/* Sizes of messages, none to some fragments, up to GRID_MIXED_MAX. */
size_t grid_mixed(uint32_t number);
/* Sends and receives what is possible now. */
void grid_pump(struct grid_flow *flow);
void grid_free_traffic(struct grid *grid, struct grid_flow *flow);
/* Steps until every flow's messages have come or `for_ns` passed; true if they have. */
bool grid_run(struct grid *grid, weft_ns for_ns);
bool grid_run_until_up(struct grid *grid, weft_ns for_ns);
/* Steps until the first lane of every flow has `n` rails at both ends or `for_ns` passed; true if
 * they have. */
bool grid_run_until_rails(struct grid *grid, uint32_t n, weft_ns for_ns);
/* Steps until some flow is dead or `for_ns` passed. */
bool grid_run_until_dead(struct grid *grid, uint32_t flow, weft_ns for_ns);
void grid_step_for(struct grid *grid, weft_ns for_ns);
/* Connects by hand from host `from` to a flow or relay on host `to`, to do what a flow never does.
 * The caller destroys the connection before grid_close(). */
struct conn *grid_forge(struct grid *grid, uint32_t from, uint32_t to,
                        const struct flow_purpose *purpose);
/* Rails of a flow's first lane, at one end; 0: it has no connection. */
uint32_t grid_n_rails(const struct grid *grid, uint32_t flow, bool is_sender);
/* Counters of one end of a flow. */
struct flow_counters grid_counters(const struct grid *grid, uint32_t flow,
                                   bool is_sender);
/* A cable or port event by hand. */
void grid_fault(struct grid *grid, const struct world_fault *fault);
/* The index of a host's port that leads to `to`, the nth. */
uint32_t grid_port(const struct grid *grid, uint32_t host, uint32_t to, uint32_t nth);
/* That port's cable goes down for `for_ns`; 0: for good. */
void grid_down(struct grid *grid, uint32_t host, uint32_t to, uint32_t nth,
               weft_ns for_ns);
/* Orderly: flows, then relays; no verbs object may be left. */
void grid_close(struct grid *grid);

#endif
