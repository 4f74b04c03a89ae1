/* What two processes of a host say to each other about CUDA IPC, as bytes. Pure, bounded
 * functions; docs/ipc.md has the table. The carrier keeps order and frames. */
#ifndef WEFT_IPC_MESSAGE_H
#define WEFT_IPC_MESSAGE_H

#include "base/error.h"
#include "io/gpu.h"

#define IPC_VERSION 1u
#define IPC_NONCE_BYTES 16u
#define IPC_HOST_BYTES 16u
#define IPC_CHUNK_BYTES 32768u /* of a staged message; smcuda's max_send_size */
#define IPC_MESSAGE_MAX (IPC_CHUNK_BYTES + 64u)

enum ipc_type {
    IPC_HELLO = 1,
    IPC_VERDICT = 2,
    IPC_OFFER = 3,       /* a message: read it in the sender's memory */
    IPC_STAGED = 4,      /* a message: it comes in chunks, when somebody waits for it */
    IPC_CHUNK = 5,       /* ... the next of them */
    IPC_DONE = 6,        /* a message has arrived: its memory is the sender's again */
    IPC_RETRY = 7,       /* an offer that could not be taken: stage it */
    IPC_INVALIDATE = 8,  /* an allocation goes: close it */
    IPC_INVALIDATED = 9, /* it is closed */
    IPC_ORIGINAL = 10,   /* mode smcuda-4.1: one of its three */
    IPC_GO = 11          /* somebody waits for a staged message */
};
/* "hello"; NULL: no such message. */
const char *ipc_type_name(uint32_t type);

/* Why memory is not reached; each is told to the other end. */
enum ipc_reason {
    IPC_FINE,
    IPC_OFF,           /* a setting says so */
    IPC_OTHER_VERSION, /* of this protocol */
    IPC_OTHER_HOST,    /* and not of one fabric either */
    IPC_SAME_PROCESS,  /* a pointer does */
    IPC_SAME_GPU,      /* and a setting forbids that */
    IPC_NO_KIND,       /* no kind of handle that both know */
    IPC_NO_ACCESS,     /* the probe could not be opened */
    IPC_OTHER_MEMORY,  /* the probe is not what the other end wrote */
    IPC_BUFFER,        /* of one transfer: this memory cannot be exported, or opened */
    IPC_PEER_REFUSED,  /* its own reason came with it */
    IPC_PEER_GONE,
    IPC_N_REASONS
};
/* "no access" */
const char *ipc_reason_name(enum ipc_reason reason);

struct ipc_identity {
    uint8_t nonce[IPC_NONCE_BYTES]; /* random at the process's start: pids come again */
    uint8_t host[IPC_HOST_BYTES];
    struct io_gpu_identity gpu;
    bool has_probe;
    struct io_gpu_export probe; /* its memory begins with the nonce */
};

struct ipc_offer {
    uint64_t generation; /* of exports of the sender, counted up */
    struct io_gpu_export memory;
    uint64_t offset, n_bytes;
    struct io_gpu_handle event; /* recorded after what wrote the memory */
};

struct ipc_message {
    enum ipc_type type;
    uint32_t epoch, about;        /* HELLO, VERDICT */
    bool accepts, is_again;       /* VERDICT; both */
    enum ipc_reason reason;       /* VERDICT, RETRY */
    struct ipc_identity identity; /* HELLO, ORIGINAL */
    uint64_t transfer; /* OFFER, STAGED, GO, CHUNK, DONE, RETRY: counted by the sender */
    struct ipc_offer offer;
    uint64_t n_bytes;               /* STAGED: of the message */
    const uint8_t *chunk;           /* CHUNK; Not owned: in what was decoded */
    uint32_t n_chunk;               /* 1 ... IPC_CHUNK_BYTES */
    uint64_t generation, buffer_id; /* INVALIDATE; INVALIDATED: buffer_id */
    uint32_t original;              /* ORIGINAL: smcuda's number */
};

/* One export of IPC_EXPORT_BYTES; the reader is bad if it is none. */
#define IPC_EXPORT_BYTES (1u + IO_GPU_HANDLE_BYTES + 24u)
struct wire_reader;
struct wire_writer;
void ipc_put_export(struct wire_writer *writer, const struct io_gpu_export *exported);
void ipc_get_export(struct wire_reader *reader, struct io_gpu_export *out);

/* An offer alone, where it is not carried as a message. */
#define IPC_OFFER_BYTES (8u + IPC_EXPORT_BYTES + 16u + IO_GPU_HANDLE_BYTES)
void ipc_encode_offer(const struct ipc_offer *offer, uint8_t out[IPC_OFFER_BYTES]);
/* False: it is none. */
bool ipc_decode_offer(const uint8_t bytes[IPC_OFFER_BYTES], struct ipc_offer *out);

/* Returns the bytes written to `out`. */
size_t ipc_encode(const struct ipc_message *message, uint8_t out[IPC_MESSAGE_MAX]);
/* WEFT_ERR_PROTOCOL: it is none; WEFT_ERR_UNSUPPORTED: of another version. */
weft_status ipc_decode(const uint8_t *bytes, size_t n_bytes, struct ipc_message *out,
                       struct weft_error *error) WEFT_MUST_CHECK;

#endif
