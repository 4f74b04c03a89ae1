/* Sends and checks the messages of flows in tests. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "io/gpu.h"
#include "xfer/grid_testing.h"

/* ---- traffic ---- */

/* Returns 8 bytes of message `number`, at offset 8 x `word`. */
static uint64_t word_of(const struct grid_traffic *traffic, uint32_t number, size_t word)
{
    uint64_t x = (uint64_t)number * 0x9e3779b97f4a7c15 + word + traffic->seed;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    return x ^ x >> 31;
}

static void fill(const struct grid_traffic *traffic, uint32_t number, uint8_t *at,
                 size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 8) {
        uint64_t word = word_of(traffic, number, i / 8);

        memcpy(at + i, &word, n_bytes - i < 8 ? n_bytes - i : 8);
    }
}

static size_t size_of(const struct grid_traffic *traffic, uint32_t number)
{
    return traffic->size_of == NULL ? traffic->max_bytes : traffic->size_of(number);
}

static void check_message(const struct grid_traffic *traffic, uint32_t number,
                          const uint8_t *at, size_t n_bytes)
{
    ck_assert_uint_eq(n_bytes, size_of(traffic, number));
    for (size_t i = 0; i < n_bytes; i += 8) {
        uint64_t word = word_of(traffic, number, i / 8);

        if (memcmp(at + i, &word, n_bytes - i < 8 ? n_bytes - i : 8) != 0) {
            ck_abort_msg("message %u of %zu bytes differs at %zu", number, n_bytes, i);
        }
    }
}

static uint8_t *place(const struct grid_traffic *traffic, uint8_t *base, uint32_t number)
{
    uint32_t slot = number % (traffic->slots * traffic->n_group);

    return base + (size_t)slot * traffic->max_bytes;
}

static void pump_sends(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    uint32_t room = t->slots * t->n_group;

    while (t->n_send_done < t->n_sent) {
        struct flow_request *request = t->sends[t->n_send_done % room];
        size_t n_bytes;

        if (flow_test(flow->out, request, &n_bytes) != WEFT_OK) {
            break;
        }
        ck_assert_uint_eq(n_bytes, size_of(t, t->n_send_done));
        t->n_send_done++;
    }
    while (t->n_sent < t->n_messages && t->n_sent - t->n_send_done < room) {
        uint8_t *at = place(t, t->sent, t->n_sent);
        size_t n_bytes = size_of(t, t->n_sent);
        struct flow_request *request;

        if (t->n_filled == t->n_sent) {
            fill(t, t->n_filled++, at, n_bytes);
        }
        if (flow_isend(flow->out, at, n_bytes, t->n_sent % t->n_group,
                       n_bytes == 0 ? NULL : &t->sent_memory, &request) != WEFT_OK) {
            break;
        }
        t->sends[t->n_sent++ % room] = request;
    }
}

static bool post_group(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    void *data[XFER_MULTI_MAX];
    size_t sizes[XFER_MULTI_MAX];
    uint32_t tags[XFER_MULTI_MAX];
    const struct xfer_memory *memories[XFER_MULTI_MAX];

    for (uint32_t i = 0; i < t->n_group; i++) {
        data[i] = place(t, t->received, t->n_posted * t->n_group + i);
        sizes[i] = t->max_bytes;
        tags[i] = i;
        memories[i] = &t->received_memory;
    }
    return flow_irecv(flow->in, t->n_group, data, sizes, tags, memories,
                      &t->receives[t->n_posted % t->slots]) == WEFT_OK;
}

static void pump_receives(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    uint32_t n_groups = t->n_messages / t->n_group;

    while (t->n_received < t->n_posted) {
        size_t sizes[XFER_MULTI_MAX];

        if (flow_test(flow->in, t->receives[t->n_received % t->slots], sizes) !=
            WEFT_OK) {
            break;
        }
        for (uint32_t i = 0; i < t->n_group; i++) {
            uint32_t number = t->n_received * t->n_group + i;

            check_message(t, number, place(t, t->received, number), sizes[i]);
        }
        t->n_received++;
    }
    while (!t->is_stalled && t->n_posted < n_groups &&
           t->n_posted - t->n_received < t->slots && post_group(flow)) {
        t->n_posted++;
    }
}

void grid_pump(struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    struct weft_error error = {0};

    if (t->n_messages == 0) {
        return;
    }
    if (!t->sent_ready && flow->out_status >= 0) {
        t->sent_ready =
            flow_register_progress(flow->out, &t->sent_memory, &error) == WEFT_OK;
    }
    if (!t->received_ready && flow->in_status >= 0) {
        t->received_ready =
            flow_register_progress(flow->in, &t->received_memory, &error) == WEFT_OK;
    }
    if (t->sent_ready && flow->out_status >= 0) {
        pump_sends(flow);
    }
    if (t->received_ready && flow->in_status >= 0) {
        pump_receives(flow);
    }
}

static uint8_t *memory_of(struct grid *grid, uint32_t host, size_t n_bytes)
{
    struct io_gpu *gpu = grid->fabric.hosts[host].env->gpu;
    void *memory;

    ck_assert_int_eq(gpu->ops->alloc(gpu, IO_MEMORY_HOST, n_bytes, &memory), 0);
    return memory;
}

void grid_send(struct grid *grid, uint32_t index, const struct grid_traffic *traffic)
{
    struct grid_flow *flow = &grid->flows[index];
    struct grid_traffic *t = &flow->traffic;
    struct weft_error error = {0};
    size_t n_bytes;

    ck_assert_uint_eq(t->n_messages, 0);
    *t = *traffic;
    t->n_group = t->n_group != 0 ? t->n_group : 1;
    t->slots = t->slots != 0 ? t->slots : GRID_SLOTS;
    t->seed += index * 1000003;
    n_bytes = (size_t)t->slots * t->n_group * t->max_bytes;
    n_bytes = n_bytes > 0 ? n_bytes : 1;
    t->sent = memory_of(grid, flow->from, n_bytes);
    t->received = memory_of(grid, flow->to, n_bytes);
    ck_assert_int_eq(flow_register(flow->out, t->sent, n_bytes, &t->sent_memory, &error),
                     WEFT_OK);
    ck_assert_int_eq(
        flow_register(flow->in, t->received, n_bytes, &t->received_memory, &error),
        WEFT_OK);
}

void grid_send_all(struct grid *grid, uint32_t n_messages,
                   size_t (*size)(uint32_t number), size_t max_bytes)
{
    for (uint32_t i = 0; i < grid->n_flows; i++) {
        grid_send(grid, i,
                  &(struct grid_traffic){.n_messages = n_messages,
                                         .n_group = i == 1 ? 4 : 1,
                                         .size_of = size,
                                         .max_bytes = max_bytes});
    }
}

size_t grid_mixed(uint32_t number)
{
    static const size_t sizes[] = {0,    7,      65536, 131073, GRID_MIXED_MAX,
                                   4096, 300000, 1,     32768,  32769};

    return sizes[number % WEFT_LENGTH(sizes)];
}

void grid_free_traffic(struct grid *grid, struct grid_flow *flow)
{
    struct grid_traffic *t = &flow->traffic;
    struct io_gpu *from = grid->fabric.hosts[flow->from].env->gpu;
    struct io_gpu *to = grid->fabric.hosts[flow->to].env->gpu;

    if (t->sent == NULL) {
        return;
    }
    flow_deregister(flow->out, &t->sent_memory);
    flow_deregister(flow->in, &t->received_memory);
    flow_invalidate(flow->out, t->sent, 1);
    flow_invalidate(flow->in, t->received, 1);
    from->ops->free(from, t->sent);
    to->ops->free(to, t->received);
    t->sent = t->received = NULL;
    t->n_messages = 0;
}
