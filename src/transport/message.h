/* What is said inside a host, as bytes: requests to a proxy and its answers, what ranks tell each
 * other of themselves, and what two connectors must know of each other. Pure, bounded functions;
 * docs/transports.md has the tables. */
#ifndef WEFT_TRANSPORT_MESSAGE_H
#define WEFT_TRANSPORT_MESSAGE_H

#include "base/error.h"
#include "io/addr.h"
#include "io/gpu.h"
#include "io/shm.h"
#include "ipc/message.h"
#include "transport/transport.h"

/* NCCL's numbers; those from 64 on are ours, and of them FALL_BACK alone is answered. */
enum proxy_type {
    PROXY_INIT = 1,
    PROXY_SHARED_INIT = 2,
    PROXY_SETUP = 3,
    PROXY_CONNECT = 4,
    PROXY_START = 5,
    PROXY_CLOSE = 6,
    PROXY_ABORT = 7,
    PROXY_STOP = 8,
    PROXY_GET_FD = 9,
    PROXY_REGISTER = 11,
    PROXY_DEREGISTER = 12,
    PROXY_JOIN = 64,     /* the first of a stream: who asks */
    PROXY_BELL = 65,     /* wake up: a counter moved */
    PROXY_FALL_BACK = 66 /* p2p cannot be: the steps are to be in memory of the host */
};
/* "get_fd"; NULL: no such request. */
const char *proxy_type_name(uint32_t type);

#define PROXY_REASON_BYTES 96

struct proxy_call {
    enum proxy_type type;
    uint32_t op;         /* comes back in the answer */
    uint32_t connection; /* as INIT gave it; of JOIN, BELL, STOP, ABORT: 0 */
    /* INIT */
    enum transport_kind kind;
    bool is_sender; /* the connector's end; of START, GET_FD: the asker's */
    bool is_owner;  /* the steps are to be here; also of FALL_BACK */
    uint32_t peer, channel;
    uint32_t step_bytes; /* SHARED_INIT */
    /* CONNECT of an end that does not own the steps: what GET_FD brought */
    char name[IO_SHM_NAME_BYTES];
    struct io_gpu_export memory;     /* n_bytes 0: none */
    uint64_t address, n_bytes;       /* REGISTER; DEREGISTER: n_bytes 0 */
    uint32_t rank;                   /* JOIN, ABORT */
    char reason[PROXY_REASON_BYTES]; /* ABORT */
    int sys_errno;                   /* FALL_BACK: what p2p failed with */
};

struct proxy_answer {
    uint32_t op;
    int sys_errno;       /* positive, or 0: done */
    uint32_t connection; /* INIT; of REGISTER: the registration */
    char name[IO_SHM_NAME_BYTES];
    struct io_gpu_export memory; /* GET_FD, REGISTER; n_bytes 0: none */
};

#define PROXY_CALL_MAX 256u
#define PROXY_ANSWER_BYTES (4u + 4u + 4u + IO_SHM_NAME_BYTES + 1u + IPC_EXPORT_BYTES)

/* Returns the bytes written to `out`, at most PROXY_CALL_MAX. */
size_t proxy_encode_call(const struct proxy_call *call, uint8_t *out);
weft_status proxy_decode_call(const uint8_t *bytes, size_t n_bytes,
                              struct proxy_call *out,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Writes PROXY_ANSWER_BYTES. */
size_t proxy_encode_answer(const struct proxy_answer *answer, uint8_t *out);
weft_status proxy_decode_answer(const uint8_t *bytes, size_t n_bytes,
                                struct proxy_answer *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- what every rank tells once, if some host has several ---- */

struct inside_facts {
    bool has_proxy;        /* else it is alone in its host, or has no rank */
    struct io_endpoint at; /* of its proxy; without ifindex */
    uint64_t shm_dev;      /* 0: none */
    char gpu[48];          /* UUID; "" */
};
#define INSIDE_FACTS_BYTES 80u
void inside_encode_facts(const struct inside_facts *facts,
                         uint8_t out[INSIDE_FACTS_BYTES]);
weft_status inside_decode_facts(const uint8_t bytes[INSIDE_FACTS_BYTES],
                                struct inside_facts *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- what two connectors tell each other ---- */

#define INSIDE_BLOB_BYTES 256u /* as NCCL's ncclConnect */

struct inside_blob {
    bool is_there; /* false: there is no connector of this direction */
    enum transport_kind kind;
    bool is_owner, reads;
    uint32_t connection; /* at the proxy of its rank */
    uint32_t channel, step_bytes;
};
void inside_encode_blob(const struct inside_blob *blob, uint8_t out[INSIDE_BLOB_BYTES]);
weft_status inside_decode_blob(const uint8_t bytes[INSIDE_BLOB_BYTES],
                               struct inside_blob *out,
                               struct weft_error *error) WEFT_MUST_CHECK;

#endif
