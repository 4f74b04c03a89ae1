/* Provides a scripted client ("hand") of a listener, which can send what a real connector never
 * sends. */
#ifndef WEFT_CONN_HAND_TESTING_H
#define WEFT_CONN_HAND_TESTING_H

#include "conn/conn_testing.h"
#include "conn/private.h"

/* One scripted client on host 0. */
struct hand {
    struct bed *bed;
    struct io_task task;
    struct frame_link link;
    uint8_t rx[CODEC_FRAME_MAX], tx[CONN_TX_BYTES];
    uint8_t hello[PROVE_HELLO_BYTES];
    struct codec_handle handle;
    uint8_t key[AUTH_KEY_BYTES];
    uint8_t host_id[16];
};

/* A bed.on_task that does nothing, because the test polls the stream itself. */
void hand_ignore_task(struct bed *bed, struct io_task *task);
/* Connects from host 0 to the first endpoint of the handle of host 1. */
void hand_open(struct hand *hand, struct bed *bed);
void hand_close(struct hand *hand);
void hand_write(struct hand *hand, const void *bytes, size_t n_bytes);
void hand_flush(struct hand *hand);
void hand_hello(struct hand *hand, uint64_t id, uint32_t attempt);
void hand_auth(struct hand *hand);
struct codec_facts hand_facts(struct hand *hand);
void hand_send_facts(struct hand *hand, const struct codec_facts *facts);
/* Checks that the listener sent an ABORT with this phase and status, at most preceded by FACTS, and
 * closed the stream. */
void hand_is_refused(struct hand *hand, const char *phase, weft_status status);
/* Checks that the listener closed the stream without sending anything. */
void hand_is_cut(struct hand *hand);
/* Checks the counters of the listener of host 1. Every client must count as pending, accepted or
 * rejected. */
void hand_check_counters(const struct bed *bed, uint64_t clients, uint64_t rejected,
                         uint64_t timed_out);
/* Destroys the connections of host 1, then checks that a connection from host 0 comes up within a
 * second. */
void hand_check_service(struct bed *bed);
/* Opens a bed with a listener on host 1. */
void hand_open_listener(struct bed *bed, uint64_t seed);
/* Opens the client and performs the handshake up to sending FACTS. */
void hand_complete(struct hand *hand, struct bed *bed, uint64_t id, uint32_t attempt);

#endif
