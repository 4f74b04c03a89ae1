#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "host/private.h"

static uint8_t blob[HOST_BLOB_BYTES];
static struct rdma_port_facts ports[2];

/* Offsets in the blob: version 0, name 4, the number of ports after the handle. */
#define AT_N_PORTS (4 + 64 + 16 + CONN_HANDLE_BYTES)
#define AT_PORT (AT_N_PORTS + 1)
#define AT_N_GIDS (AT_PORT + 40 + 4 + 1 + 4 + 4 + 8)

static void describe(struct host_peer *peer)
{
    memset(ports, 0, sizeof(ports));
    *peer = (struct host_peer){.n_ports = 2, .ports = ports};
    weft_format(peer->name, sizeof(peer->name), "titanic");
    memset(peer->host_id, 7, sizeof(peer->host_id));
    memset(peer->handle, 9, sizeof(peer->handle));
    for (uint32_t i = 0; i < 2; i++) {
        struct rdma_port_facts *port = &peer->ports[i];

        weft_format(port->name, sizeof(port->name), "p%u", i);
        port->device = i;
        port->is_active = i == 0;
        port->is_cut = i == 1;
        port->active_mtu = 4096;
        port->netdev_mtu = 9000;
        port->rate_bps = 100000000000;
        port->n_gids = 1;
        port->gids[0].gid.raw[15] = (uint8_t)(i + 1);
        port->gids[0].type = IBV_GID_TYPE_ROCE_V2;
        port->gids[0].prefix_len = 24;
        port->gids[0].index = 3;
    }
    host_blob_encode(peer, blob, sizeof(blob));
}

START_TEST(what_is_told_is_what_is_heard)
{
    struct host_peer told;
    struct host_peer heard = {.n_ports = 0};
    struct weft_error error = {0};

    describe(&told);
    ck_assert_int_eq(host_blob_decode(blob, sizeof(blob), &heard, &error), WEFT_OK);
    ck_assert_str_eq(heard.name, "titanic");
    ck_assert_mem_eq(heard.host_id, told.host_id, sizeof(told.host_id));
    ck_assert_mem_eq(heard.handle, told.handle, sizeof(told.handle));
    ck_assert_uint_eq(heard.n_ports, 2);
    ck_assert_str_eq(heard.ports[1].name, "p1");
    ck_assert_uint_eq(heard.ports[1].device, 1);
    ck_assert(heard.ports[0].is_active && !heard.ports[1].is_active);
    ck_assert(!heard.ports[0].is_cut && heard.ports[1].is_cut);
    ck_assert_uint_eq(heard.ports[1].active_mtu, 4096);
    ck_assert_uint_eq(heard.ports[1].netdev_mtu, 9000);
    ck_assert_uint_eq(heard.ports[1].rate_bps, 100000000000);
    ck_assert_uint_eq(heard.ports[1].n_gids, 1);
    ck_assert_uint_eq(heard.ports[1].gids[0].gid.raw[15], 2);
    ck_assert_uint_eq(heard.ports[1].gids[0].type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_uint_eq(heard.ports[1].gids[0].prefix_len, 24);
    ck_assert_uint_eq(heard.ports[1].gids[0].index, 3);
    free(heard.ports);
}
END_TEST

/* In large jobs blobs have no ports; the other fields are the same. */
START_TEST(a_short_blob_tells_no_ports)
{
    struct host_peer told;
    struct host_peer heard = {.n_ports = 0};
    struct weft_error error = {0};

    describe(&told);
    ck_assert_uint_eq(host_blob_bytes(64), HOST_BLOB_BYTES);
    ck_assert_uint_eq(host_blob_bytes(65), HOST_BLOB_SHORT_BYTES);
    host_blob_encode(&told, blob, HOST_BLOB_SHORT_BYTES);
    ck_assert_int_eq(host_blob_decode(blob, HOST_BLOB_SHORT_BYTES, &heard, &error),
                     WEFT_OK);
    ck_assert_str_eq(heard.name, "titanic");
    ck_assert_mem_eq(heard.handle, told.handle, sizeof(told.handle));
    ck_assert_uint_eq(heard.n_ports, 0);
    free(heard.ports);
    blob[AT_N_PORTS] = 1;
    heard.ports = NULL;
    ck_assert_int_eq(host_blob_decode(blob, HOST_BLOB_SHORT_BYTES, &heard, &error),
                     WEFT_ERR_PROTOCOL);
}
END_TEST

static const struct {
    size_t at;
    uint8_t byte;
    const char *message;
} malformed[] = {
    {3, 1, "a member speaks version 1, this one 2"},
    {4, 0xff, "a member sent no name or 2 ports"},
    {AT_N_PORTS, 17, "a member sent no name or 17 ports"},
    {AT_PORT, ' ', "port 0 of titanic is malformed"},
    {AT_N_GIDS, RDMA_FACTS_GIDS_MAX + 1, "port 0 of titanic is malformed"},
};

START_TEST(a_malformed_blob_is_refused)
{
    struct host_peer peer;
    struct host_peer heard = {.n_ports = 0};
    struct weft_error error = {0};

    describe(&peer);
    blob[malformed[_i].at] = malformed[_i].byte;
    ck_assert_int_eq(host_blob_decode(blob, sizeof(blob), &heard, &error),
                     WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(error.message, malformed[_i].message);
    free(heard.ports);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("blob");
    TCase *tests = tcase_create("blob");

    tcase_add_test(tests, what_is_told_is_what_is_heard);
    tcase_add_test(tests, a_short_blob_tells_no_ports);
    tcase_add_loop_test(tests, a_malformed_blob_is_refused, 0,
                        (int)(sizeof(malformed) / sizeof(malformed[0])));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
