/* Records: an encoded host is decoded unchanged; a malformed record becomes a dead host. */
#include "run/record.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"

static const struct host_row rows[2] = {{.repeat = 1, .size_bytes = 8},
                                        {.repeat = 2, .size_bytes = 64}};
static const struct host_config config = {
    .rank = 1, .n_ranks = 2, .n_members = 3, .rows = rows, .n_rows = 2};

/* Adds the first of several events, a rail that was left out, and the pace of another. */
static void add_events(struct host *host)
{
    host->connections[0].pace.best_bps = 13000000000;
    host->connections[0].pace.n_bytes = 32u << 20;
    host->connections[0].rtt_ns = 10000;
    host->events[host->n_events++] = (struct host_event){
        .type = IBV_EVENT_PORT_ERR, .device = 0, .port = 1, .name = "p0", .at_ns = 1850};
    host->are_events_cut = true;
    host->left_out = weft_calloc(1, sizeof(*host->left_out));
    host->left_out[0].peer = 2;
    host->n_left_out = 1;
    host->waits = weft_calloc(1, sizeof(*host->waits));
    host->waits[0] = (struct host_wait){WEFT_WAIT_SEND, 2};
    host->n_waits = 1;
    host->waited_ns = 1800;
}

/* Returns a host that failed in its second row, with a value in every field. */
static struct host *make(void)
{
    struct host *host = run_record_decode(NULL, "iceberg", &config, 0, NULL);
    struct rdma_port_facts *port = &host->ports[host->n_ports++];
    struct host_connection *connection;

    host->state = HOST_FAILED;
    host->failed_in = HOST_JOBS;
    host->row = 1;
    host->jobs_started_ns = 1100;
    host->error_ns = 1900;
    host->error_peer = 0;
    weft_fail_completion(&host->error, 12, WEFT_PHASE_DATA, "the send failed");
    weft_error_text(&host->error, WEFT_VALUE_LOCAL_PORT, "p0");
    weft_error_int(&host->error, WEFT_VALUE_QP, 17);
    host->results[0].is_done = true;
    host->results[0].finished_ns[0] = 1200;
    host->results[0].finished_ns[1] = 1300;
    weft_format(port->name, sizeof(port->name), "p0");
    port->is_active = true;
    port->active_mtu = 4096;
    port->netdev_mtu = 9000;
    port->rate_bps = 100000000000;
    port->is_cut = true;
    port->n_gids = 1;
    port->gids[0].gid.raw[10] = port->gids[0].gid.raw[11] = 0xff;
    port->gids[0].gid.raw[12] = 10;
    port->gids[0].type = 2;
    port->gids[0].prefix_len = 24;
    port->gids[0].index = 3;
    host->has_peers = true;
    weft_format(host->peers[0].name, sizeof(host->peers[0].name), "titanic");
    host->peers[0].ports = weft_calloc(1, sizeof(*port));
    host->peers[0].ports[0] = *port;
    host->peers[0].n_ports = 1;
    connection = weft_calloc(1, sizeof(*connection));
    *connection = (struct host_connection){.to = 0,
                                           .via = {2},
                                           .n_via = 1,
                                           .local_port = "p0",
                                           .remote_port = "p1",
                                           .local_gid = port->gids[0].gid,
                                           .gid_type = IBV_GID_TYPE_ROCE_V2,
                                           .path_mtu = 4096,
                                           .n_qps = 2,
                                           .setup_ns = 55,
                                           .transport = WEFT_TRANSPORT_SHM,
                                           .why = "shm: same /dev/shm"};
    free(host->connections);
    host->connections = connection;
    host->n_connections = 1;
    host->journal.entries = weft_calloc(2, sizeof(*host->journal.entries));
    host->journal.n = 2;
    host->journal.entries[0] = (struct conn_journal_entry){.peer = "titanic",
                                                           .is_connector = true,
                                                           .epoch = 3,
                                                           .rail = 1,
                                                           .qp = 2,
                                                           .is_send = true,
                                                           .n = 1,
                                                           .digest = "0123456789abcdef",
                                                           .first = {{.status = 12}}};
    host->journal.entries[1] = (struct conn_journal_entry){
        .peer = "titanic", .n = 900, .digest = "fedcba9876543210"};
    for (uint32_t i = 0; i < CONN_JOURNAL_FIRST; i++) {
        host->journal.entries[1].first[i] = (struct conn_completion){
            .opcode = 129, .has_imm = true, .imm = 0x80000000 + i, .n_bytes = 64 * i};
    }
    add_events(host);
    return host;
}

/* Frees a host that make() returned. A record that is read has no ports of peers. */
static void destroy(struct host *host)
{
    free(host->peers[0].ports);
    run_record_free(host);
}

static void check_port(const struct diag_port *port)
{
    ck_assert_str_eq(port->name, "p0");
    ck_assert_int_eq(port->is_up, DIAG_YES);
    ck_assert_int_eq(port->active_mtu, 4096);
    ck_assert_int_eq(port->netdev_mtu, 9000);
    ck_assert_int_eq(port->rate_bps, 100000000000);
    ck_assert_int_eq(port->gids_cut, DIAG_YES);
    ck_assert_uint_eq(port->n_gids, 1);
    ck_assert(io_ip_is_v4(&port->gids[0].ip));
    ck_assert_int_eq(port->gids[0].type, 2);
    ck_assert_int_eq(port->gids[0].prefix_len, 24);
    ck_assert_int_eq(port->gids[0].index, 3);
}

START_TEST(what_is_written_is_read_back)
{
    struct weft_error error = {0};
    struct host *host = make();
    json_t *record = run_record_encode(host);
    struct host *got = run_record_decode(record, "iceberg", &config, 0, &error);
    json_t *again = run_record_encode(got);
    const struct diag_host *facts = run_record_facts(got);

    ck_assert_int_eq(error.status, WEFT_OK);
    ck_assert(json_equal(record, again));
    ck_assert_int_eq(got->state, HOST_FAILED);
    ck_assert_int_eq(got->error.wc_status, 12);
    ck_assert_str_eq(weft_error_value(&got->error, WEFT_VALUE_LOCAL_PORT)->text, "p0");
    check_port(&facts->ports[0]);
    ck_assert_uint_eq(facts->n_described, 1);
    ck_assert_str_eq(facts->described[0].peer, "0");
    check_port(&facts->described[0].ports[0]);
    ck_assert_mem_eq(&got->connections[0], &host->connections[0],
                     sizeof(host->connections[0]));
    ck_assert_uint_eq(got->journal.n, 2);
    ck_assert_mem_eq(got->journal.entries, host->journal.entries,
                     2 * sizeof(*host->journal.entries));
    json_decref(record);
    json_decref(again);
    destroy(host);
    run_record_free(got);
}
END_TEST

/* As of a host whose devices could not be opened. */
START_TEST(a_host_that_did_not_start_has_no_limits)
{
    struct host *host = run_record_decode(NULL, "iceberg", &config, 0, NULL);
    struct weft_error error = {0};
    struct host *got;
    json_t *record;

    host->state = HOST_FAILED;
    weft_fail(&host->error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START, "no device");
    record = run_record_encode(host);
    got = run_record_decode(record, "iceberg", &config, 0, &error);
    ck_assert_int_eq(error.status, WEFT_OK);
    ck_assert_int_eq(run_record_facts(got)->memlock_bytes, IO_UNKNOWN);
    ck_assert_str_eq(run_record_facts(got)->name, "iceberg");
    json_decref(record);
    destroy(host);
    run_record_free(got);
}
END_TEST

START_TEST(times_are_counted_from_the_origin)
{
    struct weft_error error = {0};
    struct host *host = make();
    json_t *record = run_record_encode(host);
    struct host *got = run_record_decode(record, "iceberg", &config, 1000, &error);

    ck_assert_int_eq(got->jobs_started_ns, 100);
    /* 0 means never and is not shifted by the origin. */
    ck_assert_int_eq(got->jobs_ended_ns, 0);
    ck_assert_int_eq(got->error_ns, 900);
    ck_assert_int_eq(got->results[0].finished_ns[1], 300);
    ck_assert_int_eq(got->events[0].at_ns, 850);
    /* A duration, which is not shifted either. */
    ck_assert_int_eq(got->connections[0].setup_ns, 55);
    json_decref(record);
    destroy(host);
    run_record_free(got);
}
END_TEST

/* Each member in turn is removed, or replaced by a value of another type. */
START_TEST(what_is_malformed_is_a_dead_host)
{
    struct host *host = make();
    json_t *record = run_record_encode(host);
    const char *key;
    json_t *value;

    json_object_foreach(record, key, value)
    {
        for (int i = 0; i < 2; i++) {
            json_t *broken = json_deep_copy(record);
            struct weft_error error = {0};
            struct host *got;

            if (strcmp(key, "host") == 0) {
                json_decref(broken);
                continue; /* informative only */
            }
            json_object_del(broken, key);
            if (i == 1) {
                json_object_set_new(broken, key, json_string("x"));
            }
            got = run_record_decode(broken, "iceberg", &config, 0, &error);
            ck_assert_msg(got->state == HOST_DEAD, "%s", key);
            ck_assert_int_eq(error.status, WEFT_ERR_PROTOCOL);
            run_record_free(got);
            json_decref(broken);
        }
    }
    json_decref(record);
    destroy(host);
}
END_TEST

/* Numbers that no host writes, by member; those of lists are of their first element. */
START_TEST(a_number_out_of_range_is_malformed)
{
    static const struct {
        const char *list, *key;
        json_int_t bad, good;
    } numbers[] = {
        {NULL, "state", -1, HOST_FAILED},
        {NULL, "state", HOST_DEAD + 1, HOST_FAILED},
        {NULL, "failed_in", -1, HOST_JOBS},
        {NULL, "failed_in", HOST_DEAD + 1, HOST_JOBS},
        {NULL, "row", INT64_C(1) << 32, 1},
        {"rows", "algorithm", -1, 0},
        {"rows", "algorithm", WEFT_N_ALGORITHMS, WEFT_ALGORITHM_RING},
        {"rows", "wrong", -1, 7},
        {"connections", "to", 2, 1},
        {"connections", "to", INT64_C(1) << 32, 0},
        {"connections", "transport", -1, 0},
        {"connections", "transport", WEFT_N_TRANSPORTS, 0},
        {"connections", "best_bps", -1, 1},
        {"events", "port", 256, 255},
        {"completions", "qp", -1, 2},
    };

    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        for (int is_good = 0; is_good < 2; is_good++) {
            struct host *host = make(), *got;
            json_t *record = run_record_encode(host);
            struct weft_error error = {0};
            json_t *object =
                numbers[i].list == NULL
                    ? record
                    : json_array_get(json_object_get(record, numbers[i].list), 0);

            json_object_set_new(object, numbers[i].key,
                                json_integer(is_good ? numbers[i].good : numbers[i].bad));
            got = run_record_decode(record, "iceberg", &config, 0, &error);
            ck_assert_msg(error.status == (is_good ? WEFT_OK : WEFT_ERR_PROTOCOL),
                          "%s %lld: %s", numbers[i].key, (long long)numbers[i].bad,
                          error.message);
            run_record_free(got);
            json_decref(record);
            destroy(host);
        }
    }
}
END_TEST

/* A record must have the first eight completions of a queue, or all if there are fewer. */
START_TEST(a_queue_tells_as_many_as_it_says)
{
    struct host *host = make();
    json_t *record = run_record_encode(host);
    json_t *queue = json_array_get(json_object_get(record, "completions"), 0);
    static const int counts[] = {2, -1, 0};

    for (size_t i = 0; i < WEFT_LENGTH(counts); i++) {
        struct weft_error error = {0};
        struct host *got;

        json_object_set_new(queue, "n", json_integer(counts[i]));
        if (counts[i] == 0) {
            /* A queue without completions has no entry. */
            json_object_set_new(queue, "first", json_array());
        }
        got = run_record_decode(record, "iceberg", &config, 0, &error);
        ck_assert_int_eq(got->state, HOST_DEAD);
        ck_assert_int_eq(error.status, WEFT_ERR_PROTOCOL);
        run_record_free(got);
    }
    json_decref(record);
    destroy(host);
}
END_TEST

/* A number that is not a member's names no peer. */
START_TEST(a_peer_that_is_no_member_is_nobody)
{
    static const char *const peers[] = {
        "-1", "-4294967296", "3", "4294967295", "9223372036854775807", "", "one", "0x"};
    struct host *host = make();
    json_t *record = run_record_encode(host);

    for (size_t i = 0; i < WEFT_LENGTH(peers); i++) {
        struct weft_error error = {0};
        struct host *got;

        json_object_set_new(json_object_get(record, "error"), "peer",
                            json_string(peers[i]));
        got = run_record_decode(record, "iceberg", &config, 0, &error);
        ck_assert_int_eq(error.status, WEFT_OK);
        ck_assert_uint_eq(got->error_peer, HOST_NO_MEMBER);
        run_record_free(got);
    }
    json_decref(record);
    destroy(host);
}
END_TEST

/* Observations with such a length are refused, too (diag/observations.h). */
START_TEST(a_prefix_longer_than_its_address_is_malformed)
{
    static const struct {
        const char *gid;
        int prefix_len;
        bool is_good;
    } prefixes[] = {{"10.0.0.0", 32, true},  {"10.0.0.0", 33, false},
                    {"10.0.0.0", -2, false}, {"fd00::1", 128, true},
                    {"fd00::1", 129, false}, {"10.0.0.0", 0, true}};
    struct host *host = make();
    json_t *record = run_record_encode(host);
    json_t *facts = json_object_get(record, "facts");
    json_t *described = json_array_get(json_object_get(facts, "told"), 0);
    json_t *port = json_array_get(json_object_get(described, "ports"), 0);
    json_t *gid = json_array_get(json_object_get(port, "gids"), 0);

    for (size_t i = 0; i < WEFT_LENGTH(prefixes); i++) {
        struct weft_error error = {0};
        struct host *got;

        json_object_set_new(gid, "gid", json_string(prefixes[i].gid));
        json_object_set_new(gid, "prefix_len", json_integer(prefixes[i].prefix_len));
        got = run_record_decode(record, "iceberg", &config, 0, &error);
        ck_assert_int_eq(error.status, prefixes[i].is_good ? WEFT_OK : WEFT_ERR_PROTOCOL);
        run_record_free(got);
    }
    json_decref(record);
    destroy(host);
}
END_TEST

START_TEST(ports_of_a_peer_that_is_no_member_are_malformed)
{
    static const char *const peers[] = {"3", "-1", "4294967296", "one"};
    struct host *host = make();
    json_t *record = run_record_encode(host);
    json_t *facts = json_object_get(record, "facts");
    json_t *described = json_array_get(json_object_get(facts, "told"), 0);

    for (size_t i = 0; i < WEFT_LENGTH(peers); i++) {
        struct weft_error error = {0};
        struct host *got;

        json_object_set_new(described, "peer", json_string(peers[i]));
        got = run_record_decode(record, "iceberg", &config, 0, &error);
        ck_assert_int_eq(error.status, WEFT_ERR_PROTOCOL);
        run_record_free(got);
    }
    json_decref(record);
    destroy(host);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/record");
    TCase *tcase = tcase_create("record");

    tcase_add_test(tcase, what_is_written_is_read_back);
    tcase_add_test(tcase, a_host_that_did_not_start_has_no_limits);
    tcase_add_test(tcase, times_are_counted_from_the_origin);
    tcase_add_test(tcase, what_is_malformed_is_a_dead_host);
    tcase_add_test(tcase, a_number_out_of_range_is_malformed);
    tcase_add_test(tcase, a_queue_tells_as_many_as_it_says);
    tcase_add_test(tcase, a_peer_that_is_no_member_is_nobody);
    tcase_add_test(tcase, a_prefix_longer_than_its_address_is_malformed);
    tcase_add_test(tcase, ports_of_a_peer_that_is_no_member_are_malformed);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
