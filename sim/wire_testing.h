/* A fixture with one simulated NIC and a scripted peer: host "a" of an rc_pair with its
 * QP in RTS, and at the other end of the cable a tap that records frames and a test that
 * sends them byte by byte. The other host only answers ARP. */
#ifndef WEFT_SIM_WIRE_TESTING_H
#define WEFT_SIM_WIRE_TESTING_H

#include "sim/port_bytes.h"
#include "sim/rc_testing.h"

enum { WIRE_QPN = 0xabd, WIRE_MTU = 1024, WIRE_FRAME_BYTES = 1200 };
#define WIRE_SQ_PSN 0x100 /* first PSN of A's requests */
#define WIRE_RQ_PSN 0x200 /* first PSN of requests to A */
#define WIRE_RKEY 0x1234  /* rkey of memory that does not exist */
#define WIRE_VA 0x7f0000001000

struct wire_frame {
    weft_ps at;
    size_t n_bytes;
    uint8_t bytes[WIRE_FRAME_BYTES];
    struct sim_roce roce; /* its payload is in `bytes` */
};

struct wire {
    struct rc_pair pair;
    struct wire_frame **heard; /* Owned array of [n_heard], and the frames. */
    unsigned n_heard, n_read, cap;
};

/* Connects. Zero options are profile rxe, netdev MTU 1500 and path MTU 1024; the others
 * are as in rc_testing.h. */
void wire_init(struct wire *wire, const struct rc_options *options);
void wire_fini(struct wire *wire);
void wire_run(struct wire *wire, weft_ps time);

/* Returns the next frame that A sent, or NULL if there is none. */
const struct wire_frame *wire_next(struct wire *wire);
/* Returns the next frame, which must have this opcode and PSN. */
const struct wire_frame *wire_expect(struct wire *wire, uint8_t opcode, uint32_t psn);
/* Returns the next frame, which must be an ACK or NAK. */
const struct wire_frame *wire_expect_ack(struct wire *wire, uint8_t syndrome,
                                         uint32_t psn);
void wire_expect_silence(struct wire *wire);

/* Returns a packet to A as the real endpoint sent them: id 0, DF, TTL 64, no UDP
 * checksum, MigReq 0. */
struct sim_roce wire_packet(const struct wire *wire, uint8_t opcode, uint32_t psn);
/* Sends a packet to A, which must accept it. Then runs for 20 us. */
void wire_say(struct wire *wire, const struct sim_roce *packet);
void wire_ack(struct wire *wire, uint8_t syndrome, uint32_t psn);
/* Sends a WRITE of `n_bytes` bytes, all of value `fill`, to A's memory at `offset`, in
 * packets of the path MTU; AckReq on the last. */
void wire_write(struct wire *wire, uint32_t psn, size_t offset, uint32_t n_bytes,
                uint8_t fill);
/* Sends a READ of A's memory. */
void wire_read(struct wire *wire, uint32_t psn, size_t offset, uint32_t n_bytes);
/* Sends a SEND of at most the path MTU. */
void wire_send(struct wire *wire, uint32_t psn, uint32_t n_bytes, uint8_t fill);

/* Posts to A's queue; remote addresses are WIRE_VA and WIRE_RKEY. */
void wire_post(struct wire *wire, enum ibv_wr_opcode opcode, uint64_t wr_id,
               uint32_t n_bytes);
/* Expects this as A's next completion. */
void wire_expect_done(struct wire *wire, uint64_t wr_id, enum ibv_wc_status status);
/* Expects the completions `first` to `last`, in this order, and no others. */
void wire_expect_all_done(struct wire *wire, unsigned first, unsigned last,
                          enum ibv_wc_status status);
void wire_expect_none_done(struct wire *wire);
enum ibv_qp_state wire_qp_state(const struct wire *wire);

#endif
