/* Mesh boot under hostile traffic: forged and replayed announcements, and unauthenticated TCP
 * clients. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "boot/mesh_testing.h"
#include "io/oob.h"

static const struct town_cable line[] = {{.a = 0, .b = 1}, {.a = 1, .b = 2}};
static const struct town_config line_of_3 = {.n_hosts = 3, .n_cables = 2, .cables = line};

struct liar {
    struct io_env *env;
    struct io_announcer *announcer;
    struct io_task task;
};

static void liar_open(struct liar *liar, struct town *town, uint32_t i)
{
    uint32_t ifindex = 0;

    liar->env = town->members[i].env;
    io_task_init(&liar->task, town->loop, liar->env->host, TOWN_KIND + 1);
    ck_assert_int_eq(
        liar->env->devices[0]->ops->port_netdev(liar->env->devices[0], 1, &ifindex), 0);
    ck_assert_int_eq(liar->env->oob->open_announcer(liar->env, ifindex,
                                                    BOOT_ANNOUNCE_PORT, &liar->task,
                                                    &liar->announcer),
                     0);
}

static void liar_close(struct liar *liar)
{
    liar->env->oob->close_announcer(liar->announcer);
    io_task_fini(&liar->task);
}

/* Host 2 replays rank 1's announcements and sends forged ones. */
START_TEST(lies_change_nothing)
{
    uint8_t told[RECORD_ANNOUNCEMENT_BYTES] = {0}, bytes[IO_ANNOUNCEMENT_MAX];
    static const uint8_t wrong_key[AUTH_KEY_BYTES];
    struct record_announcement invented = {.port = 0, .control = 1};
    struct town town;
    struct liar liar;
    struct io_endpoint from;
    size_t n = 0;

    town_open(&town, &line_of_3);
    for (uint32_t i = 0; i < 2; i++) {
        town.members[i].config.n_ranks = 2;
    }
    town_member_open(&town, 1);
    liar_open(&liar, &town, 2);
    town_run(&town, TOWN_S, NULL);
    ck_assert_int_eq(liar.env->oob->hear(liar.announcer, told, sizeof(told), &n, &from),
                     0);
    ck_assert_uint_eq(n, sizeof(told));
    for (int i = 0; i < 500; i++) {
        liar.env->ops->random(liar.env, bytes, sizeof(bytes));
        if (i % 3 != 0) {
            memcpy(bytes, told, sizeof(told));
        }
        if (i % 3 == 1) {
            bytes[i % 88] ^= 1; /* a changed member, port, seal ... */
        }
        ck_assert_int_eq(liar.env->oob->announce(liar.announcer, bytes,
                                                 i % 3 == 0 ? (size_t)i : sizeof(told)),
                         0);
        if (i % 20 == 0) {
            town_run(&town, TOWN_MS, NULL);
        }
    }
    invented.self = town.members[1].boot->mesh->self;
    invented.self.member = 0;
    record_encode_announcement(&invented, wrong_key, told);
    ck_assert_int_eq(liar.env->oob->announce(liar.announcer, told, sizeof(told)), 0);
    town_run(&town, TOWN_MS, NULL);
    ck_assert_uint_gt(town.members[1].boot->mesh->n_strange, 300);
    ck_assert_uint_eq(town.members[1].boot->mesh->n_peers, 0);
    town_member_open(&town, 0);
    town_round(&town, 1, 8);
    ck_assert_uint_eq(town.members[1].boot->mesh->n_peers, 1);
    town_round(&town, 2, 8);
    liar_close(&liar);
    town_close(&town);
}
END_TEST

/* A host replays rank 1's announcement, with a listener that does not know the key. */
START_TEST(a_tape_of_a_member_is_dialled_in_vain)
{
    uint8_t told[RECORD_ANNOUNCEMENT_BYTES] = {0};
    struct town town;
    struct liar liar;
    struct io_endpoint from;
    size_t n = 0;

    /* 1 - 2 first, where the replaying host records the announcement; then 0 - 2, where it replays
     * it while rank 1 is unplugged. */
    static const struct town_cable cables[] = {
        {.a = 1, .b = 2}, {.a = 0, .b = 2}, {.a = 0, .b = 1, .is_down = true}};
    struct town_config config = {.n_hosts = 3, .n_cables = 3, .cables = cables};
    struct mesh_peer *peer;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 2; i++) {
        town.members[i].config.n_ranks = 2;
    }
    town_member_open(&town, 0);
    town_member_open(&town, 1);
    liar_open(&liar, &town, 2);
    town_run(&town, TOWN_S, NULL);
    ck_assert_int_eq(liar.env->oob->hear(liar.announcer, told, sizeof(told), &n, &from),
                     0);
    liar.env->oob->close_announcer(liar.announcer);
    ck_assert_int_eq(liar.env->oob->open_announcer(liar.env, 3, BOOT_ANNOUNCE_PORT,
                                                   &liar.task, &liar.announcer),
                     0);
    town_gather(&town, 0, 1, 8);
    town_gather(&town, 1, 1, 8);
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(liar.env->oob->announce(liar.announcer, told, sizeof(told)), 0);
        town_run(&town, 500 * TOWN_MS, NULL);
    }
    peer = town.members[0].boot->mesh->members[1].peer;
    ck_assert_ptr_nonnull(peer);
    ck_assert_uint_le(peer->n_candidates, 2);
    ck_assert_uint_ge(peer->attempt, 5);
    /* Not once per announcement, and with backoff. */
    ck_assert_uint_le(peer->attempt, 30);
    ck_assert_int_ne(peer->state, MESH_UP);
    ck_assert_int_eq(town.members[0].status, WEFT_AGAIN);
    town_inject(&town, WORLD_FAULT_UP, 2);
    ck_assert(town_run(&town, 5 * TOWN_S, town_all_done));
    town_check(&town, 0, 1, 8);
    liar_close(&liar);
    town_close(&town);
}
END_TEST

static bool is_dialling(const struct town *town)
{
    return town->members[0].boot->mesh->members[1].peer->state == MESH_TCP;
}

/* Announcements of other processes take all slots for addresses of a member, that of the one being
 * dialled, too. Its refusal still proves that the member is dead, before a silence would. */
START_TEST(who_is_refused_while_addresses_are_replaced_is_dead)
{
    static const struct town_cable cables[] = {{.a = 0, .b = 1}, {.a = 0, .b = 2}};
    const struct town_config config = {.n_hosts = 3, .n_cables = 2, .cables = cables};
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES], key[AUTH_KEY_BYTES];
    struct record_announcement other = {.port = 0};
    struct town town;
    struct liar liar;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 2; i++) {
        town.members[i].config.n_ranks = 2;
        town_member_open(&town, i);
    }
    liar_open(&liar, &town, 2);
    town_round(&town, 1, 8);
    other.self = town.members[1].boot->mesh->self;
    record_announcement_key(town.members[1].config.job_key, key);
    town.members[1].boot->error.status = WEFT_ERR_CLOSED; /* no BYE */
    town_member_close(&town, 1);
    ck_assert(town_run(&town, TOWN_S, is_dialling));
    town_inject(&town, WORLD_FAULT_DOWN, 0);
    for (uint16_t i = 1; i <= MESH_CANDIDATES_MAX; i++) {
        other.self.identity.nonce++;
        other.control = i;
        record_encode_announcement(&other, key, bytes);
        ck_assert_int_eq(liar.env->oob->announce(liar.announcer, bytes, sizeof(bytes)),
                         0);
    }
    town_run(&town, 100 * TOWN_MS, NULL);
    ck_assert(is_dialling(&town));
    town_inject(&town, WORLD_FAULT_UP, 0);
    town_run(&town, 1500 * TOWN_MS, NULL); /* TCP tries again after 1 s */
    ck_assert_int_eq(town.members[0].boot->mesh->members[1].gone, MESH_DIED);
    liar_close(&liar);
    town_close(&town);
}
END_TEST

/* Announcements of many members fill the record of links. It still has the links that carry a
 * stream, so that the member at the end of one is not cut off. */
START_TEST(a_full_record_has_the_links_that_carry)
{
    enum { RANKS = 40, PORTS = 16 };
    static const struct town_cable cables[] = {{.a = 0, .b = 1}, {.a = 0, .b = 2}};
    const struct town_config config = {.n_hosts = 3, .n_cables = 2, .cables = cables};
    uint8_t bytes[RECORD_ANNOUNCEMENT_BYTES], key[AUTH_KEY_BYTES];
    struct record_announcement other = {.port = 0};
    const struct mesh_member *self;
    struct town town;
    struct liar liar;

    town_open(&town, &config);
    for (uint32_t i = 0; i < 2; i++) {
        town.members[i].config.n_ranks = RANKS;
        town.members[i].config.rank = i == 0 ? 0 : RANKS - 1;
        town_member_open(&town, i);
    }
    liar_open(&liar, &town, 2);
    town_run(&town, 3 * TOWN_S, NULL);
    ck_assert(boot_reaches(town.members[0].boot, RANKS - 1));
    other.self = town.members[1].boot->mesh->self;
    record_announcement_key(town.members[1].config.job_key, key);
    for (uint32_t m = 1; m < RANKS - 1; m++) {
        for (uint8_t port = 0; port < PORTS; port++) {
            other.self.member = m;
            other.self.identity.nonce++;
            other.port = port;
            other.control = (uint16_t)(1 + port);
            record_encode_announcement(&other, key, bytes);
            ck_assert_int_eq(
                liar.env->oob->announce(liar.announcer, bytes, sizeof(bytes)), 0);
        }
        town_run(&town, TOWN_MS, NULL);
    }
    town_run(&town, TOWN_S, NULL);
    self = &town.members[0].boot->mesh->members[0];
    ck_assert_uint_eq(self->n_entries, RECORD_ENTRIES_MAX);
    ck_assert(boot_reaches(town.members[0].boot, RANKS - 1));
    ck_assert(boot_reaches(town.members[1].boot, 0));
    liar_close(&liar);
    town_close(&town);
}
END_TEST

static void count_line(void *context, enum weft_log_level level, const char *text)
{
    (void)level;
    (void)text;
    ++*(uint32_t *)context;
}

/* They must not fill the log either, because a log whose reader is blocked would delay the rank. */
START_TEST(strangers_at_the_door_do_not_disturb)
{
    uint32_t n_lines = 0;
    struct weft_log log = {
        .level = WEFT_LOG_WARN, .write = count_line, .context = &n_lines};
    struct io_stream *streams[100];
    struct io_endpoint to = {.ip = io_ip_v4(10, 1, 0, 2)};
    struct io_task task;
    struct io_env *env;
    struct town town;

    town_open(&town, &line_of_3);
    town_member_open(&town, 1);
    env = town.members[0].env;
    to.port = town.members[1].boot->mesh->control.port;
    town.members[1].env->log = &log;
    io_task_init(&task, town.loop, env->host, TOWN_KIND + 1);
    for (size_t i = 0; i < WEFT_LENGTH(streams); i++) {
        size_t n;

        ck_assert_int_eq(env->oob->connect(env, NULL, &to, &task, &streams[i]), 0);
        town_run(&town, TOWN_MS, NULL);
        if (i % 2 == 0 && env->oob->connected(streams[i]) == 0) {
            (void)env->oob->send(streams[i], "GET /", 5, &n);
        }
    }
    town_member_open(&town, 0);
    town_member_open(&town, 2);
    town_round(&town, 1, 4);
    town_run(&town, 10 * TOWN_S, NULL);
    town_round(&town, 2, 4);
    for (size_t i = 0; i < WEFT_LENGTH(streams); i++) {
        env->oob->close(streams[i], true);
    }
    io_task_fini(&task);
    ck_assert_uint_ge(n_lines, 1);
    ck_assert_int_le(n_lines, io_now(env) / TOWN_S + 1);
    town_close(&town);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mesh, strangers");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, lies_change_nothing);
    tcase_add_test(tcase, a_tape_of_a_member_is_dialled_in_vain);
    tcase_add_test(tcase, who_is_refused_while_addresses_are_replaced_is_dead);
    tcase_add_test(tcase, a_full_record_has_the_links_that_carry);
    tcase_add_test(tcase, strangers_at_the_door_do_not_disturb);
    return suite_run(suite);
}
