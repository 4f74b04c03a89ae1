/* A simulated NIC that talks to a hand on the wire: host "a" of an rc_pair with its QP in RTS,
 * and at the far end of the cable nothing but a tap that hears and a test that speaks, byte
 * by byte. The host there only answers ARP. */
#ifndef WEFT_SIM_WIRE_TESTING_H
#define WEFT_SIM_WIRE_TESTING_H

#include "sim/port_bytes.h"
#include "sim/rc_testing.h"

enum { WIRE_QPN = 0xabd, WIRE_MTU = 1024, WIRE_FRAME_BYTES = 1200 };
#define WIRE_SQ_PSN 0x100 /* of what A asks */
#define WIRE_RQ_PSN 0x200 /* of what it is asked */
#define WIRE_RKEY 0x1234  /* of the memory that is not there */
#define WIRE_VA 0x7f0000001000

struct wire_frame {
    weft_ps at;
    size_t n_bytes;
    uint8_t bytes[WIRE_FRAME_BYTES];
    struct sim_roce roce; /* its payload is in `bytes` */
};

struct wire {
    struct rc_pair pair;
    struct wire_frame **heard; /* Owned array of [n_heard], and they. */
    unsigned n_heard, n_read, cap;
};

/* Connects. Zero options are profile rxe, netdev MTU 1500 and path MTU 1024; the others as in
 * rc_testing.h. */
void wire_init(struct wire *wire, const struct rc_options *options);
void wire_fini(struct wire *wire);
void wire_run(struct wire *wire, weft_ps time);

/* The next frame that A sent, or NULL if none came since. */
const struct wire_frame *wire_next(struct wire *wire);
/* The same, which must be of this opcode and PSN. */
const struct wire_frame *wire_expect(struct wire *wire, uint8_t opcode, uint32_t psn);
/* An ACK or NAK. */
const struct wire_frame *wire_expect_ack(struct wire *wire, uint8_t syndrome,
                                         uint32_t psn);
void wire_expect_silence(struct wire *wire);

/* A packet to A as the real endpoint sent them: id 0, DF, TTL 64, no UDP checksum, MigReq 0. */
struct sim_roce wire_packet(const struct wire *wire, uint8_t opcode, uint32_t psn);
/* Puts it on the wire; it must be taken. Then runs for 20 us. */
void wire_say(struct wire *wire, const struct sim_roce *packet);
void wire_ack(struct wire *wire, uint8_t syndrome, uint32_t psn);
/* A WRITE of `n_bytes` bytes to A's memory at `offset`, all of value `fill`, in packets of
 * the path MTU; AckReq on the last. */
void wire_write(struct wire *wire, uint32_t psn, size_t offset, uint32_t n_bytes,
                uint8_t fill);
/* A READ of A's memory. */
void wire_read(struct wire *wire, uint32_t psn, size_t offset, uint32_t n_bytes);
/* A SEND of at most the path MTU. */
void wire_send(struct wire *wire, uint32_t psn, uint32_t n_bytes, uint8_t fill);

/* Posts to A's queue; remote addresses are WIRE_VA and WIRE_RKEY. */
void wire_post(struct wire *wire, enum ibv_wr_opcode opcode, uint64_t wr_id,
               uint32_t n_bytes);
/* A's next completion is this one. */
void wire_expect_done(struct wire *wire, uint64_t wr_id, enum ibv_wc_status status);
/* Those numbered `first` to `last` are done, in this order, and no others. */
void wire_expect_all_done(struct wire *wire, unsigned first, unsigned last,
                          enum ibv_wc_status status);
void wire_expect_none_done(struct wire *wire);
enum ibv_qp_state wire_qp_state(const struct wire *wire);

#endif
