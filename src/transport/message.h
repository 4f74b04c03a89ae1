/* Messages inside a host, as bytes: requests to a proxy and its answers, facts that ranks
 * exchange about themselves, and blobs that two connectors exchange. Pure, bounded functions;
 * docs/transports.md has the tables. */
#ifndef WEFT_TRANSPORT_MESSAGE_H
#define WEFT_TRANSPORT_MESSAGE_H

#include "base/error.h"
#include "io/addr.h"
#include "io/gpu.h"
#include "io/shm.h"
#include "ipc/message.h"
#include "transport/transport.h"

/* NCCL's numbers. Those from 64 on are Weft's; of these only FALL_BACK is answered. */
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
    PROXY_JOIN = 64,     /* first of a stream: names the requesting rank */
    PROXY_BELL = 65,     /* wakes the peer, because a counter moved */
    PROXY_FALL_BACK = 66 /* p2p failed; the steps move to host memory */
};
/* Returns a name such as "get_fd", or NULL if there is no such request. */
const char *proxy_type_name(uint32_t type);

#define PROXY_REASON_BYTES 96

struct proxy_call {
    enum proxy_type type;
    uint32_t op;         /* copied into the answer */
    uint32_t connection; /* as returned by INIT; 0 for JOIN, BELL, STOP, ABORT */
    /* INIT */
    enum weft_transport kind;
    bool is_sender; /* role of the connection's end at this proxy */
    bool is_owner;  /* the steps are at this end; also in FALL_BACK */
    uint32_t peer, channel;
    uint32_t step_bytes; /* SHARED_INIT */
    /* CONNECT of an end that does not own the steps: as answered to GET_FD */
    char name[IO_SHM_NAME_BYTES];
    struct io_gpu_export memory;     /* n_bytes is 0 if none */
    uint64_t address, n_bytes;       /* REGISTER; DEREGISTER, with n_bytes 0 */
    uint32_t rank;                   /* JOIN, ABORT */
    char reason[PROXY_REASON_BYTES]; /* ABORT */
    int sys_errno;                   /* FALL_BACK: errno of the failure of p2p */
};

struct proxy_answer {
    uint32_t op;
    int sys_errno;       /* positive errno, or 0 on success */
    uint32_t connection; /* INIT; REGISTER: number of the registration */
    char name[IO_SHM_NAME_BYTES];
    struct io_gpu_export memory; /* GET_FD, FALL_BACK, REGISTER; n_bytes is 0 if none */
};

#define PROXY_CALL_MAX 256u
#define PROXY_ANSWER_BYTES (4u + 4u + 4u + IO_SHM_NAME_BYTES + 1u + IPC_EXPORT_BYTES)

/* Returns the number of bytes written to `out`, at most PROXY_CALL_MAX. */
size_t proxy_encode_call(const struct proxy_call *call, uint8_t *out);
/* Fails with WEFT_ERR_PROTOCOL if the bytes are not a valid request. */
weft_status proxy_decode_call(const uint8_t *bytes, size_t n_bytes,
                              struct proxy_call *out,
                              struct weft_error *error) WEFT_MUST_CHECK;
/* Writes PROXY_ANSWER_BYTES, and returns that number. */
size_t proxy_encode_answer(const struct proxy_answer *answer, uint8_t *out);
/* Fails with WEFT_ERR_PROTOCOL if the bytes are not a valid answer. */
weft_status proxy_decode_answer(const uint8_t *bytes, size_t n_bytes,
                                struct proxy_answer *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- facts that every rank sends once, if some host has several ranks ---- */

struct inside_facts {
    bool has_proxy;        /* false if it is alone on its host, or has no rank */
    struct io_endpoint at; /* address of its proxy, without ifindex */
    uint64_t shm_dev;      /* 0 if none */
    char gpu[48];          /* UUID, or "" */
};
#define INSIDE_FACTS_BYTES 80u
void inside_encode_facts(const struct inside_facts *facts,
                         uint8_t out[INSIDE_FACTS_BYTES]);
weft_status inside_decode_facts(const uint8_t bytes[INSIDE_FACTS_BYTES],
                                struct inside_facts *out,
                                struct weft_error *error) WEFT_MUST_CHECK;

/* ---- exchanged by two connectors ---- */

#define INSIDE_BLOB_BYTES 256u /* as NCCL's ncclConnect */

struct inside_blob {
    bool is_there; /* false if this direction has no connector */
    enum weft_transport kind;
    bool is_owner, reads;
    uint32_t connection; /* number at its own proxy */
    uint32_t channel, step_bytes;
};
void inside_encode_blob(const struct inside_blob *blob, uint8_t out[INSIDE_BLOB_BYTES]);
weft_status inside_decode_blob(const uint8_t bytes[INSIDE_BLOB_BYTES],
                               struct inside_blob *out,
                               struct weft_error *error) WEFT_MUST_CHECK;

#endif
