/* Tests errors of peers and limits of this machine: each is reported with its type, and other
 * connections are not affected. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "conn/codec.h"
#include "plugin/engine_private.h"
#include "plugin/engine_testing.h"
#include "plugin/finding.h"

#define SECOND INT64_C(1000000000)
#define BYTES 65536u

static struct harness harness;

static weft_status connect_to(const uint8_t *handle, struct weft_error *error)
{
    weft_ns until = harness_now(&harness) + 120 * SECOND;
    struct engine_comm *comm = NULL;
    weft_status status = WEFT_AGAIN;

    while (status == WEFT_AGAIN) {
        status = engine_connect(harness.engines[0], handle, &comm, error);
        ck_assert(status != WEFT_AGAIN || harness_step(&harness, until));
    }
    ck_assert_ptr_null(comm);
    return status;
}

/* Checks that the line in NCCL's log names the finding. */
static void expect_code(const struct weft_error *error, const char *code)
{
    char line[400], wanted[100];

    finding_format(error, line, sizeof(line));
    weft_format(wanted, sizeof(wanted), "[%s: weft explain %s]", code, code);
    ck_assert_msg(strstr(line, wanted) != NULL, "%s", line);
}

static void other_secret(uint32_t host, struct world_host *world_host,
                         struct engine_config *config)
{
    (void)world_host;
    config->conn.has_secret = true;
    config->conn.secret[0] = (uint8_t)host;
}

START_TEST(another_secret_is_refused)
{
    struct engine_listen *listen;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];

    harness_with(other_secret);
    harness_open(&harness, 2, 1);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    ck_assert_int_eq(connect_to(handle, &error), WEFT_ERR_AUTH);
    expect_code(&error, "conn.auth_failed");
    engine_close_listen(listen);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* A handle of another version is rejected, and the error names that version. */
START_TEST(another_version_is_refused_by_number)
{
    static const struct {
        uint8_t byte;
        const char *text;
    } versions[] = {{'T', "version 1,"}, {2, "version 2,"}};
    struct engine_listen *listen;
    struct engine_comm *comm;
    struct weft_error error = {0};
    uint8_t handle[CONN_HANDLE_BYTES];

    harness_open(&harness, 2, 1);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    handle[CONN_HANDLE_BYTES - 5] = versions[_i].byte;
    ck_assert_int_eq(engine_connect(harness.engines[0], handle, &comm, &error),
                     WEFT_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, versions[_i].text));
    expect_code(&error, "conn.version");
    engine_close_listen(listen);
    harness_close(&harness);
}
END_TEST

static void little_memory(uint32_t host, struct world_host *world_host,
                          struct engine_config *config)
{
    (void)config;
    world_host->memlock_bytes = host == 0 ? INT64_MAX : 4 * (int64_t)(1 << 20);
}

/* Registering `much` fails with the limit each time; registering `fits` then succeeds. */
static void expect_limit(struct engine_comm *comm, void *data, size_t much, size_t fits)
{
    struct engine_memory *memory;
    struct weft_error error = {0};

    for (int i = 0; i < 3; i++) {
        weft_error_clear(&error);
        ck_assert_int_lt(harness_register(comm, data, much, &memory, &error), 0);
        ck_assert_int_eq(error.sys_errno, ENOMEM);
        ck_assert_ptr_nonnull(weft_error_value(&error, WEFT_VALUE_MEMLOCK_BYTES));
        expect_code(&error, "host.memlock");
        ck_assert_ptr_null(memory);
        ck_assert_int_eq(harness_register(comm, data, fits, &memory, &error), WEFT_OK);
        engine_deregister(comm, memory);
    }
}

/* regMr beyond the limit reports the limit. */
START_TEST(a_memlock_limit_is_told)
{
    const size_t much = 64u << 20;
    struct engine_comm *out, *in;
    void *data = malloc(much);

    harness_with(little_memory);
    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    expect_limit(in, data, much, 8192);
    engine_close(out);
    engine_close(in);
    free(data);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

static void memory_for_one_device(uint32_t host, struct world_host *world_host,
                                  struct engine_config *config)
{
    (void)host;
    (void)config;
    world_host->memlock_bytes = 96 << 20;
}

/* Memory is registered on all devices that can carry the connection, or on none. What the first
 * device pinned is released when the second fails. */
START_TEST(a_registration_is_whole_or_nothing)
{
    const size_t too_much = 64u << 20, half = 40u << 20;
    struct engine_comm *out, *in;
    void *data = malloc(too_much);

    harness_with(memory_for_one_device);
    harness_open(&harness, 2, 2);
    harness_connect(&harness, 0, 1, &out, &in);
    expect_limit(in, data, too_much, half);
    engine_close(out);
    engine_close(in);
    free(data);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* Unregistered memory is rejected before anything happens, and the connection continues. */
START_TEST(memory_that_was_not_registered_is_refused)
{
    uint8_t *data = calloc(1, 2 * BYTES);
    struct engine_memory *out_memory, *in_memory;
    struct engine_comm *out, *in;
    struct engine_request *send, *receive;
    struct weft_error error = {0};
    size_t size = 16, sizes[ENGINE_GROUP_MAX];
    const uint32_t tag = 1;
    void *at = data + BYTES;
    uint32_t n;

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(out, data, BYTES, &out_memory, &error), WEFT_OK);
    ck_assert_int_eq(harness_register(in, at, BYTES, &in_memory, &error), WEFT_OK);
    ck_assert_int_eq(engine_isend(out, at, 1, tag, out_memory, &send), WEFT_ERR_INPUT);
    ck_assert_int_eq(engine_isend(out, data, BYTES + 1, tag, out_memory, &send),
                     WEFT_ERR_INPUT);
    ck_assert_int_eq(engine_isend(out, data + BYTES - 1, 2, tag, out_memory, &send),
                     WEFT_ERR_INPUT);
    ck_assert_int_eq(engine_isend(out, data, SIZE_MAX, tag, out_memory, &send),
                     WEFT_ERR_INPUT);
    ck_assert_int_eq(engine_isend(out, data, 1, tag, NULL, &send), WEFT_ERR_INPUT);
    at = data;
    ck_assert_int_eq(engine_irecv(in, 1, &at, &size, &tag, &in_memory, &receive),
                     WEFT_ERR_INPUT);
    at = data + BYTES;
    memset(data, 7, 16);
    ck_assert_int_eq(engine_irecv(in, 1, &at, &size, &tag, &in_memory, &receive),
                     WEFT_OK);
    ck_assert_int_eq(engine_isend(out, data, 16, tag, out_memory, &send), WEFT_OK);
    harness_run(&harness, SECOND / 100);
    ck_assert_int_eq(engine_test(send, sizes, &n), WEFT_OK);
    ck_assert_int_eq(engine_test(receive, sizes, &n), WEFT_OK);
    ck_assert_int_eq(memcmp(data, at, 16), 0);
    engine_deregister(out, out_memory);
    engine_deregister(in, in_memory);
    engine_close(out);
    engine_close(in);
    free(data);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* ncclCommAbort deregisters memory before it closes the connection, with requests open. Requests
 * that still wait are dropped, and the peer notices at the latest when this end closes. */
START_TEST(memory_goes_before_its_requests)
{
    uint8_t *data = calloc(1, 2 * BYTES);
    struct engine_memory *out_memory, *in_memory;
    struct engine_comm *out, *in;
    struct engine_request *sends[3], *receive;
    struct weft_error error = {0};
    const size_t size = BYTES;
    const uint32_t tag = 1;
    void *at = data + BYTES;

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(out, data, BYTES, &out_memory, &error), WEFT_OK);
    ck_assert_int_eq(harness_register(in, at, BYTES, &in_memory, &error), WEFT_OK);
    for (uint32_t i = 0; i < 3; i++) { /* no receive is posted yet */
        ck_assert_int_eq(engine_isend(out, data, BYTES, tag, out_memory, &sends[i]),
                         WEFT_OK);
    }
    harness_run(&harness, SECOND / 1000);
    engine_deregister(out, out_memory);
    ck_assert_int_eq(engine_irecv(in, 1, &at, &size, &tag, &in_memory, &receive),
                     WEFT_OK);
    harness_run(&harness, SECOND / 1000);
    engine_deregister(in, in_memory);
    harness_run(&harness, SECOND / 1000);
    engine_close(out);
    engine_close(in);
    free(data);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* ---- unauthenticated clients ---- */

/* Connects to the listener, and sends random bytes or the start of a HELLO with a random body. */
static struct io_stream *knock(struct io_env *env, const uint8_t *handle,
                               struct weft_rng *rng)
{
    static const struct codec_header hello = {.type = CODEC_HELLO,
                                              .n_bytes = CODEC_HELLO_BYTES};
    struct io_stream *stream;
    struct codec_handle decoded;
    struct weft_error error = {0};
    struct io_endpoint to;
    uint8_t bytes[200], plain[CONN_HANDLE_BYTES];
    weft_ns until = harness_now(&harness) + SECOND;
    size_t n_sent;

    memcpy(plain, handle, sizeof(plain));
    memset(plain + sizeof(plain) - 8, 0, 8);
    ck_assert_int_eq(codec_decode_handle(plain, &decoded, &error), WEFT_OK);
    to = (struct io_endpoint){.ip = decoded.endpoints[0].prefix.ip,
                              .port = decoded.endpoints[0].port};
    /* No task, because the stream is only polled. */
    ck_assert_int_eq(env->oob->connect(env, NULL, &to, NULL, &stream), 0);
    while (env->oob->connected(stream) == EAGAIN) {
        ck_assert(harness_step(&harness, until));
    }
    weft_rng_bytes(rng, bytes, sizeof(bytes));
    if (weft_rng_below(rng, 2) == 0) {
        codec_encode_header(&hello, bytes);
    }
    (void)env->oob->send(stream, bytes, 1 + weft_rng_below(rng, 200), &n_sent);
    return stream;
}

START_TEST(strangers_do_not_keep_others_out)
{
    struct io_env *env;
    struct io_stream *strangers[40];
    struct engine_listen *listen;
    struct engine_comm *out, *in;
    struct weft_error error = {0};
    struct weft_rng rng;
    uint8_t handle[CONN_HANDLE_BYTES];

    weft_rng_init(&rng, 3, "strangers");
    harness_open(&harness, 2, 1);
    env = harness.world->ops->host_env(harness.world, 0, 0);
    ck_assert_int_eq(engine_listen(harness.engines[1], handle, &listen, &error), WEFT_OK);
    for (uint32_t i = 0; i < 40; i++) {
        strangers[i] = knock(env, handle, &rng);
    }
    harness_connect(&harness, 0, 1, &out, &in);
    for (uint32_t i = 0; i < 40; i++) {
        env->oob->close(strangers[i], i % 2 == 0);
    }
    engine_close_listen(listen);
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

/* Datagrams with random bytes at the port of beacons create no process and leak nothing. */
START_TEST(noise_among_beacons_is_ignored)
{
    static const uint8_t start[] = {'W', 'B', 'C', 'N', BEACON_VERSION};
    struct io_env *env;
    struct io_announcer *announcer;
    struct engine_comm *out, *in;
    struct weft_rng rng;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];

    weft_rng_init(&rng, 4, "noise");
    harness_open(&harness, 2, 1);
    env = harness.world->ops->host_env(harness.world, 0, 0);
    ck_assert_int_eq(env->oob->open_announcer(env,
                                              env->ops->hostinfo(env)->netdevs[0].ifindex,
                                              ENGINE_ANNOUNCE_PORT, NULL, &announcer),
                     0);
    for (uint32_t i = 0; i < 500; i++) {
        size_t n_bytes = (size_t)weft_rng_below(&rng, sizeof(bytes) + 1);

        weft_rng_bytes(&rng, bytes, n_bytes);
        if (n_bytes >= sizeof(start) && i % 2 == 0) {
            memcpy(bytes, start, sizeof(start));
        }
        (void)env->oob->announce(announcer, bytes, n_bytes);
        harness_run(&harness, 100000);
    }
    harness_connect(&harness, 0, 1, &out, &in);
    env->oob->close_announcer(announcer);
    engine_close(out);
    engine_close(in);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

static struct io_announcer *announcer_on_cable(uint32_t host)
{
    struct io_env *env = harness.world->ops->host_env(harness.world, host, 0);
    struct io_announcer *announcer;

    ck_assert_int_eq(env->oob->open_announcer(env,
                                              env->ops->hostinfo(env)->netdevs[0].ifindex,
                                              ENGINE_ANNOUNCE_PORT, NULL, &announcer),
                     0);
    return announcer;
}

/* Records the last beacon of host 1 that has come over the cable to host 0. Returns its size, or 0
 * if none has come. */
static size_t record(struct io_announcer *announcer, uint8_t out[IO_ANNOUNCEMENT_MAX])
{
    struct io_env *env = harness.world->ops->host_env(harness.world, 0, 0);
    uint64_t process = harness.engines[1]->mesh.self.process;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    struct io_endpoint from;
    struct beacon beacon;
    size_t n_bytes, n = 0;

    while (env->oob->hear(announcer, bytes, sizeof(bytes), &n_bytes, &from) == 0) {
        ck_assert_int_eq(
            beacon_decode(bytes, n_bytes, harness.engines[0]->mesh.key, &beacon),
            WEFT_OK);
        if (beacon.process == process && beacon.sender == process) {
            memcpy(out, bytes, n_bytes);
            n = n_bytes;
        }
    }
    return n;
}

static const struct io_oob_ops *real_oob;
static uint32_t n_strange; /* datagrams of a stranger that are read before others */

static int hear_strangers(struct io_announcer *announcer, void *out, size_t cap,
                          size_t *out_n, struct io_endpoint *out_from)
{
    if (n_strange == 0) {
        return real_oob->hear(announcer, out, cap, out_n, out_from);
    }
    n_strange--;
    *out_n = 1;
    memset(out, 'x', 1);
    *out_from = (struct io_endpoint){0};
    return 0;
}

/* A process is stopped for 7 s. The beacons of that time wait behind a stranger's datagrams, and
 * are read before any process is dropped. */
START_TEST(beacons_behind_a_flood_count)
{
    const struct engine_mesh *mesh;
    struct io_oob_ops flooded;
    struct io_env *env;

    harness_open(&harness, 2, 1);
    mesh = &harness.engines[0]->mesh;
    harness_run(&harness, 5 * SECOND);
    ck_assert_uint_eq(mesh->n_processes, 1);
    harness_hold(&harness, 0);
    harness_run(&harness, 7 * SECOND);
    env = harness.world->ops->host_env(harness.world, 0, 0);
    real_oob = env->oob;
    flooded = *real_oob;
    flooded.hear = hear_strangers;
    env->oob = &flooded;
    n_strange = 1000;
    harness_release(&harness, 0);
    harness_run(&harness, SECOND);
    env->oob = real_oob;
    ck_assert_uint_eq(n_strange, 0);
    ck_assert_uint_eq(mesh->n_processes, 1);
    ck_assert_uint_eq(mesh->n_gone, 0);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

static uint32_t n_neighbours(const struct engine_mesh *mesh)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < mesh->self.n_neighbours; i++) {
        n += mesh->self.neighbours[i] != 0 ? 1 : 0;
    }
    return n;
}

/* When the last beacon of a silent process is replayed, in half seconds after that process went
 * silent. */
static const struct {
    int first, last;
} replays[] = {{6, 6}, {1, 11}, {11, 13}, {16, 20}, {1, 24}};

/* A recorded beacon neither keeps a process that went silent, nor brings it back. The process
 * itself can come back. */
START_TEST(a_replayed_beacon_revives_nobody)
{
    const struct engine_mesh *mesh;
    struct io_announcer *here, *there;
    uint8_t bytes[IO_ANNOUNCEMENT_MAX];
    size_t n_bytes;

    harness_open(&harness, 2, 1);
    mesh = &harness.engines[0]->mesh;
    here = announcer_on_cable(0);
    there = announcer_on_cable(1);
    harness_run(&harness, 5 * SECOND);
    ck_assert_uint_eq(mesh->n_processes, 1);
    ck_assert_uint_eq(n_neighbours(mesh), 1);
    ck_assert_uint_gt(record(here, bytes), 0);
    while ((n_bytes = record(here, bytes)) == 0) {
        harness_run(&harness, SECOND / 100);
    }
    harness_hold(&harness, 1);
    for (int i = 1; i <= 24; i++) {
        harness_run(&harness, SECOND / 2);
        if (i >= replays[_i].first && i <= replays[_i].last) {
            struct io_env *env = harness.world->ops->host_env(harness.world, 1, 0);

            ck_assert_int_eq(env->oob->announce(there, bytes, n_bytes), 0);
            harness_run(&harness, SECOND / 100);
        }
        ck_assert(i < 11 || n_neighbours(mesh) == 0); /* deaf after 4 s */
        ck_assert(i < 15 || mesh->n_processes == 0);  /* forgotten after 6 s */
    }
    harness_release(&harness, 1);
    harness_run(&harness, 2 * SECOND);
    ck_assert_uint_eq(mesh->n_processes, 1);
    ck_assert_uint_eq(n_neighbours(mesh), 1);
    harness.engines[0]->env->oob->close_announcer(here);
    harness.engines[0]->env->oob->close_announcer(there);
    harness_expect_idle(&harness);
    harness_close(&harness);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    Suite *suite = suite_create("plugin/engine_hostile");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, another_secret_is_refused);
    tcase_add_test(tcase, beacons_behind_a_flood_count);
    tcase_add_loop_test(tcase, another_version_is_refused_by_number, 0, 2);
    tcase_add_test(tcase, a_memlock_limit_is_told);
    tcase_add_test(tcase, a_registration_is_whole_or_nothing);
    tcase_add_test(tcase, memory_that_was_not_registered_is_refused);
    tcase_add_test(tcase, memory_goes_before_its_requests);
    tcase_add_test(tcase, strangers_do_not_keep_others_out);
    tcase_add_test(tcase, noise_among_beacons_is_ignored);
    tcase_add_loop_test(tcase, a_replayed_beacon_revives_nobody, 0,
                        sizeof(replays) / sizeof(replays[0]));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
