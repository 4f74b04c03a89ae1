/* Tests of io/oob.h: datagrams to the neighbours on a link, and within a host. */
#include <errno.h>
#include <string.h>

#include "io/conformance_testing.h"
#include "io/oob.h"

#define PORT 22341

static uint32_t data_ifindex(int host)
{
    struct io_env *env = now_testing.env[host];
    const struct io_hostinfo *info = env->ops->hostinfo(env);

    for (uint32_t i = 0; i < info->n_netdevs; i++) {
        if (strcmp(info->netdevs[i].name, "p0") == 0 && info->netdevs[i].is_up) {
            return info->netdevs[i].ifindex;
        }
    }
    ck_abort_msg("no netdev p0 with carrier");
}

static struct io_announcer *open_one(int host, uint32_t ifindex, uint16_t port, int tag)
{
    struct io_env *env = now_testing.env[host];
    struct io_announcer *announcer = NULL;

    ck_assert_int_eq(env->oob->open_announcer(env, ifindex, port,
                                              &now_testing.task[host][tag], &announcer),
                     0);
    return announcer;
}

static void close_one(int host, struct io_announcer *announcer)
{
    now_testing.env[host]->oob->close_announcer(announcer);
}

static const char *said[8];
static size_t n_said;

/* Forgets sent datagrams, because the suite can run again in this process with another backend or
 * host. */
static void forget_said(void)
{
    n_said = 0;
}

static void say(int host, struct io_announcer *announcer, const char *text)
{
    int error;

    said[n_said++] = text;
    WAIT_FOR((error = now_testing.env[host]->oob->announce(announcer, text,
                                                           strlen(text))) != EAGAIN);
    ck_assert_int_eq(error, 0);
}

/* Returns true if the bytes are a datagram that was sent. It can be received twice, in another
 * address family. */
static bool was_said(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n_said; i++) {
        if (strlen(said[i]) == n && memcmp(said[i], bytes, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Receives all waiting datagrams; returns true if `text` is one of them. Fails on one that was
 * never sent. */
static bool heard(int host, struct io_announcer *announcer, const char *text,
                  struct io_endpoint *out_from)
{
    char bytes[IO_ANNOUNCEMENT_MAX];
    struct io_endpoint from;
    bool any = false;
    size_t n = 0;
    int error;

    while ((error = now_testing.env[host]->oob->hear(announcer, bytes, sizeof bytes, &n,
                                                     &from)) == 0) {
        ck_assert(was_said(bytes, n));
        if (strlen(text) == n && memcmp(text, bytes, n) == 0) {
            *out_from = from;
            any = true;
        }
    }
    ck_assert_int_eq(error, EAGAIN);
    return any;
}

static bool is_address_of(int host, uint32_t ifindex, const struct io_ip *ip)
{
    struct io_env *env = now_testing.env[host];
    const struct io_netdev *netdev = io_hostinfo_netdev(env->ops->hostinfo(env), ifindex);

    for (uint32_t i = 0; i < netdev->n_addresses; i++) {
        if (io_ip_equal(&netdev->addresses[i].ip, ip)) {
            return true;
        }
    }
    return io_ip_is_link_local(ip) && !io_ip_is_v4(ip);
}

START_TEST(neighbours_hear_and_are_woken)
{
    uint32_t left = data_ifindex(LEFT), right = data_ifindex(RIGHT);
    struct io_announcer *a = open_one(LEFT, left, PORT, TASK_CLIENT);
    struct io_announcer *b = open_one(RIGHT, right, PORT, TASK_SERVER);
    struct io_endpoint from = {.port = 0};

    ck_assert(!heard(RIGHT, b, "", &from));
    say(LEFT, a, "here I am");
    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_SERVER] > 0);
    WAIT_FOR(heard(RIGHT, b, "here I am", &from));
    ck_assert_uint_eq(from.ifindex, right);
    ck_assert(is_address_of(LEFT, left, &from.ip));
    say(RIGHT, b, "and I here");
    WAIT_FOR(heard(LEFT, a, "and I here", &from));
    ck_assert_uint_eq(from.ifindex, left);
    ck_assert(is_address_of(RIGHT, right, &from.ip));
    close_one(LEFT, a);
    close_one(RIGHT, b);
    close_one(RIGHT, NULL);
}
END_TEST

/* A connection to the source of a datagram succeeds. */
START_TEST(who_was_heard_can_be_dialled)
{
    uint32_t left = data_ifindex(LEFT), right = data_ifindex(RIGHT);
    struct io_env *dialler = now_testing.env[RIGHT];
    struct io_announcer *a = open_one(LEFT, left, PORT, TASK_CLIENT);
    struct io_announcer *b = open_one(RIGHT, right, PORT, TASK_SERVER);
    struct io_endpoint any = {.port = 0}, at, from;
    struct io_listener *listener;
    struct io_stream *stream;
    int error;

    ck_assert_int_eq(now_testing.env[LEFT]->oob->listen(
                         now_testing.env[LEFT], &any, 4,
                         &now_testing.task[LEFT][TASK_LISTENER], &listener, &at),
                     0);
    say(LEFT, a, "dial me");
    WAIT_FOR(heard(RIGHT, b, "dial me", &from));
    from.port = at.port;
    ck_assert_int_eq(dialler->oob->connect(dialler, NULL, &from,
                                           &now_testing.task[RIGHT][TASK_OP], &stream),
                     0);
    WAIT_FOR((error = dialler->oob->connected(stream)) != EAGAIN);
    ck_assert_int_eq(error, 0);
    dialler->oob->close(stream, true);
    now_testing.env[LEFT]->oob->close_listener(listener);
    close_one(LEFT, a);
    close_one(RIGHT, b);
}
END_TEST

/* All processes of a host that share the port receive a datagram; other ports and the sender do
 * not. */
START_TEST(a_port_is_shared_and_kept_apart)
{
    uint32_t left = data_ifindex(LEFT), right = data_ifindex(RIGHT);
    struct io_announcer *a = open_one(LEFT, left, PORT, TASK_CLIENT);
    struct io_announcer *too = open_one(LEFT, left, PORT, TASK_CLIENT);
    struct io_announcer *b = open_one(RIGHT, right, PORT, TASK_SERVER);
    struct io_announcer *twin = open_one(RIGHT, right, PORT, TASK_OP);
    struct io_announcer *other = open_one(RIGHT, right, PORT + 1, TASK_OTHER);
    struct io_endpoint from;

    say(LEFT, a, "all of you");
    WAIT_FOR(heard(RIGHT, b, "all of you", &from));
    WAIT_FOR(heard(RIGHT, twin, "all of you", &from));
    /* Send a second one, to make sure that the first is not received later. */
    say(RIGHT, b, "the echo");
    WAIT_FOR(heard(LEFT, a, "the echo", &from));
    WAIT_FOR(heard(LEFT, too, "the echo", &from));
    ck_assert(!heard(RIGHT, other, "", &from));
    ck_assert_uint_eq(now_testing.n_woken[RIGHT][TASK_OTHER], 0);
    close_one(RIGHT, twin);
    say(LEFT, too, "you again");
    WAIT_FOR(heard(RIGHT, b, "you again", &from));
    close_one(LEFT, a);
    close_one(LEFT, too);
    close_one(RIGHT, b);
    close_one(RIGHT, other);
}
END_TEST

START_TEST(a_host_hears_itself_where_it_asks_to)
{
    struct io_announcer *a = open_one(LEFT, 0, PORT, TASK_CLIENT);
    struct io_announcer *b = open_one(LEFT, 0, PORT, TASK_SERVER);
    struct io_announcer *far = open_one(RIGHT, 0, PORT, TASK_OTHER);
    struct io_announcer *link = open_one(LEFT, data_ifindex(LEFT), PORT, TASK_OP);
    struct io_env *env = now_testing.env[LEFT];
    struct io_endpoint any = {.port = 0}, at, from = {.port = 0};
    struct io_listener *listener;
    struct io_stream *stream;
    int error;

    say(LEFT, a, "housemate");
    WAIT_FOR(heard(LEFT, b, "housemate", &from));
    ck_assert_uint_eq(from.ifindex, 0);
    ck_assert_int_eq(env->oob->listen(env, &any, 4,
                                      &now_testing.task[LEFT][TASK_LISTENER], &listener,
                                      &at),
                     0);
    from.port = at.port;
    ck_assert_int_eq(
        env->oob->connect(env, NULL, &from, &now_testing.task[LEFT][TASK_OTHER], &stream),
        0);
    WAIT_FOR((error = env->oob->connected(stream)) != EAGAIN);
    ck_assert_int_eq(error, 0);
    ck_assert(!heard(RIGHT, far, "", &from));
    ck_assert(!heard(LEFT, link, "", &from));
    env->oob->close(stream, true);
    env->oob->close_listener(listener);
    close_one(LEFT, a);
    close_one(LEFT, b);
    close_one(LEFT, link);
    close_one(RIGHT, far);
}
END_TEST

START_TEST(datagrams_are_whole_cut_or_refused)
{
    struct io_announcer *a = open_one(LEFT, data_ifindex(LEFT), PORT, TASK_CLIENT);
    struct io_announcer *b = open_one(RIGHT, data_ifindex(RIGHT), PORT, TASK_SERVER);
    static uint8_t bytes[IO_ANNOUNCEMENT_MAX + 1];
    const struct io_oob_ops *oob = now_testing.env[RIGHT]->oob;
    struct io_announcer *none;
    struct io_endpoint from;
    uint8_t got[IO_ANNOUNCEMENT_MAX];
    size_t n = 0;

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7);
    }
    ck_assert_int_eq(oob->announce(a, bytes, sizeof bytes), EMSGSIZE);
    ck_assert_int_eq(oob->announce(a, bytes, sizeof got), 0);
    WAIT_FOR(oob->hear(b, got, sizeof got, &n, &from) == 0);
    ck_assert_uint_eq(n, sizeof got);
    ck_assert_mem_eq(got, bytes, sizeof got);
    while (oob->hear(b, got, sizeof got, &n, &from) == 0) {
        ck_assert_uint_eq(n, sizeof got); /* its copy in the other family */
    }
    ck_assert_int_eq(oob->announce(a, bytes, 100), 0);
    memset(got, 0xee, sizeof got);
    WAIT_FOR(oob->hear(b, got, 10, &n, &from) == 0);
    ck_assert_uint_eq(n, 10);
    ck_assert_mem_eq(got, bytes, 10);
    ck_assert_uint_eq(got[10], 0xee);
    ck_assert_int_eq(oob->open_announcer(now_testing.env[LEFT], 4711, PORT, NULL, &none),
                     ENODEV);
    close_one(LEFT, a);
    close_one(RIGHT, b);
}
END_TEST

TCase *conformance_announcements(void)
{
    TCase *tcase = tcase_create("announcements");

    tcase_add_checked_fixture(tcase, forget_said, NULL);
    tcase_add_test(tcase, neighbours_hear_and_are_woken);
    tcase_add_test(tcase, who_was_heard_can_be_dialled);
    tcase_add_test(tcase, a_port_is_shared_and_kept_apart);
    tcase_add_test(tcase, a_host_hears_itself_where_it_asks_to);
    tcase_add_test(tcase, datagrams_are_whole_cut_or_refused);
    return tcase;
}
