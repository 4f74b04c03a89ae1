/* Outcomes of connect(2) and accept(2) that io/conformance_testing.h cannot produce on every
 * backend. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/linux/env.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/oob.h"

#define N_CLIENTS 4

static struct linux_loop *loop;
static struct linux_env *env;
static struct io_task task;
static int deaf; /* a listener whose backlog is full */
static int clients[N_CLIENTS];
static struct io_endpoint at;

static void setup(void)
{
    struct linux_env_config config = {
        .name = "titanic", .netns_fd = -1, .only_given_settings = true};
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n_bytes = sizeof(address);
    struct weft_error error = {.status = WEFT_OK};

    ck_assert_int_eq(linux_loop_create(1, &loop, &error), WEFT_OK);
    io_task_init(&task, linux_loop_io(loop), 0, 0);
    ck_assert_int_eq(linux_env_create(loop, &config, &env, &error), WEFT_OK);
    deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(deaf, (struct sockaddr *)&address, n_bytes), 0);
    ck_assert_int_eq(listen(deaf, 0), 0);
    ck_assert_int_eq(getsockname(deaf, (struct sockaddr *)&address, &n_bytes), 0);
    at = (struct io_endpoint){.ip = io_ip_v4(127, 0, 0, 1),
                              .port = ntohs(address.sin_port)};
    for (int i = 0; i < N_CLIENTS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(clients[i], (struct sockaddr *)&address, n_bytes);
    }
}

static void teardown(void)
{
    for (int i = 0; i < N_CLIENTS; i++) {
        close(clients[i]);
    }
    close(deaf);
    linux_env_destroy(env);
    io_task_fini(&task);
    linux_loop_destroy(loop);
}

/* Ends a connection attempt and clears its SO_ERROR. */
static void end_attempt(int fd)
{
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    int error = 0;
    socklen_t n_bytes = sizeof(error);

    ck_assert_int_eq(connect(fd, &none, sizeof(none)), 0);
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n_bytes), 0);
    ck_assert_int_eq(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n_bytes), 0);
    ck_assert_int_eq(error, 0);
}

/* An attempt in progress is reported as such. One that has ended without a peer has failed, even
 * if SO_ERROR is 0. */
START_TEST(an_attempt_without_a_peer_failed_whatever_so_error_says)
{
    const struct io_oob_ops *oob = linux_env_io(env)->oob;
    int fd = dup(deaf); /* the number that the stream's socket will get */
    struct io_stream *stream;
    size_t n;
    char byte = 'x';

    close(fd);
    ck_assert_int_eq(oob->connect(linux_env_io(env), NULL, &at, &task, &stream), 0);
    ck_assert_int_eq(oob->connected(stream), EAGAIN);
    ck_assert_int_eq(oob->send(stream, &byte, 1, &n), EAGAIN);
    end_attempt(fd);
    ck_assert_int_eq(oob->connected(stream), ECONNRESET);
    ck_assert_int_eq(oob->connected(stream), ECONNRESET);
    ck_assert_int_eq(oob->send(stream, &byte, 1, &n), ECONNRESET);
    ck_assert_int_eq(oob->recv(stream, &byte, 1, &n), ECONNRESET);
    ck_assert_int_eq(oob->unacked(stream, &n), ECONNRESET);
    oob->close(stream, true);
}
END_TEST

/* The listener's log names the client, and its limits per client hold. */
START_TEST(a_client_that_has_reset_is_known)
{
    const struct io_oob_ops *oob = linux_env_io(env)->oob;
    const struct linger now = {.l_onoff = 1};
    struct io_endpoint any = {.ip = at.ip}, listens_at, remote;
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t n_bytes = sizeof(address);
    struct io_listener *listener;
    struct io_stream *stream;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(
        oob->listen(linux_env_io(env), &any, 1, &task, &listener, &listens_at), 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(listens_at.port);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, n_bytes), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &n_bytes), 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
    close(fd);
    ck_assert_int_eq(oob->accept(listener, &task, &stream), 0);
    oob->endpoints(stream, NULL, &remote);
    ck_assert_mem_eq(remote.ip.bytes, at.ip.bytes, sizeof(at.ip.bytes));
    ck_assert_uint_eq(remote.port, ntohs(address.sin_port));
    oob->close(stream, true);
    oob->close_listener(listener);
}
END_TEST

/* Keep-alives would end an idle stream after 20 s. */
START_TEST(a_stream_endures_its_limit)
{
    const struct io_oob_ops *oob = linux_env_io(env)->oob;
    unsigned limit_ms = 0;
    socklen_t n_bytes = sizeof(limit_ms);
    struct io_stream *stream;
    int fd = dup(deaf); /* the number that the stream's socket will get */

    close(fd);
    ck_assert_int_eq(oob->connect(linux_env_io(env), NULL, &at, &task, &stream), 0);
    oob->endure(stream, 70 * INT64_C(1000000000));
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, &n_bytes),
                     0);
    ck_assert_uint_eq(limit_ms, 70000);
    oob->close(stream, true);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linux streams");
    TCase *tcase = tcase_create("all");

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, an_attempt_without_a_peer_failed_whatever_so_error_says);
    tcase_add_test(tcase, a_client_that_has_reset_is_known);
    tcase_add_test(tcase, a_stream_endures_its_limit);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
