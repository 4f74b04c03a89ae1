/* h0 10.0.0.1 -- 10.0.0.2 h1, with a listener on h1: what tests of TCP build on. */
#ifndef WEFT_SIM_TCP_TESTING_H
#define WEFT_SIM_TCP_TESTING_H

#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)
#define SECOND (1000 * MS)
#define PORT 5000

struct duo {
    struct net net;
    struct sim_listener *listener;
    int n_listener_wakes, n_client_wakes, n_server_wakes;
};
extern struct duo duo;

void duo_start(void);
void duo_start_with(const struct sim_stack_config *config);
void duo_stop(void);
/* h0 starts to connect. */
struct sim_stream *duo_dial(const char *ip, uint16_t port);
struct sim_stream *duo_accept(void);
/* Both ends of an open connection. */
void duo_connect(struct sim_stream **client, struct sim_stream **server);
/* What is there to read is exactly `expected`. */
void duo_expect(struct sim_stream *stream, const char *expected);
void duo_send(struct sim_stream *stream, const char *text);
/* Moves `total` bytes with whatever partial steps come, and compares them. */
void duo_stream(struct sim_stream *from, struct sim_stream *to, size_t total,
                weft_ns deadline);

#endif
