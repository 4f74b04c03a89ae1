/* Random sequences of legal calls: one thread is both ends of up to three connections, and each
 * step makes a call for one of them that NCCL could make. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "plugincheck/private.h"

#define LINES_MAX 3

enum line_state {
    LINE_NEW,        /* waits for listen */
    LINE_CONNECTING, /* has a listener */
    LINE_UP,         /* both ends have their comm */
    LINE_CLOSED      /* both ends are closed */
};

struct line {
    enum line_state state;
    uint32_t context;
    struct check_stream out, in; /* `in` has the listener */
    uint8_t handle[CHECK_HANDLE_BYTES];
    bool is_connecting; /* connect was called, so accept must follow */
    int device;         /* passed to connect */
    void *extra;        /* a second registration of the buffer of `in` */
};

struct sequence {
    const struct check *check;
    struct weft_rng rng;
    void *contexts[2];
    uint32_t n_contexts, n_lines;
    struct line lines[LINES_MAX];
};

static uint32_t below(struct sequence *sequence, uint32_t n)
{
    return (uint32_t)weft_rng_below(&sequence->rng, n);
}

static void expect(const struct check *check, abi_status status, const char *clause,
                   const char *call)
{
    if (status != ABI_SUCCESS) {
        check_broken(check, clause, "%s failed with %d", call, status);
    }
}

/* ---- set-up ---- */

static void listen_on(struct sequence *sequence, struct line *line)
{
    const struct check *check = sequence->check;
    int device = (int)below(sequence, (uint32_t)check->n_devices);
    abi_status check_call_status;

    expect(check,
           CHECK_CALL(check, 0, CALL_LISTEN,
                      check_net_listen(check->net, sequence->contexts[line->context],
                                       device, line->handle, &line->in.listener)),
           "listen.comm", "listen");
    if (line->in.listener == NULL) {
        check_broken(check, "listen.comm", "listen gave no comm");
    }
    line->state = LINE_CONNECTING;
}

static void close_listener(struct line *line)
{
    const struct check *check = line->in.check;
    abi_status check_call_status;

    if (line->in.listener != NULL) {
        expect(check,
               CHECK_CALL(check, 0, CALL_CLOSE_LISTEN,
                          check->net->close_listen(line->in.listener)),
               "close.result", "closeListen");
        line->in.listener = NULL;
    }
}

static void connect_it(struct sequence *sequence, struct line *line)
{
    const struct check *check = sequence->check;
    abi_status check_call_status;

    if (line->out.comm == NULL) {
        if (!line->is_connecting) { /* NCCL does not change the device between calls */
            line->device = (int)below(sequence, (uint32_t)check->n_devices);
            line->is_connecting = true;
        }
        expect(check,
               CHECK_CALL(check, 0, CALL_CONNECT,
                          check_net_connect(check->net, sequence->contexts[line->context],
                                            line->device, line->handle, &line->out.comm)),
               "connect.result", "connect");
    }
}

static void accept_it(struct sequence *sequence, struct line *line)
{
    const struct check *check = sequence->check;
    struct abi_device_handle *none = NULL;
    abi_status check_call_status;

    if (line->in.comm != NULL) {
        return;
    }
    expect(check,
           CHECK_CALL(check, 0, CALL_ACCEPT,
                      check->net->accept(line->in.listener, &line->in.comm, &none)),
           "accept.result", "accept");
    if (line->in.comm != NULL && below(sequence, 2) == 0) {
        close_listener(line);
    }
}

static void *register_it(const struct check *check, void *comm, uint8_t *data, size_t n)
{
    void *mhandle = NULL;
    abi_status check_call_status;

    expect(check,
           CHECK_CALL(check, 0, CALL_REG_MR,
                      check->net->reg_mr(comm, data, n, ABI_PTR_HOST, &mhandle)),
           "memory.result", "regMr");
    return mhandle;
}

static void deregister_it(const struct check *check, void *comm, void *mhandle)
{
    abi_status check_call_status;

    expect(check,
           CHECK_CALL(check, 0, CALL_DEREG_MR, check->net->dereg_mr(comm, mhandle)),
           "memory.result", "deregMr");
}

static void begin_messages(struct sequence *sequence, struct line *line)
{
    uint64_t n_messages = below(sequence, 24);
    struct check_stream *ends[] = {&line->out, &line->in};

    for (size_t i = 0; i < 2; i++) {
        if (ends[i]->buffer == NULL) {
            ends[i]->buffer = weft_calloc(1, CHECK_BUFFER_BYTES);
            ends[i]->mhandle = register_it(sequence->check, ends[i]->comm,
                                           ends[i]->buffer, CHECK_BUFFER_BYTES);
        }
        check_stream_start(ends[i], n_messages);
    }
    line->state = LINE_UP;
}

static void set_up(struct sequence *sequence, struct line *line)
{
    switch (below(sequence, 8)) {
    case 0:
        /* Close the listener, if no connect was called for it. */
        if (!line->is_connecting && line->in.comm == NULL) {
            close_listener(line);
            line->state = LINE_NEW;
            return;
        }
        break;
    case 1:
    case 2:
    case 3:
        connect_it(sequence, line);
        break;
    default:
        accept_it(sequence, line);
        break;
    }
    if (line->out.comm != NULL && line->in.comm != NULL) {
        begin_messages(sequence, line);
    }
}

/* ---- closing ---- */

static void close_end(struct check_stream *end)
{
    const struct check *check = end->check;
    abi_status check_call_status;

    deregister_it(check, end->comm, end->mhandle);
    expect(check,
           CHECK_CALL(check, 0, end->is_sender ? CALL_CLOSE_SEND : CALL_CLOSE_RECV,
                      end->is_sender ? check->net->close_send(end->comm)
                                     : check->net->close_recv(end->comm)),
           "close.result", "close");
    free(end->buffer);
    check_moved(check);
}

static void close_line(struct sequence *sequence, struct line *line)
{
    bool sender_first = below(sequence, 2) == 0;

    if (line->extra != NULL) {
        deregister_it(sequence->check, line->in.comm, line->extra);
    }
    if (below(sequence, 2) == 0) {
        close_listener(line);
    }
    close_end(sender_first ? &line->out : &line->in);
    close_end(sender_first ? &line->in : &line->out);
    close_listener(line);
    line->state = LINE_CLOSED;
}

/* ---- messages ---- */

static void register_more(struct sequence *sequence, struct line *line)
{
    uint32_t at = below(sequence, CHECK_BUFFER_BYTES);

    if (line->extra == NULL) {
        line->extra = register_it(sequence->check, line->in.comm, line->in.buffer + at,
                                  1 + below(sequence, CHECK_BUFFER_BYTES - at));
    } else {
        deregister_it(sequence->check, line->in.comm, line->extra);
        line->extra = NULL;
    }
}

static void use(struct sequence *sequence, struct line *line)
{
    bool all =
        line->out.first == line->out.n_groups && line->in.first == line->in.n_groups;

    switch (below(sequence, 64)) {
    case 0:
        close_line(sequence, line); /* with requests that are still open */
        return;
    case 1:
        register_more(sequence, line);
        return;
    case 2:
        close_listener(line);
        return;
    default:
        break;
    }
    if (!all) {
        (void)check_stream_progress(below(sequence, 2) == 0 ? &line->out : &line->in);
    } else if (below(sequence, 4) == 0) {
        begin_messages(sequence, line);
    } else {
        close_line(sequence, line);
    }
}

/* ---- a sequence ---- */

static void init_lines(struct sequence *sequence)
{
    for (uint32_t i = 0; i < sequence->n_lines; i++) {
        struct line *line = &sequence->lines[i];
        struct check_stream end = {.check = sequence->check,
                                   .from = below(sequence, 1000),
                                   .to = below(sequence, 1000),
                                   .channel = i};

        line->context = below(sequence, sequence->n_contexts);
        line->out = line->in = end;
        line->out.is_sender = true;
    }
}

static bool step(struct sequence *sequence)
{
    struct line *line = &sequence->lines[below(sequence, sequence->n_lines)];
    uint32_t n_closed = 0;

    switch (line->state) {
    case LINE_NEW:
        listen_on(sequence, line);
        break;
    case LINE_CONNECTING:
        set_up(sequence, line);
        break;
    case LINE_UP:
        use(sequence, line);
        break;
    case LINE_CLOSED:
        break;
    }
    for (uint32_t i = 0; i < sequence->n_lines; i++) {
        n_closed += sequence->lines[i].state == LINE_CLOSED;
    }
    return n_closed < sequence->n_lines;
}

static void run_sequence(const struct check *check, uint64_t number)
{
    struct sequence sequence = {.check = check};
    struct check_patience patience = {0};
    abi_status check_call_status;
    uint32_t n_steps = 0;
    char name[48];

    weft_format(name, sizeof(name), "sequence %llu", (unsigned long long)number);
    weft_rng_init(&sequence.rng, check->options->seed, name);
    sequence.n_contexts = 1 + below(&sequence, 2);
    sequence.n_lines = 1 + below(&sequence, LINES_MAX);
    for (uint32_t i = 0; i < sequence.n_contexts; i++) {
        check_init(check, 0, 7000 + i, &sequence.contexts[i]);
    }
    init_lines(&sequence);
    while (step(&sequence)) {
        /* A simulated mesh has no thread that needs the CPU meanwhile. */
        if (++n_steps % 8 == 0 && !check->in_one_process) {
            check_pause(check, &patience);
        }
    }
    for (uint32_t i = 0; i < sequence.n_contexts; i++) {
        expect(check,
               CHECK_CALL(check, 0, CALL_FINALIZE,
                          check_net_finalize(check->net, sequence.contexts[i])),
               "close.result", "finalize");
    }
}

void check_random(struct check *check)
{
    for (uint32_t i = 1; i <= check->options->n_sequences; i++) {
        atomic_store(&check->shared->sequence, i);
        check_moved(check);
        run_sequence(check, i);
    }
}
