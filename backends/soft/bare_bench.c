/* Measures the sockets under backend soft. `stream` sends 64 MiB between two processes in
 * datagrams of 15 segments (UDP_SEGMENT, UDP_GRO) of 4096 bytes, each with a CRC32 that the
 * receiver checks before copying it, and an echo for each datagram. `ping` sends 8 bytes there
 * and back. Prints nanoseconds: of the whole stream, or of one direction. For ci/bench-soft. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "sim/icrc.h"

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { HEAD = 12, PAYLOAD = 4096, SEGMENT = HEAD + PAYLOAD + 4, SEGMENTS = 15 };
enum { N_DATAGRAMS = (64 << 20) / (PAYLOAD * SEGMENTS), UNDER_WAY = 4, PINGS = 5000 };

static int open_socket(struct sockaddr_in *name)
{
    const int n_bytes = 8 << 20;
    socklen_t n_name = sizeof *name;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *name = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    weft_check(fd >= 0 && bind(fd, (struct sockaddr *)(void *)name, n_name) == 0);
    weft_check(getsockname(fd, (struct sockaddr *)(void *)name, &n_name) == 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &n_bytes, sizeof n_bytes);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &n_bytes, sizeof n_bytes) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &n_bytes, sizeof n_bytes);
    }
    return fd;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void echo(int fd, const struct sockaddr_in *peer)
{
    ssize_t n = sendto(fd, "8 bytes.", 8, 0, (const struct sockaddr *)(const void *)peer,
                       sizeof *peer);
    weft_check(n == 8);
}

/* ---- stream ---- */

static void receive_stream(int fd, const struct sockaddr_in *peer)
{
    static uint8_t bytes[65536], memory[PAYLOAD];
    const int on = 1;
    (void)setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on);
    for (size_t left = (size_t)N_DATAGRAMS * SEGMENTS; left > 0;) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        weft_check(n > 0 && n % SEGMENT == 0);
        for (ssize_t at = 0; at < n; at += SEGMENT) {
            uint32_t crc;
            memcpy(&crc, bytes + at + HEAD + PAYLOAD, sizeof crc);
            weft_check(crc == sim_crc32(0, bytes + at, HEAD + PAYLOAD));
            memcpy(memory, bytes + at + HEAD, PAYLOAD);
            left--;
        }
        echo(fd, peer);
    }
}

static void send_datagram(int fd, const struct sockaddr_in *to, const uint8_t *from,
                          uint32_t *psn)
{
    static uint8_t bytes[SEGMENTS][SEGMENT];
    union {
        struct cmsghdr header;
        uint8_t bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control = {.header = {.cmsg_level = SOL_UDP,
                            .cmsg_type = UDP_SEGMENT,
                            .cmsg_len = CMSG_LEN(sizeof(uint16_t))}};
    const uint16_t size = SEGMENT;
    struct iovec iov = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {.msg_name = (void *)(uintptr_t)to,
                             .msg_namelen = sizeof *to,
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.header), &size, sizeof size);
    for (int i = 0; i < SEGMENTS; i++) {
        memcpy(bytes[i], psn, sizeof *psn);
        memcpy(bytes[i] + HEAD, from, PAYLOAD);
        uint32_t crc = sim_crc32(0, bytes[i], HEAD + PAYLOAD);
        memcpy(bytes[i] + HEAD + PAYLOAD, &crc, sizeof crc);
        ++*psn;
    }
    ssize_t n = sendmsg(fd, &message, 0);
    weft_check(n == (ssize_t)sizeof bytes);
}

static void send_stream(int fd, const struct sockaddr_in *to)
{
    uint8_t from[PAYLOAD], answer[64];
    uint32_t psn = 0;
    int under_way = 0;
    memset(from, 0x5a, sizeof from);
    for (int i = 0; i < N_DATAGRAMS || under_way > 0;) {
        if (i < N_DATAGRAMS && under_way < UNDER_WAY) {
            send_datagram(fd, to, from, &psn);
            under_way++;
            i++;
        } else {
            ssize_t n = recv(fd, answer, sizeof answer, 0);
            weft_check(n == 8);
            under_way--;
        }
    }
}

/* ---- ping ---- */

static void answer_pings(int fd, const struct sockaddr_in *peer)
{
    uint8_t bytes[64];
    for (int i = 0; i < PINGS; i++) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        weft_check(n == 8);
        echo(fd, peer);
    }
}

static void send_pings(int fd, const struct sockaddr_in *to)
{
    uint8_t bytes[64];
    for (int i = 0; i < PINGS; i++) {
        echo(fd, to);
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        weft_check(n == 8);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in names[2];
    int fds[2];
    bool is_ping = argc == 2 && strcmp(argv[1], "ping") == 0;
    if (!is_ping && (argc != 2 || strcmp(argv[1], "stream") != 0)) {
        fprintf(stderr, "usage: bare_bench stream|ping\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        fds[i] = open_socket(&names[i]);
    }
    pid_t child = fork();
    weft_check(child >= 0);
    if (child == 0) {
        (is_ping ? answer_pings : receive_stream)(fds[1], &names[0]);
        _exit(0);
    }
    int64_t start = now();
    (is_ping ? send_pings : send_stream)(fds[0], &names[1]);
    int64_t took = now() - start;
    waitpid(child, NULL, 0);
    printf("%lld\n", (long long)(is_ping ? took / PINGS / 2 : took));
    return 0;
}
