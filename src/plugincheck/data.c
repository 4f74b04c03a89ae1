/* Contents of messages: a pure function of connection and number, so that both ends can compute
 * it, and so that a wrong message can be identified. */
#include <string.h>

#include "base/check.h"
#include "plugincheck/private.h"

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t key_of(const struct check_stream *stream, uint64_t number, uint32_t i)
{
    uint64_t key = mix(stream->check->options->seed);

    key = mix(key ^ stream->from);
    key = mix(key ^ ((uint64_t)stream->to << 8));
    key = mix(key ^ ((uint64_t)stream->channel << 16));
    key = mix(key ^ ((uint64_t)stream->communicator << 24));
    return mix(mix(key ^ number) ^ i);
}

static uint8_t byte_at(uint64_t key, size_t at)
{
    return (uint8_t)(mix(key ^ (at >> 3)) >> (8 * (at & 7)));
}

/* Writes the eight bytes at `at`, a multiple of eight. */
static void eight_at(uint64_t key, size_t at, uint8_t out[8])
{
    uint64_t word = mix(key ^ (at >> 3));

    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(word >> (8 * i));
    }
}

static size_t random_size(uint64_t random, size_t most)
{
    static const size_t usual[] = {0, 1, 7, 8, 63, 64, 256, 4095, 4096, 4097, 65536};
    size_t size = random % 8 == 0 ? (size_t)(random >> 8) % (most + 1)
                                  : usual[(random >> 8) % WEFT_LENGTH(usual)];

    return size > most ? most : size;
}

void check_group_make(const struct check_stream *stream, uint64_t number,
                      struct check_group *out)
{
    uint64_t random = key_of(stream, number, UINT32_MAX);
    uint32_t most = (uint32_t)stream->check->max_recvs;
    size_t row = CHECK_BUFFER_BYTES / stream->depth;

    memset(out, 0, sizeof(*out));
    out->n = random % 4 == 0 ? 1 + (int)((random >> 4) % most) : 1;
    out->is_optional =
        out->n == 1 && stream->check->oldest >= 9 && (random >> 12) % 8 == 0;
    out->is_flushed = !out->is_optional && (random >> 16) % 8 == 0;
    for (int i = 0; i < out->n; i++) {
        uint64_t own = key_of(stream, number, 1000 + (uint32_t)i);
        size_t cap = row / (uint32_t)out->n - CHECK_GUARD_BYTES;

        out->sent[i] = random_size(own, out->is_optional && cap > 4096 ? 4096 : cap);
        if (out->is_optional && out->sent[i] == 0) {
            out->sent[i] = 8;
        }
        out->posted[i] =
            (own >> 40) % 2 == 0
                ? out->sent[i]
                : out->sent[i] + (size_t)(own >> 41) % (cap - out->sent[i] + 1);
        out->tags[i] = 100 + (i * 7 + (int)(random >> 20) % 7) % 64;
        out->order[i] = (uint32_t)i;
    }
    for (uint32_t i = (uint32_t)out->n; i > 1; i--) {
        uint32_t j = (uint32_t)(key_of(stream, number, 2000 + i) % i);
        uint32_t kept = out->order[i - 1];

        out->order[i - 1] = out->order[j];
        out->order[j] = kept;
    }
}

uint8_t *check_slot(const struct check_stream *stream, const struct check_row *row, int i)
{
    size_t row_bytes = CHECK_BUFFER_BYTES / stream->depth;

    return stream->buffer + (row->number % stream->depth) * row_bytes +
           (size_t)i * (row_bytes / (uint32_t)row->group.n);
}

void check_data_fill(const struct check_stream *stream, const struct check_row *row,
                     int i)
{
    uint8_t *bytes = check_slot(stream, row, i);
    uint64_t key = key_of(stream, row->number, (uint32_t)i);
    size_t at = 0;

    for (; at + 8 <= row->group.sent[i]; at += 8) {
        eight_at(key, at, bytes + at);
    }
    for (; at < row->group.sent[i]; at++) {
        bytes[at] = byte_at(key, at);
    }
}

static size_t first_wrong(const struct check_stream *stream, uint64_t number, uint32_t i,
                          const volatile uint8_t *bytes, size_t n)
{
    uint64_t key = key_of(stream, number, i);
    uint8_t eight[8], seen[8];
    size_t at = 0;

    for (; at + 8 <= n; at += 8) {
        eight_at(key, at, eight);
        for (int k = 0; k < 8; k++) {
            seen[k] = bytes[at + (size_t)k];
        }
        if (memcmp(eight, seen, sizeof(eight)) != 0) {
            break;
        }
    }
    for (; at < n; at++) {
        if (bytes[at] != byte_at(key, at)) {
            return at;
        }
    }
    return n;
}

static bool is_all(const uint8_t *bytes, size_t n, unsigned value)
{
    for (size_t at = 0; at < n; at++) {
        if (bytes[at] != value) {
            return false;
        }
    }
    return true;
}

bool check_data_is_there(const struct check_stream *stream, const struct check_row *row)
{
    size_t n = row->group.sent[0];

    atomic_thread_fence(memory_order_acquire);
    return first_wrong(stream, row->number, 0, check_slot(stream, row, 0), n) == n;
}

/* Returns how many bytes from `at` on, up to 8, equal those that message `later` has at the same
 * place of the sender's buffer, which it reuses. */
static size_t n_of_later(const struct check_stream *stream, const struct check_row *row,
                         int i, size_t at, uint64_t later)
{
    const uint8_t *bytes = check_slot(stream, row, i);
    size_t row_bytes = CHECK_BUFFER_BYTES / stream->depth;
    size_t place = (size_t)i * (row_bytes / (uint32_t)row->group.n) + at;
    struct check_group group;
    size_t each, j, n = 0;

    check_group_make(stream, later, &group);
    each = row_bytes / (uint32_t)group.n;
    j = place / each;
    while (n < 8 && at + n < row->group.sent[i] && j < (size_t)group.n &&
           place % each + n < group.sent[j] &&
           bytes[at + n] ==
               byte_at(key_of(stream, later, (uint32_t)j), place % each + n)) {
        n++;
    }
    return n;
}

/* Reports send.early if the message contains bytes of a later one. A sender whose test() reports
 * done too early writes the next message into the same place. */
static void name_reuse(const struct check_stream *stream, const struct check_row *row,
                       int i, size_t wrong)
{
    size_t left = row->group.sent[i] - wrong;
    size_t needed = left < 8 ? left : 8;

    for (uint32_t k = 1; k <= 8; k++) {
        uint64_t later = row->number + (uint64_t)k * stream->depth;

        /* A byte or two can be equal by chance, so they count only for the very next message. */
        if ((k == 1 || needed >= 4) &&
            n_of_later(stream, row, i, wrong, later) == needed) {
            check_broken(stream->check, "send.early",
                         "message %llu has bytes of message %llu, which was written into "
                         "its place after test said done",
                         (unsigned long long)row->number, (unsigned long long)later);
        }
    }
}

void check_data_name_sibling(const struct check_stream *stream,
                             const struct check_row *row, int i, size_t n)
{
    const uint8_t *bytes = check_slot(stream, row, i);
    size_t shown = n < 8 ? n : 8;

    for (int j = 0; j < row->group.n; j++) {
        if (j != i && row->group.sent[j] >= n && (n > 0 || row->group.sent[j] == 0) &&
            first_wrong(stream, row->number, (uint32_t)j, bytes, shown) == shown) {
            check_broken(stream->check, "message.tags",
                         "the buffer with tag %d has the message with tag %d",
                         row->group.tags[i], row->group.tags[j]);
        }
    }
}

/* Reports message.order if the bytes belong to a message with a near number. A few bytes can
 * match by chance, so short messages are compared only with the previous and the next one. */
static void name_stranger(const struct check_stream *stream, const struct check_row *row,
                          const uint8_t *bytes, size_t n)
{
    bool is_short = n < 8;
    uint64_t far = is_short ? 1 : 64;
    uint32_t n_in_group = is_short ? 1 : CHECK_GROUP_MAX;
    size_t shown = is_short ? n : 8;

    for (uint64_t other = row->number > far ? row->number - far : 0;
         other <= row->number + far; other++) {
        for (uint32_t j = 0; j < n_in_group && other != row->number; j++) {
            if (first_wrong(stream, other, j, bytes, shown) == shown) {
                check_broken(stream->check, "message.order",
                             "receive %llu got the message of receive %llu",
                             (unsigned long long)row->number, (unsigned long long)other);
            }
        }
    }
}

void check_data_judge(const struct check_stream *stream, const struct check_row *row,
                      int i)
{
    const uint8_t *bytes = check_slot(stream, row, i);
    size_t n = row->group.sent[i];
    size_t wrong = first_wrong(stream, row->number, (uint32_t)i, bytes, n);

    if (!is_all(bytes + row->group.posted[i], CHECK_GUARD_BYTES, CHECK_FILL)) {
        check_broken(stream->check, "irecv.overrun",
                     "bytes behind a buffer of %zu changed, message of %zu",
                     row->group.posted[i], n);
    }
    if (wrong == n) {
        return;
    }
    if (is_all(bytes + wrong, n - wrong, CHECK_FILL)) {
        check_broken(stream->check, "recv.early",
                     "test said done with %zu of %zu bytes there", wrong, n);
    }
    if (is_all(bytes + wrong, n - wrong < 8 ? n - wrong : 8, CHECK_USED)) {
        check_broken(stream->check, "send.early",
                     "bytes from %zu of %zu are what was written after test said done",
                     wrong, n);
    }
    check_data_name_sibling(stream, row, i, n);
    name_reuse(stream, row, i, wrong);
    name_stranger(stream, row, bytes, n);
    check_broken(stream->check, "message.data",
                 "byte %zu of %zu is wrong, of message %llu from rank %u to rank %u",
                 wrong, n, (unsigned long long)row->number, stream->from, stream->to);
}
