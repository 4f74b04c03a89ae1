/* What the files of plugin-check share. */
#ifndef WEFT_PLUGIN_CHECK_PRIVATE_H
#define WEFT_PLUGIN_CHECK_PRIVATE_H

#include <stdatomic.h>

#include "base/rng.h"
#include "base/status.h"
#include "plugin/check.h"
#include "plugin/check_net.h"

#define CHECK_RANKS PLUGIN_CHECK_RANKS_MAX
#define CHECK_CHANNELS 2 /* connections of a pair, per direction */
#define CHECK_COMMS 2    /* communicators at a time */
#define CHECK_GROUP_MAX 8
#define CHECK_DEPTH_MAX 32
#define CHECK_BUFFER_BYTES (UINT32_C(1) << 20) /* of one connection's end */
#define CHECK_GUARD_BYTES 64u                  /* behind each posted buffer */
#define CHECK_FILL 0xeeu /* of a buffer before it is received into */
#define CHECK_USED 0xa5u /* of one that was sent */
#define CHECK_HANDLE_BYTES (ABI_HANDLE_BYTES + 64)

enum check_call {
    CALL_NONE,
    CALL_INIT,
    CALL_DEVICES,
    CALL_PROPERTIES,
    CALL_LISTEN,
    CALL_CONNECT,
    CALL_ACCEPT,
    CALL_REG_MR,
    CALL_DEREG_MR,
    CALL_ISEND,
    CALL_IRECV,
    CALL_IFLUSH,
    CALL_TEST,
    CALL_CLOSE_SEND,
    CALL_CLOSE_RECV,
    CALL_CLOSE_LISTEN,
    CALL_FINALIZE
};

/* What one thread is doing, for whoever watches from outside. */
struct check_thread {
    _Atomic int call; /* enum check_call under way */
    _Atomic int is_used;
    _Atomic uint64_t n_calls, n_messages;
};
#define CHECK_THREADS (2 * CHECK_RANKS)

enum check_verdict { VERDICT_NONE, VERDICT_BEGUN, VERDICT_WRITTEN };

/* Shared by all processes of one check. */
struct check_shared {
    _Atomic int verdict; /* enum check_verdict */
    uint32_t versions;   /* bit v: there is a table */
    int n_devices, max_recvs;
    int first_init; /* status with which the first init failed, or 0 */
    char clause[32], part[16], detail[400];
    _Atomic int64_t moved_ns; /* when something last moved */
    _Atomic int64_t
        starved_ns; /* when irecv last gave no request on a comm without any */
    _Atomic uint32_t n_met, generation; /* of check_meet */
    _Atomic int is_setting_up;
    _Atomic uint32_t sequence; /* of random calls, from 1; 0: none */
    /* What a crash, a standstill or a failed call means now; NULL: what it says. Static text, at
     * the same address in all processes of a check. */
    _Atomic(const char *) blame;
    struct check_thread threads[CHECK_THREADS];
    uint8_t handles[CHECK_COMMS][CHECK_RANKS][CHECK_RANKS][CHECK_CHANNELS + 1]
                   [ABI_HANDLE_BYTES]; /* [communicator][to][from][channel] */
};

/* One version, in one part of the check. */
struct check {
    const struct plugin_check_options *options;
    struct check_shared *shared;
    struct check_net *net;
    void *object;       /* of dlopen */
    uint32_t n_threads; /* of this process before it was opened */
    unsigned version;
    unsigned oldest; /* of all ranks: what both ends of a connection know */
    const char *part;
    uint32_t n_ranks;
    bool in_one_process; /* a simulated mesh is in no other one */
    int n_devices;
    int max_recvs; /* the least of all devices, at most CHECK_GROUP_MAX */
};

/* ---- check_watch.c ---- */
int64_t check_now(void);
/* Waits a moment, and while nothing moves anywhere longer from time to time, up to 0.2 ms: who
 * polls for nothing takes the processor from those who move. Starts as {0}. */
struct check_patience {
    int64_t moved_ns; /* when something had last moved */
    long pause_ns;
};
void check_pause(const struct check *check, struct check_patience *patience);
/* The plugin broke `clause`: ends the process, from any thread; only the first counts. */
_Noreturn void check_broken(const struct check *check, const char *clause,
                            const char *format, ...) WEFT_PRINTF(3, 4);
/* The clause that a failure stands for now. */
const char *check_blame(const struct check *check, const char *usual);
void check_begin(const struct check *check, uint32_t thread, enum check_call call);
void check_end(const struct check *check, uint32_t thread);
void check_moved(const struct check *check);
/* Waits until all ranks are here. */
void check_meet(const struct check *check);
/* For how many looks in a row something has been the same. */
struct check_age {
    uint64_t value;
    int64_t looks;
};
struct check_ages { /* Starts as {0}. */
    struct check_age moved, starved, calls[CHECK_THREADS];
};
/* One look from outside, whenever it comes. */
void check_look(const struct check *check, struct check_ages *ages);
/* True, and told, if a call lasts or everything stands still for too many looks. */
bool check_is_over(const struct check *check, const struct check_ages *ages);
/* Runs `body` in a process of its own and watches it. False: it broke something, as
 * shared->verdict tells then. */
bool check_watch(struct check *check, void (*body)(struct check *check));
void check_logger(int level, unsigned long subsystems, const char *file, int line,
                  const char *format, ...) WEFT_PRINTF(5, 6);

/* Calls init for communicator `comm_id` on `thread`; one that fails breaks its clause. */
void check_init(const struct check *check, uint32_t thread, uint64_t comm_id,
                void **out_context);

/* Of a call on `thread` that returns a status. */
#define CHECK_CALL(check, thread, call, expression)                                      \
    (check_begin((check), (thread), (call)), check_call_status = (expression),           \
     check_end((check), (thread)), check_call_status)

/* ---- check_stream.c: one connection and its messages ---- */

struct check_group {
    int n;
    size_t posted[CHECK_GROUP_MAX], sent[CHECK_GROUP_MAX]; /* sent <= posted */
    int tags[CHECK_GROUP_MAX];
    uint32_t order[CHECK_GROUP_MAX]; /* in which they are sent */
    bool is_optional, is_flushed;
};

struct check_row { /* a group under way */
    struct check_group group;
    uint64_t number;
    void *requests[CHECK_GROUP_MAX]; /* receiver: one */
    bool is_sent[CHECK_GROUP_MAX], is_done[CHECK_GROUP_MAX];
    bool is_flushing;
    int n_sent, n_done;
};

struct check_stream {
    const struct check *check;
    uint32_t thread; /* of the progress thread that drives it */
    uint32_t from, to, channel, communicator;
    bool is_sender;
    bool is_quiet;  /* receives are posted, nothing is sent */
    bool is_closed; /* `comm` was closed before its communicator */
    void *comm, *listener, *mhandle;
    uint8_t *handle; /* [CHECK_HANDLE_BYTES] the memory that connect gets; not owned */
    uint8_t *buffer; /* Owned [CHECK_BUFFER_BYTES] */
    uint32_t depth;
    uint64_t n_groups;    /* to come in all */
    uint64_t first, next; /* oldest under way; next to start */
    struct check_row rows[CHECK_DEPTH_MAX];
};

void check_stream_start(struct check_stream *stream, uint64_t n_messages);
/* Does what can be done now; true when all its messages are done. */
bool check_stream_progress(struct check_stream *stream);
/* Posts one receive that nothing will come for. */
void check_stream_open_receive(struct check_stream *stream);

/* ---- check_data.c: what is in a message ---- */
void check_group_make(const struct check_stream *stream, uint64_t number,
                      struct check_group *out);
uint8_t *check_slot(const struct check_stream *stream, const struct check_row *row,
                    int i);
void check_data_fill(const struct check_stream *stream, const struct check_row *row,
                     int i);
/* Says what is wrong with a message that is done, and ends; or returns. */
void check_data_judge(const struct check_stream *stream, const struct check_row *row,
                      int i);
/* Says so and ends if the `n` bytes that came are another message of the group. */
void check_data_name_sibling(const struct check_stream *stream,
                             const struct check_row *row, int i, size_t n);
bool check_data_is_there(const struct check_stream *stream, const struct check_row *row);

/* ---- check_setup.c: connections between all pairs ---- */

#define CHECK_STREAMS (2 * (CHECK_RANKS - 1) * (CHECK_CHANNELS + 1))

/* What one rank has of one communicator. */
struct check_comm {
    const struct check *check;
    uint32_t rank, index; /* thread 2 * rank serves, 2 * rank + 1 moves data */
    void *context;
    struct check_stream *streams; /* Owned [n_streams] */
    uint32_t n_streams;
    bool keeps_listeners; /* until check_comm_close_listeners */
    bool closes_at_once;  /* each end, as soon as it has its comm */
    uint64_t n_listens;
};
/* init, then rounds: with the ranks 1, 2, .. further and before. */
void check_comm_open(struct check_comm *comm);
void check_comm_close_listeners(struct check_comm *comm);
/* Closes one end of a connection, with its memory. */
void check_comm_close_stream(struct check_comm *comm, struct check_stream *stream);
/* Closes what is not closed yet. */
void check_comm_close(struct check_comm *comm);

/* ---- check_rank.c: the life of a rank ---- */
/* All ranks as pairs of threads of this process. */
void check_ranks_as_threads(struct check *check);
/* Each rank as a process, started by this one, with the plugin opened for itself. */
void check_ranks_as_processes(struct check *check);

/* ---- check_random.c ---- */
/* Random legal calls, by one thread of this process. */
void check_random(struct check *check);

/* ---- check.c ---- */
/* This process becomes rank `rank`'s, as far as its network goes. */
void check_enter(const struct check *check, uint32_t rank);
/* Opens the object as NCCL does, and takes the table of check->version into `net`. */
void check_load(struct check *check, struct check_net *net);

#endif
