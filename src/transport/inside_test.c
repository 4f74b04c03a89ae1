/* Tests ranks of several hosts and their transports inside a host, from the first all-gather
 * over messages to an orderly end. */
#include "io/oob.h"
#include "transport/inside.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "transport/inside_private.h"

#define MEMBERS_MAX 132
#define MS ((weft_ns)1000000)
#define SHM "shm: same /dev/shm"
#define ROUND_MAX ((size_t)INSIDE_ROUND_PEERS * 2 * 256)

static struct bed bed;
static struct inside *insides[MEMBERS_MAX];
static struct io_env *envs[MEMBERS_MAX];
static struct io_task tasks[MEMBERS_MAX];
static uint32_t host_of[MEMBERS_MAX], n_members, n_ranks;
static size_t rounds[8];
static unsigned n_rounds;

/* Adds a host with `n_processes` members, which follow the previous ones. */
static void add_host(uint32_t n_processes, bool has_ranks)
{
    uint32_t host = sim_bed_host(&bed);
    char address[24];

    weft_format(address, sizeof(address), "10.0.%u.1/24", host);
    sim_bed_port(&bed, host, address, 0);
    bed.hosts[host].n_processes = n_processes;
    bed.hosts[host].n_gpus = n_processes;
    for (uint32_t i = 0; i < n_processes; i++) {
        host_of[n_members + i] = n_members;
    }
    n_members += n_processes;
    n_ranks += has_ranks ? n_processes : 0;
}

static void start(void)
{
    memset(insides, 0, sizeof(insides));
    n_members = n_ranks = n_rounds = 0;
    sim_bed_init(&bed);
}

static void stop(void)
{
    for (uint32_t m = 0; m < n_members; m++) {
        inside_destroy(insides[m]);
        io_task_fini(&tasks[m]);
    }
    sim_bed_fini(&bed);
}

/* Each rank sends to the `reach` ranks after it, over the channels of the mask `channels` out of
 * `n_channels`. */
static void open_channels(uint32_t reach, uint32_t channels, uint32_t n_channels)
{
    uint32_t m = 0;

    sim_bed_create(&bed);
    for (uint32_t host = 0; m < n_members; host++) {
        for (uint32_t p = 0; p < bed.hosts[host].n_processes; p++, m++) {
            struct inside_config config = {.rank = m,
                                           .n_ranks = n_ranks,
                                           .n_members = n_members,
                                           .host_of = host_of,
                                           .n_channels = n_channels,
                                           .task_kind = 2};
            uint32_t sends_to[MEMBERS_MAX] = {0}, receives_from[MEMBERS_MAX] = {0};
            struct weft_error error = {0};

            for (uint32_t i = 1; i <= reach && m < n_ranks; i++) {
                sends_to[(m + i) % n_ranks] = channels;
                receives_from[(m + n_ranks - i) % n_ranks] = channels;
            }
            config.send_channels = m < n_ranks ? sends_to : NULL;
            config.receive_channels = m < n_ranks ? receives_from : NULL;
            config.buffer_bytes = 64u << 10;
            envs[m] = backend_sim.host_env(bed.world, host, p);
            io_task_init(&tasks[m], envs[m]->loop, envs[m]->host, 1);
            ck_assert_int_eq(
                inside_open(envs[m], &config, &tasks[m], &insides[m], &error), WEFT_OK);
        }
    }
}

static void open_all(uint32_t reach)
{
    open_channels(reach, 1, 1);
}

/* Runs the all-gathers, as boot does for ranks. Returns the first failure to take a result. */
static weft_status gather(struct weft_error *error)
{
    uint8_t *all = malloc(ROUND_MAX * n_members);
    weft_status status = WEFT_OK;
    size_t each = 1;

    ck_assert_ptr_nonnull(all);
    while (each > 0 && status == WEFT_OK) {
        for (uint32_t m = 0; m < n_members; m++) {
            const uint8_t *bytes;
            size_t n;

            ck_assert_int_eq(inside_round(insides[m], &bytes, &n, error), WEFT_OK);
            ck_assert(m == 0 || n == each); /* the same on all members */
            ck_assert_uint_le(n, ROUND_MAX);
            each = n;
            if (n > 0) {
                memcpy(all + m * n, bytes, n);
            }
        }
        if (each > 0) {
            rounds[n_rounds++] = each;
        }
        for (uint32_t m = 0; m < n_members && each > 0 && status == WEFT_OK; m++) {
            status = inside_take(insides[m], all, error);
        }
    }
    free(all);
    return status;
}

static void gather_all(void)
{
    struct weft_error error = {0};

    ck_assert_int_eq(gather(&error), WEFT_OK);
}

/* A rank that is up may have to ring a bell, so its streams must be open. */
static void assert_can_ring(const struct inside *inside)
{
    for (uint32_t i = 0; inside_is_up(inside) && i < inside->n_links; i++) {
        const struct inside_link *link = inside_link_at(inside, i);

        if (link != NULL) {
            uint32_t place = inside_place(inside, link->peer);

            ck_assert_int_eq(inside->streams[place]->state, INSIDE_STREAM_OPEN);
        }
    }
}

/* ---- clients outside the job, at the proxy of member 0 ---- */

enum stranger_kind { SILENT, GARBAGE, OTHER_JOB };

#define STRANGERS_MAX 400

static struct stranger {
    struct io_stream *stream;
    bool has_said;
} strangers[STRANGERS_MAX];
static unsigned n_strangers, n_to_come; /* n_to_come: one whenever a task runs */
static enum stranger_kind stranger_kind;
static struct io_task stranger_task;

static void add_stranger(void)
{
    ck_assert_uint_lt(n_strangers, STRANGERS_MAX);
    strangers[n_strangers].has_said = stranger_kind == SILENT;
    ck_assert_int_eq(envs[1]->oob->connect(envs[1], NULL, &insides[0]->at, &stranger_task,
                                           &strangers[n_strangers++].stream),
                     0);
}

static void speak(struct stranger *stranger)
{
    static const uint8_t other_key[AUTH_KEY_BYTES] = {1};
    struct codec_hello hello = {.id = 1, .attempt = 1};
    uint8_t bytes[PROVE_HELLO_BYTES], tx[PROVE_HELLO_BYTES], rx[CLIENT_RX_BYTES];
    struct frame_link link;
    size_t n_sent;

    frame_init(&link, envs[1], stranger->stream, AUTH_CONNECTOR, rx, sizeof(rx), tx,
               sizeof(tx));
    prove_hello(&link, other_key, &hello, bytes);
    if (stranger_kind == GARBAGE) {
        memset(bytes, 'x', sizeof(bytes));
    }
    stranger->has_said =
        envs[1]->oob->send(stranger->stream, bytes, sizeof(bytes), &n_sent) != EAGAIN;
}

static void remove_strangers(void)
{
    for (unsigned i = 0; i < n_strangers; i++) {
        envs[1]->oob->close(strangers[i].stream, true);
    }
    io_task_fini(&stranger_task);
    n_strangers = n_to_come = 0;
}

static struct io_task *held; /* this task is not run */

static void serve(struct io_task *task)
{
    if (task == held) {
        return;
    }
    if (n_to_come > 0) {
        n_to_come--;
        add_stranger();
    }
    for (unsigned i = 0; i < n_strangers; i++) {
        if (!strangers[i].has_said) {
            speak(&strangers[i]);
        }
    }
    for (uint32_t m = 0; m < n_members; m++) {
        struct weft_error error = {0};

        if (envs[m]->host == task->host) {
            ck_assert_int_eq(
                inside_progress(insides[m], task == &tasks[m] ? NULL : task, &error),
                WEFT_OK);
            assert_can_ring(insides[m]);
        }
    }
}

static void pass(weft_ns for_ns)
{
    struct io_loop *loop = backend_sim.loop(bed.world);
    weft_ns until = backend_sim.now(bed.world) + for_ns;
    struct io_task *task;

    do {
        while ((task = io_loop_pop(loop)) != NULL) {
            serve(task);
        }
    } while (backend_sim.step(bed.world, until) == WEFT_OK);
}

static void come_up(void)
{
    gather_all();
    for (uint32_t m = 0; m < n_members; m++) {
        io_task_wake(&tasks[m]);
    }
    pass(50 * MS);
    for (uint32_t m = 0; m < n_members; m++) {
        ck_assert_msg(inside_is_up(insides[m]), "member %u", m);
    }
}

static void close_all(void)
{
    for (uint32_t m = 0; m < n_members; m++) {
        inside_close(insides[m]);
    }
    for (uint32_t m = 0; m < n_members; m++) {
        io_task_wake(&tasks[m]);
    }
    pass(50 * MS);
    for (uint32_t m = 0; m < n_members; m++) {
        ck_assert_msg(inside_is_closed(insides[m]), "member %u", m);
    }
}

/* Sends a message larger than all steps, which needs several pieces per step. */
static void send_over(uint32_t from, uint32_t to, uint32_t channel)
{
    static uint8_t data[200001], got[200001];
    struct transport_connector *out = inside_connector(insides[from], to, true, channel);
    struct transport_connector *in = inside_connector(insides[to], from, false, channel);
    union transport_request sent, received;
    weft_status is_sent = WEFT_AGAIN, is_in = WEFT_AGAIN;
    size_t n_bytes = 0;

    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 31 + from);
    }
    memset(got, 0, sizeof(got));
    ck_assert_int_eq(transport_isend(out, data, sizeof(data), NULL, &sent), WEFT_OK);
    ck_assert_int_eq(transport_irecv(in, got, sizeof(got), NULL, &received), WEFT_OK);
    for (int i = 0; i < 1000 && (is_sent != WEFT_OK || is_in != WEFT_OK); i++) {
        pass(MS / 10);
        (void)transport_looks(out);
        (void)transport_looks(in);
        is_sent = is_sent == WEFT_OK ? WEFT_OK : transport_test(out, sent, NULL);
        is_in = is_in == WEFT_OK ? WEFT_OK : transport_test(in, received, &n_bytes);
    }
    ck_assert_int_eq(is_sent, WEFT_OK);
    ck_assert_int_eq(is_in, WEFT_OK);
    ck_assert_uint_eq(n_bytes, sizeof(data));
    ck_assert_mem_eq(data, got, sizeof(data));
    ck_assert(!transport_needs_flush(in));
}

static void send_one(uint32_t from, uint32_t to)
{
    send_over(from, to, 0);
}

/* Each channel has its own buffers, so a message that is not received on one channel does not
 * block another. */
START_TEST(channels_have_connectors_of_their_own)
{
    static uint8_t stuck[300000];
    union transport_request waiting;

    add_host(3, true);
    open_channels(2, 1u << 1 | 1u << 30, 31);
    come_up();
    /* A round of 128 pairs of blobs holds four offsets of 31 channels; this host needs two. */
    ck_assert_uint_eq(n_rounds, 2);
    ck_assert_uint_eq(rounds[1], 2 * 2 * 31 * 256);
    ck_assert_ptr_null(inside_connector(insides[0], 1, true, 0));
    ck_assert_ptr_null(inside_connector(insides[0], 1, true, 31));
    ck_assert_uint_eq(inside_connector(insides[0], 1, true, 30)->channel, 30);
    ck_assert_int_eq(transport_isend(inside_connector(insides[0], 1, true, 1), stuck,
                                     sizeof(stuck), NULL, &waiting),
                     WEFT_OK);
    send_over(0, 1, 30);
    send_over(0, 1, 30);
    ck_assert_int_eq(
        transport_test(inside_connector(insides[0], 1, true, 1), waiting, NULL),
        WEFT_AGAIN);
    close_all();
}
END_TEST

START_TEST(ranks_meet_inside_their_hosts_only)
{
    add_host(3, true);
    add_host(1, true);
    add_host(2, true);
    add_host(1, false); /* a relay */
    ck_assert(inside_is_needed(host_of, n_ranks));
    open_all(n_ranks - 1);
    come_up();
    /* Facts, then one round with two blobs for each of the two offsets of the largest host. */
    ck_assert_uint_eq(n_rounds, 2);
    ck_assert_uint_eq(rounds[0], 80);
    ck_assert_uint_eq(rounds[1], 2 * 2 * 256);
    for (uint32_t a = 0; a < n_members; a++) {
        for (uint32_t b = 0; b < n_ranks; b++) {
            bool is_inside = a != b && a < n_ranks && host_of[a] == host_of[b];

            for (int is_sender = 0; is_sender < 2; is_sender++) {
                struct transport_connector *c =
                    inside_connector(insides[a], b, is_sender == 1, 0);

                ck_assert((c != NULL) == is_inside);
                ck_assert(c == NULL || (c->kind == WEFT_TRANSPORT_SHM && c->peer == b));
                ck_assert((inside_choice(insides[a], b, is_sender == 1) != NULL) ==
                          is_inside);
            }
        }
    }
    send_one(0, 2);
    send_one(2, 0);
    send_one(5, 4);
    close_all();
}
END_TEST

/* The owner of the steps is connected without an answer of the peer's proxy, but needs a stream
 * to it to ring its bell. */
START_TEST(nobody_is_up_who_cannot_ring)
{
    add_host(3, true);
    open_all(1);
    gather_all();
    held = &insides[1]->streams[0]->task; /* rank 0 sends to rank 1 */
    for (uint32_t m = 0; m < n_members; m++) {
        struct weft_error error = {0};

        for (uint32_t i = 0; i < 6; i++) {
            struct inside_stream *stream = insides[m]->streams[i];

            if (stream != NULL && &stream->task != held) {
                ck_assert_int_eq(inside_progress(insides[m], &stream->task, &error),
                                 WEFT_OK);
            }
        }
    }
    pass(50 * MS);
    ck_assert(inside_is_up(insides[0]));
    ck_assert(!inside_is_up(insides[1]));
    io_task_wake(held);
    held = NULL;
    pass(50 * MS);
    ck_assert(inside_is_up(insides[1]));
    send_one(0, 1);
    close_all();
}
END_TEST

/* NCCL exchanges the blobs of up to 128 ranks at a time. */
START_TEST(many_ranks_take_several_rounds)
{
    add_host(130, true);
    bed.hosts[0].gpu_document = "<none/>"; /* makes the topology unknown */
    bed.hosts[0].n_gpu_document = 7;
    bed.hosts[0].gpu_document_name = "none.xml";
    open_all(1);
    come_up();
    ck_assert_uint_eq(n_rounds, 3);
    ck_assert_uint_eq(rounds[1], 128 * 2 * 256);
    ck_assert_uint_eq(rounds[2], 1 * 2 * 256);
    ck_assert_ptr_nonnull(inside_connector(insides[0], 1, true, 0));
    ck_assert_ptr_null(inside_connector(insides[0], 1, false, 0));
    ck_assert_ptr_nonnull(inside_connector(insides[0], 129, false, 0));
    send_one(129, 0);
    close_all();
}
END_TEST

START_TEST(a_rank_on_every_host_needs_nothing)
{
    add_host(1, true);
    add_host(1, true);
    add_host(3, false); /* processes without ranks do not count */
    ck_assert(!inside_is_needed(host_of, n_ranks));
    sim_bed_create(&bed);
    n_members = 0;
}
END_TEST

/* ---- fallback from p2p ---- */

static int refuse_export(struct io_gpu *gpu, const void *address, uint32_t kinds,
                         struct io_gpu_export *out)
{
    (void)gpu, (void)address, (void)kinds, (void)out;
    return EOPNOTSUPP;
}

static const struct io_gpu_sharing_ops *full_sharing;

static int refuse_import(struct io_gpu *gpu, const struct io_gpu_export *exported,
                         void **out)
{
    (void)gpu, (void)exported, (void)out;
    return EPERM;
}

/* What rank 1 can do, and the reasons that each rank then reports for its transport to the
 * other. */
static const struct refusal {
    bool exports, imports, is_off;
    const char *why[2];
} refusals[] = {
    {true, true, false, {"p2p: path PHB", "p2p: path PHB"}},
    {false, true, false, {"p2p: the other end cannot; " SHM, "p2p: path PHB"}},
    {true, false, false, {"p2p: path PHB", "p2p: memory not opened (errno 1); " SHM}},
    {true, true, true, {"p2p: the other end cannot; " SHM, "p2p: switched off; " SHM}},
};

static void assert_fallen(const struct refusal *refusal)
{
    for (uint32_t from = 0; from < 2; from++) {
        bool is_p2p = strchr(refusal->why[from], ';') == NULL;
        enum weft_transport kind = is_p2p ? WEFT_TRANSPORT_P2P : WEFT_TRANSPORT_SHM;
        char why[TRANSPORT_WHY_BYTES];

        ck_assert_str_eq(transport_why(inside_choice(insides[from], 1 - from, true), why),
                         refusal->why[from]);
        ck_assert_int_eq(inside_choice(insides[1 - from], from, false)->kind, kind);
        ck_assert_int_eq(inside_connector(insides[from], 1 - from, true, 0)->kind, kind);
    }
}

START_TEST(what_a_driver_refuses_goes_through_memory_of_the_host)
{
    static const struct world_setting far = {"NCCL_P2P_LEVEL", "SYS"};
    const struct refusal *refusal = &refusals[_i];
    struct io_gpu_sharing_ops sharing;

    add_host(2, true);
    bed.hosts[0].settings = &far;
    bed.hosts[0].n_settings = 1;
    open_all(1);
    sharing = *envs[1]->gpu->sharing;
    sharing.export_memory = refusal->exports ? sharing.export_memory : refuse_export;
    sharing.import_memory = refusal->imports ? sharing.import_memory : refuse_import;
    envs[1]->gpu->sharing = &sharing;
    insides[1]->ipc_settings.is_off = refusal->is_off;
    come_up();
    assert_fallen(refusal);
    send_one(0, 1);
    send_one(1, 0);
    close_all();
    inside_destroy(insides[1]); /* before `sharing` goes out of scope */
    insides[1] = NULL;
}
END_TEST

static unsigned n_to_open; /* imports that succeed before one fails */

static int refuse_later_import(struct io_gpu *gpu, const struct io_gpu_export *exported,
                               void **out)
{
    if (n_to_open == 0) {
        return EPERM;
    }
    n_to_open--;
    return full_sharing->import_memory(gpu, exported, out);
}

/* Rank 0 sends to rank 1 over two channels, and opens the steps of the first only. That the second
 * uses shared memory is reported for the direction. */
START_TEST(a_channel_that_falls_back_is_reported)
{
    static const struct world_setting far = {"NCCL_P2P_LEVEL", "SYS"};
    const struct transport_choice *choice;
    struct io_gpu_sharing_ops sharing;
    char why[TRANSPORT_WHY_BYTES];

    add_host(2, true);
    bed.hosts[0].settings = &far;
    bed.hosts[0].n_settings = 1;
    open_channels(1, 3, 2);
    full_sharing = envs[0]->gpu->sharing;
    sharing = *full_sharing;
    sharing.import_memory = refuse_later_import;
    envs[0]->gpu->sharing = &sharing;
    n_to_open = 1;
    come_up();
    ck_assert_int_eq(inside_connector(insides[0], 1, true, 0)->kind, WEFT_TRANSPORT_P2P);
    ck_assert_int_eq(inside_connector(insides[0], 1, true, 1)->kind, WEFT_TRANSPORT_SHM);
    choice = inside_choice(insides[0], 1, true);
    ck_assert_int_eq(choice->kind, WEFT_TRANSPORT_SHM);
    ck_assert_str_eq(transport_why(choice, why),
                     "p2p: memory not opened (errno 1); " SHM);
    ck_assert_int_eq(inside_choice(insides[0], 1, false)->kind, WEFT_TRANSPORT_P2P);
    send_over(0, 1, 0);
    send_over(0, 1, 1);
    close_all();
    inside_destroy(insides[0]); /* before `sharing` goes out of scope */
    insides[0] = NULL;
}
END_TEST

/* The owner's steps stay until the peer has closed them, whichever end closes first. */
START_TEST(steps_outlive_the_peers_mapping)
{
    static const struct world_setting far = {"NCCL_P2P_LEVEL", "SYS"};
    uint32_t first = (uint32_t)_i;

    add_host(2, true);
    bed.hosts[0].settings = &far;
    bed.hosts[0].n_settings = 1;
    open_all(1);
    come_up();
    ck_assert_uint_eq(proxy_n_connections(insides[first]->proxy), 2);
    inside_close(insides[first]);
    io_task_wake(&tasks[first]);
    pass(50 * MS);
    ck_assert(!inside_is_closed(insides[first]));
    ck_assert_uint_eq(proxy_n_connections(insides[first]->proxy), 1);
    close_all();
    ck_assert_uint_eq(proxy_n_connections(insides[0]->proxy), 0);
    ck_assert_uint_eq(proxy_n_connections(insides[1]->proxy), 0);
}
END_TEST

/* NCCL_BUFFSIZE, and the bytes of a step. Unset, a connector has 64 KiB here. */
static const struct {
    const char *value;
    uint32_t step_bytes;
} sizes[] = {{"", 8192},
             {"-2", 8192},
             {"-1", 8192},
             {"0", 8192},
             {"1048576", 131072},
             {"0x100000", 131072},
             {"4095", 4096},
             {"1000000000000", 64u << 20},
             {"99999999999999999999", 8192}};

START_TEST(a_ring_has_the_size_that_nccl_reads)
{
    const struct world_setting setting = {"NCCL_BUFFSIZE", sizes[_i].value};

    add_host(2, true);
    bed.hosts[0].settings = &setting;
    bed.hosts[0].n_settings = 1;
    open_all(1);
    ck_assert_uint_eq(insides[0]->step_bytes, sizes[_i].step_bytes);
}
END_TEST

START_TEST(steps_of_another_size_are_named)
{
    struct weft_error error = {0};

    add_host(2, true);
    open_all(1);
    insides[1]->step_bytes = 4096;
    ck_assert_int_eq(gather(&error), WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(error.message,
                     "rank 1: its steps have 4096 bytes, those of this rank "
                     "8192 (NCCL_BUFFSIZE)");
}
END_TEST

/* Returns the first error of a member, or fails the test after 10 s. */
static weft_status hear_at(uint32_t member, struct weft_error *error)
{
    weft_ns limit = backend_sim.now(bed.world) + 10000 * MS;
    weft_status status = WEFT_OK;
    struct io_task *task;

    while (status == WEFT_OK) {
        ck_assert_int_eq(backend_sim.step(bed.world, limit), WEFT_OK);
        while (status == WEFT_OK &&
               (task = io_loop_pop(backend_sim.loop(bed.world))) != NULL) {
            status = inside_progress(insides[member], task, error);
        }
    }
    return status;
}

static weft_status hear(struct weft_error *error)
{
    return hear_at(0, error);
}

START_TEST(who_gives_up_says_why)
{
    struct weft_error error = {0};

    add_host(2, true);
    open_all(1);
    come_up();
    inside_stop(insides[1], "jobs: the GPU failed\n");
    ck_assert_int_eq(hear(&error), WEFT_ERR_CLOSED);
    ck_assert_str_eq(weft_phase_name(error.phase),
                     "peer"); /* reported by the peer, which failed first */
    ck_assert_str_eq(error.message, "rank 1: it gave up: jobs: the GPU failed?");
    ck_assert_uint_eq(inside_error_peer(insides[0]), 1);
}
END_TEST

/* The kernel closes the streams of a killed process. */
START_TEST(who_says_nothing_is_missed)
{
    struct weft_error error = {0};

    add_host(2, true);
    open_all(1);
    come_up();
    inside_stop(insides[1], NULL);
    ck_assert_int_eq(hear(&error), WEFT_ERR_CLOSED);
    ck_assert_str_eq(weft_phase_name(error.phase), "inside");
    ck_assert_str_eq(error.message, "rank 1: it died: its stream ended");
    ck_assert_uint_eq(inside_error_peer(insides[0]), 1);
}
END_TEST

/* Calls to all proxies share one sequence of numbers, so any peer can guess a number. */
START_TEST(only_the_proxy_that_was_asked_answers)
{
    const struct proxy_answer answer = {.op = 77};
    struct inside_link *link;
    uint32_t other;

    add_host(3, true);
    open_all(1);
    come_up();
    link = insides[0]->links[insides[0]->order[0]];
    other = link->peer == 1 ? 2 : 1;
    link->op = answer.op;
    link->answer = (struct proxy_answer){0};
    ck_assert(!inside_answered(insides[0], other, &answer));
    ck_assert_uint_eq(link->answer.op, 0);
    ck_assert(inside_answered(insides[0], link->peer, &answer));
    ck_assert_uint_eq(link->answer.op, answer.op);
    link->op = 0;
    close_all();
}
END_TEST

/* The request of rank 1 could not be answered at once, and there is no room for its answer now. */
START_TEST(who_reads_no_answers_is_named)
{
    const struct proxy_answer answer = {.op = 1};
    uint8_t body[PROXY_ANSWER_BYTES];
    struct inside_stream *stream = NULL;
    struct weft_error error = {0};
    size_t n_bytes = proxy_encode_answer(&answer, body);

    add_host(2, true);
    open_all(1);
    come_up();
    for (uint32_t i = 2; i < 4 && stream == NULL; i++) { /* those that were accepted */
        stream = insides[0]->streams[i];
    }
    ck_assert(stream != NULL && stream->rank == 1);
    while (frame_send(&stream->link, CODEC_ANSWER, body, n_bytes)) {
    }
    insides[0]->pending[0] =
        (struct inside_pending){true, stream, {.type = PROXY_GET_FD, .connection = 99}};
    ck_assert_int_eq(inside_progress(insides[0], &insides[0]->door, &error),
                     WEFT_ERR_LIMIT);
    ck_assert_str_eq(error.message, "rank 1: it asks and does not read the answers");
    ck_assert_uint_eq(inside_error_peer(insides[0]), 1);
}
END_TEST

/* More clients than the host has ranks, and than the door has places, before the peers dial and
 * while they do. */
static const struct siege {
    enum stranger_kind kind;
    unsigned n_before, n_during;
} sieges[] = {{SILENT, 1, 0},     {SILENT, 2, 0},      {SILENT, 200, 0},
              {SILENT, 200, 200}, {GARBAGE, 2, 0},     {GARBAGE, 0, 200},
              {OTHER_JOB, 2, 0},  {OTHER_JOB, 200, 0}, {OTHER_JOB, 34, 200}};

START_TEST(strangers_keep_no_rank_out)
{
    const struct siege *siege = &sieges[_i];

    add_host(2, true);
    open_all(1);
    io_task_init(&stranger_task, envs[1]->loop, envs[1]->host, 3);
    stranger_kind = siege->kind;
    for (unsigned i = 0; i < siege->n_before; i++) {
        add_stranger();
        pass(MS / 10);
    }
    n_to_come = siege->n_during;
    come_up();
    send_one(0, 1);
    send_one(1, 0);
    remove_strangers();
    close_all();
}
END_TEST

static uint16_t port_of(const struct inside_stream *stream)
{
    struct io_endpoint local;

    envs[1]->oob->endpoints(stream->link.stream, &local, NULL);
    return local.port;
}

/* A peer that is slow to say anything looks like a stranger, and can lose its place. */
START_TEST(who_lost_its_place_dials_again)
{
    struct inside_stream *stream;
    uint16_t port;

    add_host(2, true);
    open_all(1);
    io_task_init(&stranger_task, envs[1]->loop, envs[1]->host, 3);
    stranger_kind = SILENT;
    gather_all();
    stream = insides[1]->streams[0];
    port = port_of(stream);
    held = &stream->task;
    for (unsigned i = 0; i < STRANGERS_MAX; i++) {
        pass(MS / 10);
        add_stranger();
    }
    io_task_wake(held);
    held = NULL;
    io_task_wake(&tasks[0]);
    io_task_wake(&tasks[1]);
    pass(50 * MS);
    ck_assert(inside_is_up(insides[0]) && inside_is_up(insides[1]));
    ck_assert_uint_ne(port_of(stream), port);
    remove_strangers();
    close_all();
}
END_TEST

/* Waits until rank 0 has accepted the stream of rank 1, which is not authenticated yet. */
static struct client *accepted(void)
{
    gather_all();
    held = &insides[1]->streams[0]->task;
    while (insides[0]->strangers[0].state == CLIENT_NONE) {
        pass(MS / 1000);
    }
    held = NULL;
    return &insides[0]->strangers[0];
}

/* A peer that makes room for others ends a stream without a word. That is no death. */
START_TEST(a_stream_lost_before_the_proof_is_dialed_again)
{
    add_host(2, true);
    open_all(1);
    client_fini(accepted(), true);
    for (uint32_t m = 0; m < 2; m++) {
        io_task_wake(&tasks[m]);
    }
    pass(50 * MS);
    ck_assert(inside_is_up(insides[0]) && inside_is_up(insides[1]));
    send_one(0, 1);
    close_all();
}
END_TEST

/* Rank 0 is killed before its streams are authenticated. */
START_TEST(who_is_gone_before_the_proof_is_missed)
{
    struct weft_error error = {0};

    add_host(2, true);
    open_all(1);
    client_fini(accepted(), true);
    inside_stop(insides[0], NULL);
    ck_assert_int_eq(hear_at(1, &error), WEFT_ERR_CLOSED);
    ck_assert_str_eq(error.message, "rank 0: it died: its stream ended");
    ck_assert_uint_eq(inside_error_peer(insides[1]), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transport/inside");
    TCase *tests = tcase_create("inside");

    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, ranks_meet_inside_their_hosts_only);
    tcase_add_test(tests, channels_have_connectors_of_their_own);
    tcase_add_test(tests, nobody_is_up_who_cannot_ring);
    tcase_add_test(tests, many_ranks_take_several_rounds);
    tcase_add_test(tests, a_rank_on_every_host_needs_nothing);
    tcase_add_loop_test(tests, what_a_driver_refuses_goes_through_memory_of_the_host, 0,
                        WEFT_LENGTH(refusals));
    tcase_add_test(tests, only_the_proxy_that_was_asked_answers);
    tcase_add_test(tests, who_gives_up_says_why);
    tcase_add_test(tests, who_says_nothing_is_missed);
    tcase_add_test(tests, who_reads_no_answers_is_named);
    tcase_add_test(tests, who_lost_its_place_dials_again);
    tcase_add_test(tests, a_stream_lost_before_the_proof_is_dialed_again);
    tcase_add_test(tests, who_is_gone_before_the_proof_is_missed);
    tcase_add_test(tests, a_channel_that_falls_back_is_reported);
    tcase_add_loop_test(tests, steps_outlive_the_peers_mapping, 0, 2);
    tcase_add_loop_test(tests, a_ring_has_the_size_that_nccl_reads, 0,
                        WEFT_LENGTH(sizes));
    tcase_add_test(tests, steps_of_another_size_are_named);
    tcase_add_loop_test(tests, strangers_keep_no_rank_out, 0, WEFT_LENGTH(sieges));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
