/* Runs flows, and relays on request, over a simulated fabric. Sends numbered messages over the
 * flows and checks that each arrives once, in order and with the right bytes. */
#ifndef WEFT_XFER_GRID_TESTING_H
#define WEFT_XFER_GRID_TESTING_H

#include "xfer/fabric_testing.h"
#include "xfer/flow.h"
#include "xfer/relay.h"
#include "xfer/wire.h"

#define GRID_FLOWS_MAX 64
#define GRID_MIXED_MAX 1000000
#define GRID_SLOTS 8 /* maximum number of groups under way per flow and end */

/* The messages of one flow. */
struct grid_traffic {
    uint32_t n_messages;
    /* Returns the size of a message, at most max_bytes; NULL if each has max_bytes. */
    size_t (*size_of)(uint32_t number);
    size_t max_bytes; /* size of each posted buffer */
    uint32_t n_group; /* buffers per receive (default 1) */
    uint32_t slots; /* groups under way (default GRID_SLOTS, which is also the maximum) */
    bool is_stalled; /* the receiver posts nothing */
    uint32_t seed;

    uint8_t *sent, *received; /* slots x n_group x max_bytes each */
    struct xfer_memory sent_memory, received_memory;
    bool sent_ready, received_ready;
    struct flow_request *sends[GRID_SLOTS * XFER_MULTI_MAX], *receives[GRID_SLOTS];
    uint32_t n_filled, n_sent, n_send_done; /* counted in messages */
    uint32_t n_posted, n_received;          /* counted in groups */
};

struct grid_flow {
    uint32_t from, to;
    struct flow *out, *in;
    struct io_task out_task, in_task;
    struct grid_traffic traffic;
    weft_status out_status, in_status; /* last status of flow_progress() */
};

struct grid {
    struct fabric fabric;
    struct grid_flow flows[GRID_FLOWS_MAX];
    uint32_t n_flows;
    struct relay *relays[FABRIC_HOSTS_MAX];
    struct io_task relay_tasks[FABRIC_HOSTS_MAX];
    bool no_port_events;         /* flows and relays get no port events */
    bool dead[FABRIC_HOSTS_MAX]; /* the test has killed the host */
};

/* Opens the fabric of `config`, with callbacks that serve flows and relays. */
void grid_open(struct grid *grid, const struct fabric_config *config);
/* Opens a relay on `host` with these limits of relay_config. */
void grid_relay(struct grid *grid, uint32_t host, uint64_t memory_max,
                uint32_t lanes_max);
/* Opens both ends of a flow between two hosts, whose numbers are also their ranks. Of config->conn
 * only timeout, retry_cnt and over_management are used. Sets the ranks and the handles of the
 * lanes. Returns the index of the flow. */
uint32_t grid_flow(struct grid *grid, uint32_t from, uint32_t to,
                   const struct flow_config *config);
/* Opens a flow that has one lane, over `via`, and no failover. Returns its index. */
uint32_t grid_route(struct grid *grid, uint32_t from, uint32_t to, uint32_t n_via,
                    const uint32_t *via, uint32_t relay_buffers);
/* Allocates and registers the buffers of `traffic`, whose messages are moved from then on. */
void grid_send(struct grid *grid, uint32_t flow, const struct grid_traffic *traffic);
/* Calls grid_send() for every flow. The receives of the second flow have four buffers each. */
void grid_send_all(struct grid *grid, uint32_t n_messages,
                   size_t (*size_of)(uint32_t number), size_t max_bytes);
/* Returns the size of a message, from 0 to GRID_MIXED_MAX bytes. */
size_t grid_mixed(uint32_t number);
/* Sends and receives what is possible now. */
void grid_pump(struct grid_flow *flow);
void grid_free_traffic(struct grid *grid, struct grid_flow *flow);
/* Steps until the messages of every flow have arrived, or for `for_ns`. Returns true if they have.
 * The test fails if a flow does. */
bool grid_run(struct grid *grid, weft_ns for_ns);
/* Steps until every flow is up at both ends, or for `for_ns`. Returns true if they are. The test
 * fails if the sender of a flow does. */
bool grid_run_until_up(struct grid *grid, weft_ns for_ns);
/* Steps until the first lane of every flow has `n` rails at both ends, or for `for_ns`. Returns
 * true if they have. */
bool grid_run_until_rails(struct grid *grid, uint32_t n, weft_ns for_ns);
/* Steps until both ends of a flow have failed, or for `for_ns`. Returns true if they have. */
bool grid_run_until_dead(struct grid *grid, uint32_t flow, weft_ns for_ns);
/* Steps for `for_ns`. */
void grid_step_for(struct grid *grid, weft_ns for_ns);
/* Connects from host `from` to a flow or relay on host `to` with any purpose, which no flow opened.
 * The caller destroys the connection before grid_close(). */
struct conn *grid_forge(struct grid *grid, uint32_t from, uint32_t to,
                        const struct flow_purpose *purpose);
/* Returns the number of rails of a flow's first lane at one end; 0 if that has no connection. */
uint32_t grid_n_rails(const struct grid *grid, uint32_t flow, bool is_sender);
/* Returns the counters of one end of a flow. */
struct flow_counters grid_counters(const struct grid *grid, uint32_t flow,
                                   bool is_sender);
/* Injects a fault now. */
void grid_fault(struct grid *grid, const struct world_fault *fault);
/* Returns the index of the nth port (from 0) of `host` that leads to `to`. */
uint32_t grid_port(const struct grid *grid, uint32_t host, uint32_t to, uint32_t nth);
/* Takes the cable of that port down for `for_ns`, or for good if `for_ns` is 0. */
void grid_down(struct grid *grid, uint32_t host, uint32_t to, uint32_t nth,
               weft_ns for_ns);
/* Closes the flows and then the relays in order, and checks that no verbs object is left. */
void grid_close(struct grid *grid);

#endif
