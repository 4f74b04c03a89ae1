/* Definitions shared by the files of plugin-check. */
#ifndef WEFT_PLUGINCHECK_PRIVATE_H
#define WEFT_PLUGINCHECK_PRIVATE_H

#include <stdatomic.h>

#include "base/rng.h"
#include "base/status.h"
#include "plugincheck/check.h"
#include "plugincheck/net.h"

#define CHECK_RANKS PLUGIN_CHECK_RANKS_MAX
#define CHECK_CHANNELS 2 /* connections per pair and direction */
#define CHECK_COMMS 2    /* communicators at the same time */
#define CHECK_GROUP_MAX 8
#define CHECK_DEPTH_MAX 32
/* size of the buffer at each end of a connection */
#define CHECK_BUFFER_BYTES (UINT32_C(1) << 20)
#define CHECK_GUARD_BYTES 64u /* behind each posted buffer */
#define CHECK_FILL 0xeeu      /* content of a buffer before it is received into */
#define CHECK_USED 0xa5u      /* content of a buffer after it was sent */
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

/* The current call of one thread, for the watching process. */
struct check_thread {
    _Atomic int call; /* current enum check_call */
    _Atomic int is_used;
    _Atomic uint64_t n_calls, n_messages;
};
#define CHECK_THREADS (2 * CHECK_RANKS)

enum check_verdict { VERDICT_NONE, VERDICT_BEGUN, VERDICT_WRITTEN };

/* Memory shared by all processes of one check. */
struct check_shared {
    _Atomic int verdict; /* enum check_verdict */
    uint32_t versions;   /* bit v: the object has this table */
    int n_devices, max_recvs;
    int first_init;  /* status of the first init if that failed; 0 otherwise */
    char clause[32]; /* "" if the check could not go on for a reason of its own */
    char part[16], detail[400];
    _Atomic int64_t moved_ns; /* time of the last progress */
    /* last time that irecv gave no request on a comm without open ones */
    _Atomic int64_t starved_ns;
    _Atomic uint32_t n_met, generation; /* ranks in check_meet(); number of meetings */
    _Atomic uint32_t n_growing; /* ranks whose descriptors grew with each communicator */
    _Atomic int is_setting_up;
    _Atomic uint32_t sequence; /* number of the random sequence, from 1; 0 if none */
    /* Clause that a crash, a standstill or a failed call breaks at present; NULL for the usual
     * one. A static string, at the same address in all processes of a check. */
    _Atomic(const char *) blame;
    struct check_thread threads[CHECK_THREADS];
    uint8_t handles[CHECK_COMMS][CHECK_RANKS][CHECK_RANKS][CHECK_CHANNELS + 1]
                   [ABI_HANDLE_BYTES]; /* [communicator][to][from][channel] */
};

/* The check of one version, in one part. */
struct check {
    const struct plugin_check_options *options;
    struct check_shared *shared;
    struct check_net *net;
    void *object;       /* returned by dlopen */
    uint32_t n_threads; /* threads of this process before it opened the object */
    unsigned version;
    unsigned oldest; /* oldest version of all ranks, whose features both ends have */
    const char *part;
    uint32_t n_ranks;
    bool in_one_process; /* the simulated mesh exists only in one process */
    int n_devices;
    int max_recvs; /* minimum over all devices, up to CHECK_GROUP_MAX */
};

/* ---- watch.c ---- */
int64_t check_now(void);
/* Sleeps between polls. The pause grows up to 0.2 ms while nothing makes progress anywhere,
 * because idle polling takes CPU time from the threads that work. Initialize to {0}. */
struct check_patience {
    int64_t moved_ns; /* last time of progress that was seen */
    long pause_ns;
};
void check_pause(const struct check *check, struct check_patience *patience);
/* Reports that the plugin broke `clause`, and ends the process. Callable from any thread. Only
 * the first report counts. */
_Noreturn void check_broken(const struct check *check, const char *clause,
                            const char *format, ...) WEFT_PRINTF(3, 4);
/* Reports that the check itself lacks something, so that it does not judge the plugin, and ends
 * the process. `what` says what it could not do; `sys_errno` is why. */
_Noreturn void check_lacks(const struct check *check, const char *what, int sys_errno);
#define CHECK_NO_PROCESS "cannot start a process"
#define CHECK_NO_THREAD "cannot start a thread"
/* Returns the clause that a failure breaks at present. */
const char *check_blame(const struct check *check, const char *usual);
void check_begin(const struct check *check, uint32_t thread, enum check_call call);
void check_end(const struct check *check, uint32_t thread);
void check_moved(const struct check *check);
/* Waits until all ranks have called it. */
void check_meet(const struct check *check);
/* The number of consecutive looks at which a value has not changed. */
struct check_age {
    uint64_t value;
    int64_t looks;
};
struct check_ages { /* Initialize to {0}. */
    struct check_age moved, starved, calls[CHECK_THREADS];
    int call_of[CHECK_THREADS]; /* current enum check_call at the last look */
};
/* Looks at all threads once, from the watching process. */
void check_look(const struct check *check, struct check_ages *ages);
/* Returns true, after a report, if a call or a standstill has lasted for too many looks. */
bool check_is_over(const struct check *check, const struct check_ages *ages);
/* Runs `body` in a new process and watches it. Returns false if it broke a clause, or if the check
 * itself lacked something; shared->verdict is then VERDICT_WRITTEN. */
bool check_watch(struct check *check, void (*body)(struct check *check));
void check_logger(int level, unsigned long subsystems, const char *file, int line,
                  const char *format, ...) WEFT_PRINTF(5, 6);

/* Makes a call on `thread` that returns a status. */
#define CHECK_CALL(check, thread, call, expression)                                      \
    (check_begin((check), (thread), (call)), check_call_status = (expression),           \
     check_end((check), (thread)), check_call_status)

/* ---- stream.c: one connection and its messages ---- */

struct check_group {
    int n;
    size_t posted[CHECK_GROUP_MAX], sent[CHECK_GROUP_MAX]; /* sent[i] <= posted[i] */
    int tags[CHECK_GROUP_MAX];
    uint32_t order[CHECK_GROUP_MAX]; /* order in which they are sent */
    bool is_optional, is_flushed;
};

struct check_row { /* A group in progress. */
    struct check_group group;
    uint64_t number;
    void *requests[CHECK_GROUP_MAX]; /* receiver: only [0] */
    bool is_sent[CHECK_GROUP_MAX], is_done[CHECK_GROUP_MAX];
    bool is_flushing;
    int n_sent, n_done;
};

struct check_stream {
    const struct check *check;
    uint32_t thread; /* number of the thread that drives it */
    uint32_t from, to, channel, communicator;
    bool is_sender;
    bool is_quiet;  /* receives are posted, but nothing is sent */
    bool is_closed; /* `comm` was closed before its communicator */
    void *comm, *listener, *mhandle;
    uint8_t *handle; /* [CHECK_HANDLE_BYTES] passed to connect; Not owned */
    uint8_t *buffer; /* Owned [CHECK_BUFFER_BYTES] */
    uint32_t depth;
    uint64_t n_groups;    /* total number of groups */
    uint64_t first, next; /* oldest in progress; next to start */
    struct check_row rows[CHECK_DEPTH_MAX];
};

void check_stream_start(struct check_stream *stream, uint64_t n_messages);
/* Makes progress without blocking. Returns true when all its messages are done. */
bool check_stream_progress(struct check_stream *stream);
/* Posts one receive for which nothing is sent. */
void check_stream_open_receive(struct check_stream *stream);

/* ---- data.c: contents of messages ---- */
void check_group_make(const struct check_stream *stream, uint64_t number,
                      struct check_group *out);
uint8_t *check_slot(const struct check_stream *stream, const struct check_row *row,
                    int i);
void check_data_fill(const struct check_stream *stream, const struct check_row *row,
                     int i);
/* Checks a message that is done. Ends the process with a report if it is wrong. */
void check_data_judge(const struct check_stream *stream, const struct check_row *row,
                      int i);
/* Ends the process with a report if the `n` received bytes are another message of the group. */
void check_data_name_sibling(const struct check_stream *stream,
                             const struct check_row *row, int i, size_t n);
bool check_data_is_there(const struct check_stream *stream, const struct check_row *row);

/* ---- setup.c: connections between all pairs ---- */

#define CHECK_STREAMS (2 * (CHECK_RANKS - 1) * (CHECK_CHANNELS + 1))

/* One communicator of one rank. */
struct check_comm {
    const struct check *check;
    uint32_t rank, index; /* thread 2 * rank sets up, 2 * rank + 1 moves data */
    void *context;
    struct check_stream *streams; /* Owned [n_streams] */
    uint32_t n_streams;
    bool keeps_listeners; /* until check_comm_close_listeners() */
    bool closes_at_once;  /* close each end as soon as it has its comm */
    uint64_t n_listens;
};
/* Calls init, then connects in rounds: with the ranks at distance 1, 2, ... before and after. */
void check_comm_open(struct check_comm *comm);
void check_comm_close_listeners(struct check_comm *comm);
/* Closes one end of a connection and deregisters its memory. */
void check_comm_close_stream(struct check_comm *comm, struct check_stream *stream);
/* Closes everything that is still open. */
void check_comm_close(struct check_comm *comm);

/* ---- rank.c: the stages of a rank ---- */
/* Runs all ranks as pairs of threads of this process. */
void check_ranks_as_threads(struct check *check);
/* Runs each rank as a child process, which opens the plugin itself. */
void check_ranks_as_processes(struct check *check);

/* ---- random.c ---- */
/* Makes random legal calls in one thread of this process. */
void check_random(struct check *check);

/* ---- load.c ---- */
/* Opens the object as NCCL does. On failure returns NULL and writes the reason to `why`. */
void *check_open_object(const char *path, char *why, size_t why_bytes);
const void *check_find_table(void *object, unsigned version);
/* Enters the network namespace of rank `rank`, if it has one. */
void check_enter(const struct check *check, uint32_t rank);
/* Opens the object as NCCL does, and takes the table of check->version into `net`. */
void check_load(struct check *check, struct check_net *net);
/* Calls init for communicator `comm_id` on `thread`. If it fails, reports its clause. */
void check_init(const struct check *check, uint32_t thread, uint64_t comm_id,
                void **out_context);
/* Closes the object, as NCCL does after the last communicator of a process. A thread of an
 * object that is no longer mapped crashes when it runs next. */
void check_unload(const struct check *check);

#endif
