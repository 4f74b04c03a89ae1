/* One end of a connection: sends or receives groups of messages, several at a time, and checks
 * each when it is done. */
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "plugincheck/private.h"

#define POISON ((void *)(uintptr_t)0x5eed)

void check_stream_start(struct check_stream *stream, uint64_t n_messages)
{
    static const uint32_t depths[] = {1, 8, CHECK_DEPTH_MAX};
    uint64_t n = 0;

    stream->depth = depths[(stream->from + stream->to + stream->channel) % 3];
    stream->first = stream->next = 0;
    stream->n_groups = 0;
    memset(stream->rows, 0, sizeof(stream->rows));
    while (n < n_messages && !stream->is_quiet) {
        struct check_group group;

        check_group_make(stream, stream->n_groups++, &group);
        n += (uint64_t)group.n;
    }
}

static struct check_row *row_of(struct check_stream *stream, uint64_t number)
{
    return &stream->rows[number % stream->depth];
}

static void start_row(struct check_stream *stream, struct check_row *row)
{
    memset(row, 0, sizeof(*row));
    row->number = stream->next;
    check_group_make(stream, stream->next, &row->group);
}

/* ---- test ---- */

/* Calls test on a request for `n` messages. Returns true if it is done. */
static bool is_done(struct check_stream *stream, void *request, int n, int *sizes,
                    const char *what)
{
    const struct check *check = stream->check;
    abi_status check_call_status;
    int done = 0;

    for (int i = 0; i < CHECK_GROUP_MAX + 1; i++) {
        sizes[i] = -77;
    }
    if (CHECK_CALL(check, stream->thread, CALL_TEST,
                   check->net->test(request, &done, sizes)) != ABI_SUCCESS) {
        check_broken(check, check_blame(check, "message.lost"),
                     "test of a %s failed with %d", what, check_call_status);
    }
    for (int i = n; i < CHECK_GROUP_MAX + 1 && done != 0; i++) {
        if (sizes[i] != -77) {
            check_broken(check, "recv.sizes-count", "test of %d wrote size %d", n, i);
        }
    }
    if (done != 0) {
        check_moved(check);
    }
    return done != 0;
}

/* ---- sending ---- */

static bool try_send(struct check_stream *stream, struct check_row *row, int i)
{
    const struct check *check = stream->check;
    struct check_group *group = &row->group;
    abi_status check_call_status;
    void *request = POISON;

    if (CHECK_CALL(check, stream->thread, CALL_ISEND,
                   check_net_isend(check->net, stream->comm, check_slot(stream, row, i),
                                   group->sent[i], group->tags[i], stream->mhandle,
                                   &request)) != ABI_SUCCESS) {
        check_broken(check, check_blame(check, "isend.not-now"), "isend failed with %d",
                     check_call_status);
    }
    if (request == POISON) {
        check_broken(check, "isend.not-now", "isend left the request as it was");
    }
    row->requests[i] = request;
    row->is_sent[i] = request != NULL;
    row->n_sent += request != NULL;
    return request != NULL;
}

static void send_some(struct check_stream *stream)
{
    while (stream->next <= stream->n_groups) {
        struct check_row *row;

        /* Start the row before completely, because receives are matched in order. */
        if (stream->next > 0) {
            row = row_of(stream, stream->next - 1);
            for (int k = 0; k < row->group.n; k++) {
                int i = (int)row->group.order[k];

                if (!row->is_sent[i]) {
                    try_send(stream, row, i);
                }
            }
            if (row->n_sent < row->group.n) {
                return;
            }
        }
        if (stream->next == stream->n_groups ||
            stream->next - stream->first >= stream->depth) {
            return;
        }
        row = row_of(stream, stream->next);
        start_row(stream, row);
        for (int i = 0; i < row->group.n; i++) {
            check_data_fill(stream, row, i);
        }
        stream->next++;
    }
}

static void finish_sends(struct check_stream *stream, struct check_row *row)
{
    int sizes[CHECK_GROUP_MAX + 1];

    for (int i = 0; i < row->group.n; i++) {
        if (!row->is_sent[i] || row->is_done[i] ||
            !is_done(stream, row->requests[i], 1, sizes, "send")) {
            continue;
        }
        for (int j = 0; j < row->group.n; j++) {
            if (j != i && sizes[0] < (int)row->group.sent[i] &&
                sizes[0] == (int)row->group.posted[j]) {
                check_broken(stream->check, "message.tags",
                             "%zu bytes for tag %d were cut to the %d of tag %d",
                             row->group.sent[i], row->group.tags[i], sizes[0],
                             row->group.tags[j]);
            }
        }
        if (sizes[0] != (int)row->group.sent[i]) {
            check_broken(stream->check, "send.sizes",
                         "test returned size %d for a send of %zu", sizes[0],
                         row->group.sent[i]);
        }
        memset(check_slot(stream, row, i), CHECK_USED, row->group.sent[i]);
        row->is_done[i] = true;
        row->n_done++;
    }
}

/* ---- receiving ---- */

static bool post(struct check_stream *stream, struct check_row *row)
{
    const struct check *check = stream->check;
    struct check_group *group = &row->group;
    void *data[CHECK_GROUP_MAX], *mhandles[CHECK_GROUP_MAX];
    void *mark = (void *)(uintptr_t)ABI_OPTIONAL_RECEIVE;
    void *request = group->is_optional ? mark : POISON;
    abi_status check_call_status;

    for (int i = 0; i < group->n; i++) {
        data[i] = check_slot(stream, row, i);
        memset(data[i], CHECK_FILL, group->posted[i] + CHECK_GUARD_BYTES);
        mhandles[i] = stream->mhandle;
    }
    if (CHECK_CALL(check, stream->thread, CALL_IRECV,
                   check_net_irecv(check->net, stream->comm, group->n, data,
                                   group->posted, group->tags, mhandles, &request)) !=
        ABI_SUCCESS) {
        check_broken(check, check_blame(check, "irecv.not-now"),
                     "irecv of %d failed with %d", group->n, check_call_status);
    }
    if (request == POISON) {
        check_broken(check, "irecv.not-now", "irecv left the request as it was");
    }
    if (group->is_optional && request == mark) {
        check_broken(check, "irecv.optional", "irecv left the mark as it was");
    }
    row->requests[0] = request;
    return request != NULL;
}

void check_stream_open_receive(struct check_stream *stream)
{
    struct check_row *row = row_of(stream, 0);

    start_row(stream, row);
    row->group.is_optional = false;
    for (int i = 0; !post(stream, row); i++) {
        static const struct timespec pause = {.tv_nsec = 1000000};

        if (i == stream->check->options->patience_ms) {
            check_broken(stream->check, "requests.recycled",
                         "irecv on a comm without requests gives none");
        }
        nanosleep(&pause, NULL);
    }
}

static void judge_receive(struct check_stream *stream, struct check_row *row,
                          const int *sizes)
{
    for (int i = 0; i < row->group.n && !row->group.is_optional; i++) {
        if (sizes[i] != (int)row->group.sent[i]) {
            check_data_name_sibling(stream, row, i, sizes[i] < 0 ? 0 : (size_t)sizes[i]);
            check_data_judge(stream, row, i);
            check_broken(stream->check, "recv.sizes",
                         "test returned size %d for a message of %zu in a buffer of %zu",
                         sizes[i], row->group.sent[i], row->group.posted[i]);
        }
        check_data_judge(stream, row, i);
    }
}

static void start_flush(struct check_stream *stream, struct check_row *row)
{
    const struct check *check = stream->check;
    void *data[CHECK_GROUP_MAX], *mhandles[CHECK_GROUP_MAX], *request = NULL;
    int sizes[CHECK_GROUP_MAX];
    abi_status check_call_status;

    for (int i = 0; i < row->group.n; i++) {
        data[i] = check_slot(stream, row, i);
        sizes[i] = (int)row->group.sent[i];
        mhandles[i] = stream->mhandle;
    }
    if (CHECK_CALL(check, stream->thread, CALL_IFLUSH,
                   check->net->iflush(stream->comm, row->group.n, data, sizes, mhandles,
                                      &request)) != ABI_SUCCESS) {
        check_broken(check, "flush.result", "iflush failed with %d", check_call_status);
    }
    row->is_flushing = true;
    row->requests[0] = request;
    row->is_done[0] = request == NULL;
}

static void finish_receive(struct check_stream *stream, struct check_row *row)
{
    int sizes[CHECK_GROUP_MAX + 1];

    if (row->is_flushing) {
        row->is_done[0] =
            row->is_done[0] || is_done(stream, row->requests[0], 1, sizes, "flush");
        row->n_done = row->is_done[0] ? row->group.n : 0;
        return;
    }
    if (!row->is_done[0]) {
        if (!is_done(stream, row->requests[0], row->group.n, sizes, "receive")) {
            return;
        }
        judge_receive(stream, row, sizes);
        row->is_done[0] = true;
        if (row->group.is_flushed) {
            start_flush(stream, row);
            return;
        }
    }
    if (!row->group.is_optional || check_data_is_there(stream, row)) {
        row->n_done = row->group.n;
    }
}

static void receive_some(struct check_stream *stream)
{
    while (stream->next < stream->n_groups &&
           stream->next - stream->first < stream->depth) {
        struct check_row *row = row_of(stream, stream->next);

        start_row(stream, row);
        if (!post(stream, row)) {
            if (stream->first == stream->next && stream->first > 0) {
                atomic_store(&stream->check->shared->starved_ns, check_now());
            }
            return;
        }
        stream->next++;
    }
}

bool check_stream_progress(struct check_stream *stream)
{
    struct check_thread *thread = &stream->check->shared->threads[stream->thread];

    if (stream->is_sender) {
        send_some(stream);
    } else {
        receive_some(stream);
    }
    for (uint64_t number = stream->first; number < stream->next; number++) {
        struct check_row *row = row_of(stream, number);

        if (row->n_done == row->group.n) {
            continue;
        }
        if (stream->is_sender) {
            finish_sends(stream, row);
        } else {
            finish_receive(stream, row);
        }
    }
    while (stream->first < stream->next && row_of(stream, stream->first)->n_done ==
                                               row_of(stream, stream->first)->group.n) {
        if (!stream->is_sender) {
            atomic_fetch_add_explicit(&thread->n_messages,
                                      (uint64_t)row_of(stream, stream->first)->group.n,
                                      memory_order_relaxed);
        }
        stream->first++;
    }
    return stream->first == stream->n_groups;
}
