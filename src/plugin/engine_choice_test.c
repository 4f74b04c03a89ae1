/* Tests settings of NCCL's own network that users have in their scripts: which ports are used,
 * and the traffic class of packets, both as captured in a simulated mesh. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"

#define SECOND INT64_C(1000000000)
#define N_BYTES (UINT32_C(1) << 20)
#define ETHERNET_BYTES 14
#define IP_BYTES 20
#define ROCE_PORT 4791

static struct harness harness;

/* Outgoing RoCE packets: number for each port, and for each traffic class. */
static struct {
    uint32_t n[HARNESS_HOSTS][HARNESS_PORTS];
    uint32_t of_class[HARNESS_HOSTS][256];
} seen;

static void look(void *context, const struct world_frame *frame)
{
    const uint8_t *ip = frame->bytes + ETHERNET_BYTES;

    (void)context;
    if (frame->is_outgoing && frame->n_bytes > ETHERNET_BYTES + IP_BYTES + 8 &&
        frame->bytes[12] == 0x08 && frame->bytes[13] == 0 && ip[9] == 17 &&
        ip[IP_BYTES + 2] == ROCE_PORT >> 8 && ip[IP_BYTES + 3] == (ROCE_PORT & 255)) {
        seen.n[frame->host][frame->port]++;
        seen.of_class[frame->host][ip[1]]++;
    }
}

static void watch(void)
{
    memset(&seen, 0, sizeof(seen));
    ck_assert_int_eq(harness.world->ops->tap(harness.world, look, NULL), 0);
}

/* Sends one message over a new connection. */
static void send_one(uint32_t from, uint32_t to, int traffic_class)
{
    uint8_t *sent = malloc(N_BYTES), *received = malloc(N_BYTES);
    uint8_t handle[CONN_HANDLE_BYTES];
    struct engine_comm *out = NULL, *in = NULL;
    struct engine_memory *memories[2];
    struct engine_request *send = NULL, *receive = NULL;
    struct engine_listen *listen;
    struct weft_error error = {0};
    size_t sizes[ENGINE_GROUP_MAX], n_bytes = N_BYTES;
    const uint32_t tag = 5;
    void *data = received;
    uint32_t n;

    memset(sent, 0x5a, N_BYTES);
    memset(received, 0, N_BYTES);
    ck_assert_int_eq(engine_listen(harness.engines[to], handle, &listen, &error),
                     WEFT_OK);
    for (weft_ns until = harness_now(&harness) + 60 * SECOND;
         out == NULL || in == NULL;) {
        ck_assert(out != NULL || engine_connect_as(harness.engines[from], handle,
                                                   traffic_class, &out, &error) >= 0);
        ck_assert(in != NULL || engine_accept(listen, &in, &error) >= 0);
        ck_assert(harness_step(&harness, until));
    }
    engine_close_listen(listen);
    ck_assert_int_eq(harness_register(out, sent, N_BYTES, &memories[0], &error), WEFT_OK);
    ck_assert_int_eq(harness_register(in, received, N_BYTES, &memories[1], &error),
                     WEFT_OK);
    ck_assert_int_eq(engine_irecv(in, 1, &data, &n_bytes, &tag, &memories[1], &receive),
                     WEFT_OK);
    ck_assert_int_eq(engine_isend(out, sent, N_BYTES, tag, memories[0], &send), WEFT_OK);
    for (weft_ns until = harness_now(&harness) + 60 * SECOND;
         engine_test(receive, sizes, &n) != WEFT_OK;) {
        ck_assert(harness_step(&harness, until));
    }
    ck_assert_int_eq(memcmp(sent, received, N_BYTES), 0);
    engine_deregister(out, memories[0]);
    engine_deregister(in, memories[1]);
    engine_close(out);
    engine_close(in);
    harness_run(&harness, 10 * SECOND);
    free(sent);
    free(received);
}

/* ---- NCCL_IB_HCA ---- */

static void without_first_port(uint32_t host, struct world_host *world_host,
                               struct engine_config *config)
{
    (void)world_host;
    config->hca = host == 0 ? "^=p0" : NULL;
}

/* Only one end excludes a port; the other must not use the cable either. */
START_TEST(a_port_that_is_not_wanted_is_not_used)
{
    harness_with(without_first_port);
    harness_open(&harness, 2, 2);
    watch();
    ck_assert_uint_eq(engine_n_ports(harness.engines[0]), 1);
    ck_assert_str_eq(engine_port(harness.engines[0], 0)->name, "p1");
    ck_assert_uint_eq(engine_n_ports(harness.engines[1]), 2);
    send_one(0, 1, ENGINE_CLASS_USUAL);
    send_one(1, 0, ENGINE_CLASS_USUAL);
    for (uint32_t host = 0; host < 2; host++) {
        ck_assert_uint_eq(seen.n[host][0], 0);
        ck_assert_uint_gt(seen.n[host][1], 100);
    }
    harness_close(&harness);
}
END_TEST

/* The cable between 0 and 1 is at the first port of both. Without it the third host relays. */
START_TEST(a_peer_behind_a_port_that_is_not_wanted_is_reached_by_a_relay)
{
    const struct harness_cable triangle[] = {{0, 1}, {1, 2}, {0, 2}};
    struct engine_counters counters;

    harness_with(without_first_port);
    harness_open_cables(&harness, 3, triangle, 3, NULL);
    watch();
    send_one(0, 1, ENGINE_CLASS_USUAL);
    send_one(1, 0, ENGINE_CLASS_USUAL);
    engine_counters(harness.engines[0], &counters);
    ck_assert_uint_eq(counters.n_relayed, 1);
    engine_counters(harness.engines[2], &counters);
    ck_assert_uint_gt(counters.bytes_passed, N_BYTES);
    ck_assert_uint_eq(seen.n[0][0], 0);
    ck_assert_uint_eq(seen.n[1][0], 0);
    harness_close(&harness);
}
END_TEST

/* A device whose ports are all left out does not decide how memory can be registered, and registers
 * none. */
START_TEST(a_device_that_is_not_wanted_registers_nothing)
{
    struct io_device_attr *attrs;
    struct engine_comm *out, *in;
    struct engine_memory *memory;
    struct weft_error error = {0};
    uint8_t bytes[100];

    harness_with(without_first_port);
    harness_open(&harness, 2, 2);
    attrs = harness.engines[0]->rdma->attrs;
    attrs[0].has_dmabuf = false;
    ck_assert(engine_takes(harness.engines[0], ENGINE_PLACE_DMABUF));
    attrs[0].has_dmabuf = true;
    attrs[1].has_dmabuf = false;
    ck_assert(!engine_takes(harness.engines[0], ENGINE_PLACE_DMABUF));
    attrs[1].has_dmabuf = true;
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(out, bytes, sizeof(bytes), &memory, &error),
                     WEFT_OK);
    ck_assert_ptr_null(memory->memory.mrs[0].entry);
    ck_assert_ptr_nonnull(memory->memory.mrs[1].entry);
    engine_deregister(out, memory);
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* ---- NCCL_IB_TC, and a communicator's trafficClass ---- */

static const struct class_row {
    uint8_t fixed; /* from the environment; 0 if not set */
    int asked;     /* requested for the connection */
    uint8_t of_data, of_answers;
} class_rows[] = {
    {0, ENGINE_CLASS_USUAL, 0, 0},
    {106, ENGINE_CLASS_USUAL, 106, 106},
    {0, 96, 96, 0},      /* the receiver sends only replies */
    {106, 96, 106, 106}, /* the environment takes precedence */
};
static const struct class_row *row;

static void with_class(uint32_t host, struct world_host *world_host,
                       struct engine_config *config)
{
    (void)host;
    (void)world_host;
    config->conn.traffic_class = row->fixed;
    config->class_is_fixed = row->fixed != 0;
}

START_TEST(packets_are_of_the_traffic_class)
{
    row = &class_rows[_i];
    harness_with(with_class);
    harness_open(&harness, 2, 1);
    watch();
    send_one(0, 1, row->asked);
    for (uint32_t i = 0; i < 256; i++) {
        if (i == row->of_data) {
            ck_assert_uint_gt(seen.of_class[0][i], 100);
        } else {
            ck_assert_uint_eq(seen.of_class[0][i], 0);
        }
        if (i == row->of_answers) {
            ck_assert_uint_gt(seen.of_class[1][i], 10);
        } else {
            ck_assert_uint_eq(seen.of_class[1][i], 0);
        }
    }
    harness_close(&harness);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_choice");
    TCase *tcase = tcase_create("choice");

    tcase_add_test(tcase, a_port_that_is_not_wanted_is_not_used);
    tcase_add_test(tcase, a_device_that_is_not_wanted_registers_nothing);
    tcase_add_test(tcase, a_peer_behind_a_port_that_is_not_wanted_is_reached_by_a_relay);
    tcase_add_loop_test(tcase, packets_are_of_the_traffic_class, 0,
                        sizeof(class_rows) / sizeof(class_rows[0]));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
