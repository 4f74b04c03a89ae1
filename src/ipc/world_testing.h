/* Two processes of a host that send each other messages of GPU memory over a channel, on GPUs that
 * are not there (backends/hostmem/machine.h). Each message is produced by work of the GPU that is
 * not done when it is sent, into memory that held something else, and overwritten as soon as the
 * channel says that it was sent; each that arrives is compared. Buffers are freed and come back at
 * the same addresses. What happens next is drawn from a seed, or decided by threads. */
#ifndef WEFT_IPC_WORLD_TESTING_H
#define WEFT_IPC_WORLD_TESTING_H

#include "backends/hostmem/machine.h"
#include "base/rng.h"
#include "base/text.h"
#include "ipc/channel.h"

#define IPC_WORLD_SLOTS 4u
#define IPC_WORLD_BYTES_MAX 20000u

struct ipc_world;

/* Messages that are on their way to a side. */
struct ipc_way {
    struct ipc_way_message *first, *last; /* Owned */
    uint32_t n;
    bool has_ended; /* nothing comes after them */
};

struct ipc_slot {
    uint8_t *memory;
    size_t n_bytes;              /* allocated; 0: not */
    bool is_used;                /* a message is in it */
    bool is_going;               /* to be freed when the peer has closed it */
    uint64_t buffer_id;          /* likewise */
    uint64_t message, n_message; /* number and bytes */
    struct io_gpu_op fill;
};

struct ipc_side {
    struct ipc_world *world;
    uint32_t index;
    struct io_gpu *gpu;
    struct io_env env;
    struct ipc_node node;
    struct ipc_channel channel;
    struct ipc_way way;
    struct weft_rng rng;
    weft_ns now;
    struct weft_trace trace;
    struct weft_text story;
    const char *setting; /* of WEFT_IPC, or NULL */
    bool is_dead, is_joined;
    uint8_t *junk, *got, *patterns[IPC_WORLD_SLOTS];
    struct io_gpu_stream *streams[2]; /* [0]: NULL, the GPU's own */
    struct ipc_slot sends[IPC_WORLD_SLOTS], receives[IPC_WORLD_SLOTS];
    uint64_t n_to_send, n_to_receive; /* of the whole test */
    uint64_t n_sent, n_send_ended, n_posted, n_received;
    uint64_t n_direct, n_staged, n_wrong; /* received; whose bytes differ */
    bool has_failed;
    weft_status status; /* ... with */
};

struct ipc_world {
    struct hostmem_machine *machine;
    struct ipc_side sides[2];
    struct weft_rng rng;
    void (*lock)(void *context); /* of the ways; NULL: one thread */
    void (*unlock)(void *context);
    void *context;
    bool frees_early;   /* a planted bug: without asking */
    bool keeps_buffers; /* none is freed between messages */
};

struct ipc_world_config {
    uint64_t seed;
    struct hostmem_process processes[2];
    struct ipc_settings settings[2]; /* n_events 0: those of ipc_world_settings */
    uint32_t n_pieces;               /* 0: 3 */
    bool is_same_process;            /* a fork: both have one nonce */
};

/* As an empty environment has them. */
struct ipc_settings ipc_world_settings(void);
void ipc_world_init(struct ipc_world *world, const struct ipc_world_config *config);
/* Lets everything end that is under way, and checks that nothing is left open. */
void ipc_world_fini(struct ipc_world *world);

/* Each side is to send so many messages more. */
void ipc_world_send(struct ipc_world *world, uint64_t n_left, uint64_t n_right);
/* One thing happens, or many until all is sent and received, or has failed. */
void ipc_world_step(struct ipc_world *world);
void ipc_world_run(struct ipc_world *world);
/* Until nothing moves any more. */
void ipc_world_settle(struct ipc_world *world);
bool ipc_world_is_done(const struct ipc_world *world);
void ipc_world_kill(struct ipc_world *world, uint32_t side);
/* What one thread does for its side: one small thing. */
void ipc_side_step(struct ipc_side *side);
bool ipc_side_is_done(const struct ipc_side *side);

/* For these files: a message onto its way, or from it. False: there is none. */
bool ipc_side_emit(struct ipc_side *side);
bool ipc_side_absorb(struct ipc_side *side);
void *ipc_side_alloc(struct ipc_side *side, enum io_memory where, size_t n_bytes);

#endif
