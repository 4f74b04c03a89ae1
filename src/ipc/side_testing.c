/* One side of the test environment: produces messages, sends them, and compares what it
 * receives. */
#include <check.h>
#include <errno.h>

#include "base/check.h"
#include "ipc/world_testing.h"

/* ---- messages ---- */

static uint8_t byte_of(uint32_t sender, uint64_t message, size_t i)
{
    return (uint8_t)(message * 131 + i * 7 + (i >> 8) + sender * 59 + 1);
}

static size_t size_of(uint64_t message)
{
    static const size_t sizes[] = {1, 16, 4096, 700, 5000, 8192, 12288, 20000, 0, 3000};

    return sizes[message * 7 % WEFT_LENGTH(sizes)];
}

void *ipc_side_alloc(struct ipc_side *side, enum io_memory where, size_t n_bytes)
{
    void *memory;

    ck_assert_int_eq(side->gpu->ops->alloc(side->gpu, where, n_bytes, &memory), 0);
    return memory;
}

/* Provides a buffer that is large enough. Sometimes replaces it by another at the same address.
 * Returns false while waiting for the peer to close the old one. */
static bool make_buffer(struct ipc_side *side, struct ipc_slot *slot, size_t n_bytes)
{
    struct io_gpu *gpu = side->gpu;
    bool is_enough = slot->n_bytes >= n_bytes && slot->n_bytes > 0;

    if (slot->n_bytes > 0 && !slot->is_going &&
        (!is_enough ||
         (!side->world->keeps_buffers && weft_rng_below(&side->rng, 3) == 0))) {
        slot->buffer_id = ipc_channel_invalidate(&side->channel, slot->memory);
        slot->is_going = true;
    }
    if (slot->is_going) {
        if (!side->world->frees_early &&
            !ipc_channel_is_closed(&side->channel, slot->buffer_id)) {
            return false;
        }
        gpu->ops->free(gpu, slot->memory);
        slot->is_going = false;
        slot->n_bytes = 0;
    }
    if (slot->n_bytes == 0) {
        size_t more = (size_t)weft_rng_below(&side->rng, 3) * 4096;

        slot->n_bytes = n_bytes + more + 1;
        slot->memory = ipc_side_alloc(side, IO_MEMORY_DEVICE, slot->n_bytes);
    }
    return true;
}

static void start(struct ipc_side *side, struct io_gpu_op *op, void *out,
                  const void *from, size_t n_bytes, struct io_gpu_stream *stream)
{
    *op = (struct io_gpu_op){
        .kind = IO_GPU_COPY, .out = out, .a = from, .count = n_bytes, .stream = stream};
    ck_assert_int_eq(side->gpu->ops->start(side->gpu, op), 0);
}

/* Produces a message on one of two streams, and sends it before that work is complete. */
static void post_send(struct ipc_side *side)
{
    uint64_t k = side->n_sent, transfer;
    struct ipc_slot *slot = &side->sends[k % IPC_WORLD_SLOTS];
    uint8_t *pattern = side->patterns[k % IPC_WORLD_SLOTS];
    struct io_gpu_stream *stream = side->streams[weft_rng_below(&side->rng, 2)];
    size_t n = size_of(k);
    weft_status status;

    if (k == side->n_to_send || slot->is_used || side->has_failed) {
        return;
    }
    if (slot->fill.out != NULL &&
        side->gpu->ops->poll(side->gpu, &slot->fill) == EINPROGRESS) {
        return; /* the previous message is not overwritten yet */
    }
    if (!make_buffer(side, slot, n)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        pattern[i] = byte_of(side->index, k, i);
    }
    start(side, &slot->fill, slot->memory, pattern, n, stream);
    status = ipc_channel_send(&side->channel, slot->memory, n, stream, &transfer);
    if (status == WEFT_AGAIN) {
        return; /* produced again by a later call */
    }
    ck_assert_int_eq(status, WEFT_OK);
    ck_assert_uint_eq(transfer, k);
    slot->is_used = true;
    side->n_sent++;
}

static void post_receive(struct ipc_side *side)
{
    uint64_t k = side->n_posted, transfer;
    struct ipc_slot *slot = &side->receives[k % IPC_WORLD_SLOTS];

    if (k == side->n_to_receive || slot->is_used || side->has_failed) {
        return;
    }
    if (slot->n_bytes == 0) {
        slot->n_bytes = IPC_WORLD_BYTES_MAX;
        slot->memory = ipc_side_alloc(side, IO_MEMORY_DEVICE, slot->n_bytes);
    }
    ck_assert_int_eq(
        side->gpu->ops->upload(side->gpu, slot->memory, side->junk, slot->n_bytes), 0);
    ck_assert_int_eq(
        ipc_channel_receive(&side->channel, slot->memory, slot->n_bytes, &transfer),
        WEFT_OK);
    ck_assert_uint_eq(transfer, k);
    slot->is_used = true;
    side->n_posted++;
}

static void side_fails(struct ipc_side *side, weft_status status)
{
    side->has_failed = true;
    side->status = status;
}

/* Ends a send, and overwrites its memory at once. */
static void end_send(struct ipc_side *side)
{
    struct ipc_slot *slot = &side->sends[side->n_send_ended % IPC_WORLD_SLOTS];
    enum ipc_path path;
    weft_status status;

    if (side->n_send_ended == side->n_sent) {
        return;
    }
    status = ipc_channel_test_send(&side->channel, &path);
    if (status == WEFT_AGAIN) {
        return;
    }
    slot->is_used = false;
    side->n_send_ended++;
    if (status != WEFT_OK) {
        side_fails(side, status);
        return;
    }
    if (side->gpu->ops->poll(side->gpu, &slot->fill) == EINPROGRESS) {
        side->n_wrong += slot->fill.count > 0; /* sent before it was produced */
        return;
    }
    start(side, &slot->fill, slot->memory, side->junk, slot->n_bytes, NULL);
}

static void end_receive(struct ipc_side *side)
{
    uint64_t k = side->n_received, n_bytes;
    struct ipc_slot *slot = &side->receives[k % IPC_WORLD_SLOTS];
    enum ipc_path path;
    weft_status status;
    const uint8_t *got = side->got;
    bool is_right;

    if (k == side->n_posted) {
        return;
    }
    status = ipc_channel_test_receive(&side->channel, &n_bytes, &path);
    if (status == WEFT_AGAIN) {
        return;
    }
    slot->is_used = false;
    side->n_received++;
    if (status != WEFT_OK) {
        side_fails(side, status);
        return;
    }
    ck_assert_int_eq(
        side->gpu->ops->download(side->gpu, side->got, slot->memory, slot->n_bytes), 0);
    is_right = n_bytes == size_of(k);
    for (size_t i = 0; i < n_bytes && is_right; i++) {
        is_right = got[i] == byte_of(1 - side->index, k, i);
    }
    for (size_t i = n_bytes; i < IPC_WORLD_BYTES_MAX && is_right; i++) {
        is_right = got[i] == side->junk[i];
    }
    side->n_wrong += !is_right;
    side->n_direct += path == IPC_PATH_DIRECT;
    side->n_staged += path == IPC_PATH_STAGED;
}

void ipc_side_step(struct ipc_side *side)
{
    if (side->is_dead) {
        return;
    }
    switch (weft_rng_below(&side->rng, 8)) {
    case 0:
        post_send(side);
        break;
    case 1:
        post_receive(side);
        break;
    case 2:
        end_send(side);
        break;
    case 3:
        end_receive(side);
        break;
    case 4:
    case 5:
        ipc_side_absorb(side);
        break;
    case 6:
        ipc_side_emit(side);
        break;
    default:
        ipc_channel_progress(&side->channel);
        break;
    }
}

bool ipc_side_is_done(const struct ipc_side *side)
{
    return side->is_dead ||
           (side->n_send_ended == side->n_sent && side->n_received == side->n_posted &&
            (side->has_failed ||
             (side->n_sent == side->n_to_send && side->n_posted == side->n_to_receive)));
}
