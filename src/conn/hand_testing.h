/* A connector by hand, for what a real one never does. */
#ifndef WEFT_CONN_HAND_TESTING_H
#define WEFT_CONN_HAND_TESTING_H

#include "conn/conn_testing.h"
#include "conn/private.h"

/* A client by hand. */
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

/* For bed.on_task: the test looks by itself. */
void hand_ignore_task(struct bed *bed, struct io_task *task);
/* From host 0 to the listener of host 1. */
void hand_open(struct hand *hand, struct bed *bed);
void hand_close(struct hand *hand);
void hand_write(struct hand *hand, const void *bytes, size_t n_bytes);
void hand_flush(struct hand *hand);
void hand_hello(struct hand *hand, uint64_t id, uint32_t attempt);
void hand_auth(struct hand *hand);
struct codec_facts hand_facts(struct hand *hand);
void hand_send_facts(struct hand *hand, const struct codec_facts *facts);
/* What the listener answered: an ABORT in `phase`; or nothing, and it closed. */
void hand_is_refused(struct hand *hand, const char *phase, weft_status status);
void hand_is_cut(struct hand *hand);
void hand_check_counters(const struct bed *bed, uint64_t clients, uint64_t rejected,
                         uint64_t timed_out);
/* A member still gets in, within a second. */
void hand_check_service(struct bed *bed);
/* A bed with a listener on host 1. */
void hand_open_listener(struct bed *bed, uint64_t seed);
/* All up to FACTS. */
void hand_complete(struct hand *hand, struct bed *bed, uint64_t id, uint32_t attempt);

#endif
