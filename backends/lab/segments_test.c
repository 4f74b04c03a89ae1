/* Divides frames that the kernel has yet to segment. */
#include "backends/lab/segments.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

enum { ETHERNET = 14, UDP = 8 };

/* The sum over IP pseudo header and datagram, or over an IPv4 header, is right if it is 0xffff. */
static uint32_t sum_of(const uint8_t *bytes, size_t n, uint32_t sum)
{
    for (size_t i = 0; i < n; i++) {
        sum += i % 2 == 0 ? (uint32_t)bytes[i] << 8 : bytes[i];
    }
    while (sum >> 16 != 0) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return sum;
}

/* An IPv4 or IPv6 frame with `n` bytes of payload, whose checksums are those of no frame. */
static size_t whole(uint8_t *out, bool is_ipv4, size_t n)
{
    static const uint8_t ipv4[] = {0x45, 4, 9,   9,   0, 7, 0x40, 0,   64, 17,
                                   9,    9, 192, 168, 1, 1, 192,  168, 1,  2};
    static const uint8_t ipv6[40] = {
        0x60, 0x40, 0,    0,        9,           9,    17,
        64,   0xfe, 0x80, [23] = 1, [24] = 0xfe, 0x80, [39] = 2};
    static const uint8_t udp[UDP] = {0xc0, 0x01, 0x12, 0xb7, 9, 9, 9, 9};
    const uint8_t *ip = is_ipv4 ? ipv4 : ipv6;
    size_t n_ip = is_ipv4 ? sizeof(ipv4) : sizeof(ipv6);

    memset(out, 0x22, ETHERNET);
    out[12] = is_ipv4 ? 0x08 : 0x86;
    out[13] = is_ipv4 ? 0x00 : 0xdd;
    memcpy(out + ETHERNET, ip, n_ip);
    memcpy(out + ETHERNET + n_ip, udp, UDP);
    for (size_t i = 0; i < n; i++) {
        out[ETHERNET + n_ip + UDP + i] = (uint8_t)i;
    }
    return ETHERNET + n_ip + UDP + n;
}

/* A frame of `n` bytes of payload from the `at`-th on, whose headers are right. */
static void check_frame(const uint8_t *frame, size_t n_frame, bool is_ipv4, size_t at,
                        size_t n)
{
    const uint8_t *ip = frame + ETHERNET;
    const uint8_t *udp = ip + (is_ipv4 ? 20 : 40);
    size_t n_udp = UDP + n;
    size_t length = (size_t)(is_ipv4 ? ip[2] << 8 | ip[3] : ip[4] << 8 | ip[5]);
    const uint8_t *addresses = is_ipv4 ? ip + 12 : ip + 8;

    ck_assert_uint_eq(n_frame, (size_t)(udp - frame) + n_udp);
    ck_assert_uint_eq(length, is_ipv4 ? 20 + n_udp : n_udp);
    ck_assert_uint_eq((size_t)(udp[4] << 8 | udp[5]), n_udp);
    ck_assert_uint_ne(udp[6] << 8 | udp[7], 0);
    if (is_ipv4) {
        ck_assert_uint_eq(sum_of(ip, 20, 0), 0xffff);
        ck_assert_uint_eq(ip[4] << 8 | ip[5], 7);
    }
    ck_assert_uint_eq(
        sum_of(udp, n_udp, sum_of(addresses, is_ipv4 ? 8 : 32, 17 + (uint32_t)n_udp)),
        0xffff);
    for (size_t i = 0; i < n; i++) {
        ck_assert_uint_eq(udp[UDP + i], (uint8_t)(at + i));
    }
}

static const struct {
    bool is_ipv4;
    size_t n, segment;
    size_t n_frames;
} cases[] = {
    {true, 1000, 300, 4}, {true, 900, 300, 3},      {true, 300, 300, 1},
    {true, 200, 300, 1},  {true, 303, 101, 3},      {false, 1000, 300, 4},
    {false, 7, 1, 7},     {false, 65000, 1024, 64},
};

START_TEST(each_frame_has_headers_of_its_own)
{
    static uint8_t frame[1 << 17], out[1 << 17];
    struct lab_segments segments;
    size_t n_frame = whole(frame, cases[_i].is_ipv4, cases[_i].n);
    size_t at = 0, n_frames = 0, n_out;

    ck_assert(lab_segments_init(&segments, frame, n_frame, cases[_i].segment));
    while ((n_out = lab_segments_next(&segments, out)) != 0) {
        size_t left = cases[_i].n - at;
        size_t n = left < cases[_i].segment ? left : cases[_i].segment;

        check_frame(out, n_out, cases[_i].is_ipv4, at, n);
        at += n;
        n_frames++;
    }
    ck_assert_uint_eq(at, cases[_i].n);
    ck_assert_uint_eq(n_frames, cases[_i].n_frames);
}
END_TEST

/* A frame that is cut, of no known kind, or of no segments stays as it is. */
START_TEST(what_is_no_udp_datagram_is_not_divided)
{
    uint8_t frame[256];
    struct lab_segments segments;
    size_t n = whole(frame, true, 100);

    ck_assert(!lab_segments_init(&segments, frame, n, 0));
    for (size_t cut = 0; cut < ETHERNET + 20 + UDP; cut++) {
        ck_assert(!lab_segments_init(&segments, frame, cut, 10));
    }
    frame[ETHERNET + 9] = 6; /* TCP */
    ck_assert(!lab_segments_init(&segments, frame, n, 10));
    (void)whole(frame, true, 100);
    frame[ETHERNET] = 0x44; /* a header of 16 bytes */
    ck_assert(!lab_segments_init(&segments, frame, n, 10));
    (void)whole(frame, true, 100);
    frame[12] = 0x81; /* a VLAN */
    ck_assert(!lab_segments_init(&segments, frame, n, 10));
    n = whole(frame, false, 100);
    ck_assert(!lab_segments_init(&segments, frame, ETHERNET + 40 + UDP - 1, 10));
    frame[ETHERNET + 6] = 58; /* ICMPv6 */
    ck_assert(!lab_segments_init(&segments, frame, n, 10));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("segments");
    TCase *tcase = tcase_create("segments");

    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, each_frame_has_headers_of_its_own, 0,
                        (int)WEFT_LENGTH(cases));
    tcase_add_test(tcase, what_is_no_udp_datagram_is_not_divided);
    return suite_run(suite);
}
