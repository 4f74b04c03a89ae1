/* A fixture for tests of TCP: h0 10.0.0.1 -- 10.0.0.2 h1, with a listener on h1. */
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
/* Starts to connect from h0. */
struct sim_stream *duo_dial(const char *ip, uint16_t port);
struct sim_stream *duo_accept(void);
/* Opens a connection, and returns both ends. */
void duo_connect(struct sim_stream **client, struct sim_stream **server);
/* Checks that exactly `expected` can be read. */
void duo_expect(struct sim_stream *stream, const char *expected);
void duo_send(struct sim_stream *stream, const char *text);
/* Transfers `total` bytes in the partial steps that occur, and compares them. */
void duo_stream(struct sim_stream *from, struct sim_stream *to, size_t total,
                weft_ns deadline);

#endif
