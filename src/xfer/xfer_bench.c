/* Measures src/xfer between two processes over real devices, without the layers above. It is to
 * Weft's messages what perftest is to verbs. ci/bench-wire starts two of these, each in its network
 * namespace. It copies the handle that each prints, a line of hexadecimal digits, to the other's
 * input.
 *
 *   xfer_bench send|receive BYTES N WARMUP
 *       N messages in one direction, up to XFER_SLOTS at a time, all from one buffer into one
 *       buffer
 *   xfer_bench ping|pong BYTES N WARMUP
 *       N messages in each direction, one at a time
 *
 * WARMUP messages precede the N. Each process then prints a line with the nanoseconds from the end
 * of the warm-up to the end of the last message, and the number of messages or round trips in that
 * time. It exits at the end of its input. A receiving process checks the bytes of the last
 * message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/verbs/host.h"
#include "base/check.h"
#include "base/text.h"
#include "io/gpu.h"
#include "xfer/xfer.h"

#define TAG 7
#define PATIENCE_NS INT64_C(20000000000)

enum kind { KIND_RDMA = 1, KIND_LISTENER, KIND_CONN };

/* One end of a connection. */
struct end {
    struct conn *conn;
    struct xfer *xfer; /* NULL until the connection is up */
    uint8_t *bytes;    /* Owned */
    struct xfer_memory memory;
    bool is_registered;
    struct xfer_request *requests[XFER_SLOTS]; /* by message number modulo XFER_SLOTS */
    uint32_t n_started, n_done;
};

struct bench {
    struct linux_loop *loop;
    struct io_env *env;
    struct rdma *rdma;
    struct conn_listener *listener;
    struct end out, in; /* send and receive use one of these, ping and pong both */
    bool has_out, has_in, is_first;
    size_t n_bytes;
    uint32_t n, n_warmup;
    weft_ns began, ended;
    weft_ns limit;
};

static _Noreturn void die(const char *what, const struct weft_error *error)
{
    char text[400] = "";

    if (error != NULL) {
        weft_error_format(error, text, sizeof text);
    }
    fprintf(stderr, "xfer_bench: %s: %s\n", what, text);
    exit(1);
}

/* ---- connections ---- */

static void accept_all(struct bench *bench)
{
    struct conn *conn;

    conn_listener_progress(bench->listener);
    while ((conn = conn_accept(bench->listener)) != NULL) {
        weft_check(bench->has_in && bench->in.conn == NULL);
        bench->in.conn = conn;
        io_task_wake(&conn->task);
    }
}

static void open_end(struct bench *bench, struct end *end)
{
    struct weft_error error = {0};

    if (xfer_open(end->conn, &end->xfer, &error) != WEFT_OK ||
        xfer_register(end->xfer, end->bytes, bench->n_bytes, &end->memory, &error) !=
            WEFT_OK) {
        die("data", &error);
    }
}

static void progress_end(struct bench *bench, struct end *end)
{
    struct weft_error error = {0};

    if (conn_progress(end->conn) < 0) {
        die("connection", &end->conn->error);
    }
    if (end->xfer == NULL && end->conn->state == CONN_UP) {
        open_end(bench, end);
    }
    if (end->xfer == NULL) {
        return;
    }
    if (xfer_progress(end->xfer) < 0) {
        die("data", xfer_error(end->xfer));
    }
    if (!end->is_registered) {
        weft_status status = xfer_register_progress(end->xfer, &end->memory, &error);

        end->is_registered = status == WEFT_OK;
        if (status < 0) {
            die("memory", &error);
        }
    }
}

static void dispatch(struct bench *bench, struct io_task *task)
{
    struct weft_error error = {0};

    switch ((enum kind)task->kind) {
    case KIND_RDMA:
        if (rdma_progress(bench->rdma, &error) < 0) {
            die("device", &error);
        }
        break;
    case KIND_LISTENER:
        accept_all(bench);
        break;
    case KIND_CONN:
        progress_end(bench, bench->out.conn != NULL && task == &bench->out.conn->task
                                ? &bench->out
                                : &bench->in);
        break;
    }
}

/* Steps the loop and dispatches the tasks that are ready. Sleeps if none is. */
static void step(struct bench *bench)
{
    struct io_task *task;

    if (linux_loop_step(bench->loop, bench->limit) != WEFT_OK) {
        die("out of time", NULL);
    }
    while ((task = io_loop_pop(linux_loop_io(bench->loop))) != NULL) {
        dispatch(bench, task);
    }
}

static bool is_ready(const struct end *end)
{
    return end->xfer != NULL && end->is_registered;
}

static void print_handle(const uint8_t handle[CONN_HANDLE_BYTES])
{
    for (uint32_t i = 0; i < CONN_HANDLE_BYTES; i++) {
        printf("%02x", handle[i]);
    }
    printf("\n");
    fflush(stdout);
}

static void read_handle(uint8_t out[CONN_HANDLE_BYTES])
{
    for (uint32_t i = 0; i < CONN_HANDLE_BYTES; i++) {
        unsigned value;

        if (scanf("%2x", &value) != 1) {
            die("no handle", NULL);
        }
        out[i] = (uint8_t)value;
    }
}

static void connect_all(struct bench *bench)
{
    uint8_t handle[CONN_HANDLE_BYTES];
    struct conn_config config;
    struct weft_error error = {0};

    conn_config_default(&config);
    if (conn_listen(bench->rdma, &config, KIND_LISTENER, KIND_CONN, handle,
                    &bench->listener, &error) != WEFT_OK) {
        die("listen", &error);
    }
    print_handle(handle);
    if (bench->has_out) {
        read_handle(handle);
        if (conn_connect(bench->rdma, &config, handle, KIND_CONN, &bench->out.conn,
                         &error) != WEFT_OK) {
            die("connect", &error);
        }
        io_task_wake(&bench->out.conn->task);
    }
    while ((bench->has_out && !is_ready(&bench->out)) ||
           (bench->has_in && !is_ready(&bench->in))) {
        step(bench);
    }
}

/* ---- messages ---- */

/* Starts messages until `n_max` have been started in total, or as many as is possible now. */
static void start(const struct bench *bench, struct end *end, uint32_t n_max)
{
    void *data = end->bytes;
    const uint32_t tag = TAG;
    const struct xfer_memory *memory = &end->memory;

    while (end->n_started < n_max && end->n_started - end->n_done < XFER_SLOTS) {
        struct xfer_request **request = &end->requests[end->n_started % XFER_SLOTS];
        struct xfer_cursor cursor = {0};
        const struct xfer_cts *grant =
            end == &bench->out ? xfer_next_grant(end->xfer, &cursor) : NULL;
        weft_status status =
            end != &bench->out ? xfer_irecv(end->xfer, 1, &data, &bench->n_bytes, &tag,
                                            &memory, NULL, request)
            : grant != NULL
                ? xfer_isend(end->xfer, grant, data, bench->n_bytes, memory, request)
                : WEFT_AGAIN;

        if (status < 0) {
            die("data", xfer_error(end->xfer));
        }
        if (status != WEFT_OK) {
            return;
        }
        end->n_started++;
    }
}

/* Tests the messages under way in order. Returns true if any was done. */
static bool finish(const struct bench *bench, struct end *end)
{
    bool any = false;

    while (end->n_done < end->n_started) {
        size_t n_bytes;
        weft_status status =
            xfer_test(end->xfer, end->requests[end->n_done % XFER_SLOTS], &n_bytes);

        if (status < 0) {
            die("data", xfer_error(end->xfer));
        }
        if (status != WEFT_OK) {
            break;
        }
        weft_check(n_bytes == bench->n_bytes);
        end->n_done++;
        any = true;
    }
    return any;
}

static void look_at_clock(struct bench *bench, uint32_t n_before, uint32_t n_now)
{
    weft_ns now = linux_loop_now(bench->loop);

    if (n_before < bench->n_warmup && n_now >= bench->n_warmup) {
        bench->began = now;
        /* Exclude the messages that were done together with the last of the warm-up. */
        bench->n += bench->n_warmup - n_now;
    }
    bench->ended = now;
}

static void stream(struct bench *bench)
{
    struct end *end = bench->has_out ? &bench->out : &bench->in;
    uint32_t n = bench->n + bench->n_warmup;

    while (end->n_done < n) {
        uint32_t n_before = end->n_done;

        start(bench, end, n);
        if (finish(bench, end)) {
            look_at_clock(bench, n_before, end->n_done);
        } else {
            step(bench);
        }
    }
}

/* Sends messages there and back. Both processes count a round trip when they receive. */
static void bounce(struct bench *bench)
{
    uint32_t n = bench->n + bench->n_warmup;
    struct end *in = &bench->in, *out = &bench->out;

    while (in->n_done < n || out->n_done < n) {
        uint32_t n_before = in->n_done;
        bool any = finish(bench, out);

        if (finish(bench, in)) {
            any = true;
            look_at_clock(bench, n_before, in->n_done);
        }
        start(bench, in, n);
        start(bench, out, in->n_done < n ? in->n_done + bench->is_first : n);
        if (!any) {
            step(bench);
        }
    }
}

static bool is_right(const struct bench *bench, const struct end *end)
{
    for (size_t i = 0; i < bench->n_bytes; i++) {
        if (end->bytes[i] != (uint8_t)(i * 7 + i / 251)) {
            return false;
        }
    }
    return true;
}

/* ---- the whole ---- */

static void open_memory(const struct bench *bench, struct end *end, bool is_out)
{
    void *memory;
    int error = bench->env->gpu->ops->alloc(bench->env->gpu, IO_MEMORY_HOST,
                                            bench->n_bytes, &memory);

    weft_check(error == 0);
    end->bytes = memory;
    for (size_t i = 0; i < bench->n_bytes; i++) {
        end->bytes[i] = is_out ? (uint8_t)(i * 7 + i / 251) : 0;
    }
}

static bool parse(struct bench *bench, int n, char **words)
{
    const char *role = n == 5 ? words[1] : "";

    bench->is_first = strcmp(role, "send") == 0 || strcmp(role, "ping") == 0;
    bench->has_out = bench->is_first || strcmp(role, "pong") == 0;
    bench->has_in = strcmp(role, "receive") == 0 || strcmp(role, "ping") == 0 ||
                    strcmp(role, "pong") == 0;
    if (!bench->has_out && !bench->has_in) {
        return false;
    }
    bench->n_bytes = strtoull(words[2], NULL, 10);
    bench->n = (uint32_t)strtoul(words[3], NULL, 10);
    bench->n_warmup = (uint32_t)strtoul(words[4], NULL, 10);
    return bench->n_bytes > 0 && bench->n_bytes <= XFER_SIZE_MAX && bench->n > 0 &&
           bench->n_warmup > 0;
}

int main(int n, char **words)
{
    struct bench bench = {.env = NULL};
    struct verbs_host_config config = {.env = {.netns_fd = -1}, .owns_thread = true};
    struct verbs_host *host;
    struct io_task task;
    struct weft_error error = {0};

    if (!parse(&bench, n, words)) {
        fprintf(stderr, "usage: xfer_bench send|receive|ping|pong BYTES N WARMUP\n");
        return 2;
    }
    if (linux_loop_create(1, &bench.loop, &error) != WEFT_OK ||
        verbs_host_create(bench.loop, &config, &host, &error) != WEFT_OK) {
        die("host", &error);
    }
    bench.env = verbs_host_env(host);
    bench.limit = linux_loop_now(bench.loop) + PATIENCE_NS;
    open_memory(&bench, &bench.out, true);
    open_memory(&bench, &bench.in, false);
    io_task_init(&task, linux_loop_io(bench.loop), 0, KIND_RDMA);
    if (rdma_open(bench.env, &task, &bench.rdma, &error) != WEFT_OK) {
        die("device", &error);
    }
    while (!bench.rdma->is_ready) {
        step(&bench);
    }
    connect_all(&bench);
    if (bench.has_out && bench.has_in) {
        bounce(&bench);
    } else {
        stream(&bench);
    }
    if (bench.has_in && !is_right(&bench, &bench.in)) {
        die("wrong bytes", NULL);
    }
    printf("%lld %u\n", (long long)(bench.ended - bench.began), bench.n);
    fflush(stdout);
    /* The peer still needs this process, because it might not have polled its last completions. */
    while (getchar() != EOF) {
    }
    return 0; /* the kernel frees everything */
}
