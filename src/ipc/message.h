/* Messages between two processes of a host about CUDA IPC, as bytes. Pure, bounded functions;
 * docs/ipc.md has the table. The carrier keeps order and message boundaries. */
#ifndef WEFT_IPC_MESSAGE_H
#define WEFT_IPC_MESSAGE_H

#include "base/error.h"
#include "io/gpu.h"

#define IPC_VERSION 1u
#define IPC_NONCE_BYTES 16u
#define IPC_HOST_BYTES 16u
#define IPC_CHUNK_BYTES 32768u /* maximum size of a chunk; smcuda's max_send_size */
#define IPC_MESSAGE_MAX (IPC_CHUNK_BYTES + 64u)

enum ipc_type {
    IPC_HELLO = 1,
    IPC_VERDICT = 2,
    IPC_OFFER = 3,       /* a message that the receiver copies from the sender's memory */
    IPC_STAGED = 4,      /* a message that is sent in chunks once GO was received */
    IPC_CHUNK = 5,       /* the next chunk of a staged message */
    IPC_DONE = 6,        /* the message was received; the sender may reuse its memory */
    IPC_RETRY = 7,       /* the offer cannot be used; stage the message */
    IPC_INVALIDATE = 8,  /* an allocation must be closed */
    IPC_INVALIDATED = 9, /* the allocation is closed */
    IPC_ORIGINAL = 10,   /* mode smcuda-4.1: one of its three messages */
    IPC_GO = 11          /* a receive is posted for a staged message */
};
/* Returns a name such as "hello", or NULL if there is no such message. */
const char *ipc_type_name(uint32_t type);

/* Why memory cannot be reached. Sent to the peer. */
enum ipc_reason {
    IPC_FINE,
    IPC_OFF,           /* disabled by a setting */
    IPC_OTHER_VERSION, /* the peer has another version of the protocol */
    IPC_OTHER_HOST,    /* and not in one NVLink fabric */
    IPC_SAME_PROCESS,  /* a pointer is enough */
    IPC_SAME_GPU,      /* and a setting forbids CUDA IPC on one GPU */
    IPC_NO_KIND,       /* no common kind of handle, or no probe */
    IPC_NO_ACCESS,     /* the probe could not be opened or read */
    IPC_OTHER_MEMORY,  /* the probe does not hold the peer's nonce */
    IPC_BUFFER,        /* one message: its memory cannot be exported or opened */
    IPC_PEER_REFUSED,  /* the peer's VERDICT has its own reason */
    IPC_PEER_GONE,
    IPC_N_REASONS
};
/* Returns a name such as "no access". */
const char *ipc_reason_name(enum ipc_reason reason);

struct ipc_identity {
    uint8_t nonce[IPC_NONCE_BYTES]; /* random per process, because pids are reused */
    uint8_t host[IPC_HOST_BYTES];
    struct io_gpu_identity gpu;
    bool has_probe;
    struct io_gpu_export probe; /* memory that begins with the nonce */
};

struct ipc_offer {
    uint64_t generation; /* counter of the sender's exports */
    struct io_gpu_export memory;
    uint64_t offset, n_bytes;
    struct io_gpu_handle event; /* recorded behind the work that wrote the memory */
};

struct ipc_message {
    enum ipc_type type;
    uint32_t epoch, about;        /* HELLO, VERDICT */
    bool accepts, is_again;       /* accepts: VERDICT; is_again: HELLO, VERDICT */
    enum ipc_reason reason;       /* VERDICT, RETRY */
    struct ipc_identity identity; /* HELLO, ORIGINAL */
    uint64_t transfer; /* OFFER, STAGED, GO, CHUNK, DONE, RETRY: number of the send */
    struct ipc_offer offer;
    uint64_t n_bytes;               /* STAGED: size of the message */
    const uint8_t *chunk;           /* CHUNK; Not owned: points into the decoded bytes */
    uint32_t n_chunk;               /* 1 to IPC_CHUNK_BYTES */
    uint64_t generation, buffer_id; /* INVALIDATE; in INVALIDATED only buffer_id */
    uint32_t original;              /* ORIGINAL: smcuda's message number */
};

/* Encode and decode one export of IPC_EXPORT_BYTES. Decoding marks the reader as bad if it is
 * invalid. */
#define IPC_EXPORT_BYTES (1u + IO_GPU_HANDLE_BYTES + 24u)
struct wire_reader;
struct wire_writer;
void ipc_put_export(struct wire_writer *writer, const struct io_gpu_export *exported);
void ipc_get_export(struct wire_reader *reader, struct io_gpu_export *out);

/* Encode and decode an offer that is not carried as a message. */
#define IPC_OFFER_BYTES (8u + IPC_EXPORT_BYTES + 16u + IO_GPU_HANDLE_BYTES)
void ipc_encode_offer(const struct ipc_offer *offer, uint8_t out[IPC_OFFER_BYTES]);
/* Returns false if the bytes are not a valid offer. */
bool ipc_decode_offer(const uint8_t bytes[IPC_OFFER_BYTES], struct ipc_offer *out);

/* Returns the number of bytes written to `out`. */
size_t ipc_encode(const struct ipc_message *message, uint8_t out[IPC_MESSAGE_MAX]);
/* Fails with WEFT_ERR_PROTOCOL if the bytes are not a valid message, WEFT_ERR_UNSUPPORTED if
 * they are of another version. */
weft_status ipc_decode(const uint8_t *bytes, size_t n_bytes, struct ipc_message *out,
                       struct weft_error *error) WEFT_MUST_CHECK;

#endif
