/* Phases: the operations in which a failure is detected. The code compares enumerators. The names
 * appear in text, in JSON, in traces and in the ABORT message (docs/wire.md). */
#ifndef WEFT_BASE_PHASE_H
#define WEFT_BASE_PHASE_H

/* X(enumerator, name), grouped by the part of the program that reports them. */
#define WEFT_PHASES(X)                                                                   \
    /* verbs and queue pairs (src/rdma) */                                               \
    X(DISCOVER, "discover")                                                              \
    X(CREATE, "create")                                                                  \
    X(CREATE_CQ, "create_cq")                                                            \
    X(CREATE_QP, "create_qp")                                                            \
    X(INIT, "init")                                                                      \
    X(RTR, "rtr")                                                                        \
    X(RTS, "rts")                                                                        \
    X(ERR, "err")                                                                        \
    X(DESTROY, "destroy")                                                                \
    X(QP, "qp")                                                                          \
    X(POLL_CQ, "poll_cq")                                                                \
    X(REGISTER, "register")                                                              \
    X(ROUTE, "route")                                                                    \
    /* a connection: its states and messages (src/conn, src/boot) */                     \
    X(LISTEN, "listen")                                                                  \
    X(ACCEPT, "accept")                                                                  \
    X(LIMIT, "limit")                                                                    \
    X(AUTHENTICATE, "authenticate")                                                      \
    X(TCP, "tcp")                                                                        \
    X(STREAM, "stream")                                                                  \
    X(HEADER, "header")                                                                  \
    X(HANDLE, "handle")                                                                  \
    X(HELLO, "hello")                                                                    \
    X(CHALLENGE, "challenge")                                                            \
    X(AUTH, "auth")                                                                      \
    X(FACTS, "facts")                                                                    \
    X(META, "meta")                                                                      \
    X(QPS, "qps")                                                                        \
    X(CONNECT_QPS, "connect_qps")                                                        \
    X(UP, "up")                                                                          \
    X(READY, "ready")                                                                    \
    X(PROBE, "probe")                                                                    \
    X(PROBED, "probed")                                                                  \
    X(CLOSE, "close")                                                                    \
    X(CLOSING, "closing")                                                                \
    X(ABORT, "abort")                                                                    \
    X(BUSY, "busy")                                                                      \
    X(IPC, "ipc")                                                                        \
    X(CALL, "call")                                                                      \
    X(ANSWER, "answer")                                                                  \
    X(PURPOSE, "purpose")                                                                \
    X(STALE, "stale")                                                                    \
    X(DUPLICATE, "duplicate")                                                            \
    X(EPOCH, "epoch")                                                                    \
    X(PEER, "peer") /* the peer reported its own failure */                              \
    /* rendezvous and mesh of members (src/boot) */                                      \
    X(BOOT, "boot")                                                                      \
    X(JOIN, "join")                                                                      \
    X(BLOB, "blob")                                                                      \
    X(BYE, "bye")                                                                        \
    X(GIVE_UP, "give_up")                                                                \
    X(MEMBER, "member")                                                                  \
    X(LINKS, "links")                                                                    \
    X(PIECE, "piece")                                                                    \
    X(ALIVE, "alive")                                                                    \
    X(ANNOUNCEMENT, "announcement")                                                      \
    /* transfers, relays, transports (src/xfer, src/transport, src/ipc) */               \
    X(DATA, "data")                                                                      \
    X(FLOW, "flow")                                                                      \
    X(FLUSH, "flush")                                                                    \
    X(IRECV, "irecv")                                                                    \
    X(PORT, "port")                                                                      \
    X(RECOVERY, "recovery")                                                              \
    X(RETURN, "return")                                                                  \
    X(RELAY, "relay") /* with a detail: its reason and the member, "memory.3" */         \
    X(INSIDE, "inside")                                                                  \
    X(MEMORY, "memory")                                                                  \
    /* a host and its jobs (src/host, src/coll) */                                       \
    X(SETUP, "setup")                                                                    \
    X(CONNECT, "connect")                                                                \
    X(BARRIER, "barrier")                                                                \
    X(MEETING, "meeting")                                                                \
    X(JOBS, "jobs")                                                                      \
    X(PLAN, "plan")                                                                      \
    X(STEPS, "steps")                                                                    \
    X(REDUCE, "reduce")                                                                  \
    X(COPY, "copy")                                                                      \
    X(EXECUTE, "execute")                                                                \
    X(VERIFY, "verify")                                                                  \
    X(LOOP, "loop")                                                                      \
    /* what the program reads and starts (src/nccl, src/run, src/diag, src/cli) */       \
    X(TOPOLOGY, "topology")                                                              \
    X(GRAPHS, "graphs")                                                                  \
    X(PATHS, "paths")                                                                    \
    X(SCENARIO, "scenario")                                                              \
    X(OBSERVATIONS, "observations")                                                      \
    X(RECORD, "record")                                                                  \
    X(GATHER, "gather")                                                                  \
    X(PROGRAM, "program")                                                                \
    X(LAUNCH, "launch")                                                                  \
    X(NODE, "node")                                                                      \
    X(SITE, "site")                                                                      \
    X(PMIX, "pmix")                                                                      \
    X(WATCH, "watch")                                                                    \
    X(WORLD, "world")                                                                    \
    /* backends */                                                                       \
    X(START, "start")                                                                    \
    X(EXEC, "exec")                                                                      \
    X(GUEST, "guest")                                                                    \
    X(LAB, "lab")                                                                        \
    X(RXE, "rxe")                                                                        \
    X(SOFT, "soft")                                                                      \
    X(VERBS, "verbs")                                                                    \
    X(CUDA, "cuda")                                                                      \
    X(DEVICE, "device")                                                                  \
    X(HOST, "host")                                                                      \
    X(CABLE, "cable")                                                                    \
    X(ROUTES, "routes")                                                                  \
    X(NAMESPACE, "namespace")                                                            \
    X(MANAGEMENT, "management")                                                          \
    X(LOOPBACK, "loopback")                                                              \
    X(RESOLVE, "resolve")                                                                \
    X(CAPTURE, "capture")

enum weft_phase {
    WEFT_PHASE_NONE,    /* nothing has failed, or no phase was reported; its name is "" */
    WEFT_PHASE_UNKNOWN, /* named by a peer or a file, but not in the list above */
#define WEFT_PHASE_ENUMERATOR(enumerator, name) WEFT_PHASE_##enumerator,
    WEFT_PHASES(WEFT_PHASE_ENUMERATOR)
#undef WEFT_PHASE_ENUMERATOR
};

/* Returns the name of `phase`, "" for WEFT_PHASE_NONE. */
const char *weft_phase_name(enum weft_phase phase);

/* Returns the phase called `name`, WEFT_PHASE_NONE for "", or WEFT_PHASE_UNKNOWN. Ignores a detail
 * after the first full stop: "rtr.1" is WEFT_PHASE_RTR. */
enum weft_phase weft_phase_find(const char *name);

#endif
