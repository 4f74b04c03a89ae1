/* A test environment of two processes of a host that send each other GPU memory over a channel,
 * on emulated GPUs (backends/hostmem/machine_testing.h). GPU work that is not complete at the send
 * produces each message, in memory with other contents before. The memory is overwritten as soon
 * as the channel reports the send complete, and each received message is compared. Buffers are
 * freed, and new ones get the same addresses. Events are drawn from a seed, or scheduled by
 * threads. */
#ifndef WEFT_IPC_WORLD_TESTING_H
#define WEFT_IPC_WORLD_TESTING_H

#include "backends/hostmem/machine_testing.h"
#include "base/rng.h"
#include "base/text.h"
#include "ipc/channel_testing.h"

#define IPC_WORLD_SLOTS 4u
#define IPC_WORLD_BYTES_MAX 20000u

struct ipc_world;

/* Messages in transit to a side, in order. */
struct ipc_way {
    struct ipc_way_message *first, *last; /* Owned */
    uint32_t n;
    bool has_ended; /* nothing follows them */
};

struct ipc_slot {
    uint8_t *memory;
    size_t n_bytes;              /* size of `memory`; 0 if not allocated */
    bool is_used;                /* holds a message in progress */
    bool is_going;               /* to be freed once the peer has closed it */
    uint64_t buffer_id;          /* valid if is_going */
    uint64_t message, n_message; /* number and size of the message */
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
    const char *setting; /* value of WEFT_IPC, or NULL */
    bool is_dead, is_joined;
    uint8_t *junk, *got, *patterns[IPC_WORLD_SLOTS];
    struct io_gpu_stream *streams[2]; /* [0]: NULL, the GPU's own */
    struct ipc_slot sends[IPC_WORLD_SLOTS], receives[IPC_WORLD_SLOTS];
    uint64_t n_to_send, n_to_receive; /* total numbers of the test */
    uint64_t n_sent, n_send_ended, n_posted, n_received;
    /* received on each path; received with wrong data */
    uint64_t n_direct, n_staged, n_wrong;
    bool has_failed;
    weft_status status; /* valid if has_failed */
};

struct ipc_world {
    struct hostmem_machine *machine;
    struct ipc_side sides[2];
    struct weft_rng rng;
    /* protect messages in transit; NULL if there is one thread */
    void (*lock)(void *context);
    void (*unlock)(void *context);
    void *context;
    bool frees_early;   /* planted bug: free buffers without asking the peer */
    bool keeps_buffers; /* do not free buffers between messages */
};

struct ipc_world_config {
    uint64_t seed;
    struct hostmem_process processes[2];
    struct ipc_settings settings[2]; /* n_events 0: ipc_world_settings() */
    uint32_t n_pieces;    /* maximum number of pieces of a GPU copy; 0 means 3 */
    bool is_same_process; /* both have the same nonce, as after a fork */
};

/* Returns the settings of an empty environment. */
struct ipc_settings ipc_world_settings(void);
void ipc_world_init(struct ipc_world *world, const struct ipc_world_config *config);
/* Completes all GPU work, checks that nothing is left open, and frees the environment. */
void ipc_world_fini(struct ipc_world *world);

/* Adds to the number of messages that each side sends. */
void ipc_world_send(struct ipc_world *world, uint64_t n_left, uint64_t n_right);
/* Runs one random event. */
void ipc_world_step(struct ipc_world *world);
/* Runs random events until all messages are sent and received, or a side has failed. */
void ipc_world_run(struct ipc_world *world);
/* Carries messages and completes GPU work until nothing is left to do. */
void ipc_world_settle(struct ipc_world *world);
bool ipc_world_is_done(const struct ipc_world *world);
void ipc_world_kill(struct ipc_world *world, uint32_t side);
/* Runs one random event of a side. Called by its thread. */
void ipc_side_step(struct ipc_side *side);
bool ipc_side_is_done(const struct ipc_side *side);

/* Internal. Put a message in transit, or take one. Return false if there is none. */
bool ipc_side_emit(struct ipc_side *side);
bool ipc_side_absorb(struct ipc_side *side);
void *ipc_side_alloc(struct ipc_side *side, enum io_memory where, size_t n_bytes);

#endif
