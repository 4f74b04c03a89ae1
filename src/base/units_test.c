#include "base/units.h"

#include <check.h>
#include <inttypes.h>

#include "base/rng.h"
#include "base/suite_testing.h"

#define N(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const struct {
    const char *text;
    uint64_t rate_bps;
} rates[] = {{"100Gbps", UINT64_C(100000000000)},
             {"0bps", 0},
             {"1bps", 1},
             {"1.5Kbps", 1500},
             {"0.001Mbps", 1000},
             {"1.000Gbps", 1000000000},
             {"1.25Tbps", UINT64_C(1250000000000)},
             {"18446744073709551615bps", UINT64_MAX}};

START_TEST(rates_are_exact)
{
    uint64_t value = 7;

    ck_assert(weft_parse_rate_bps(rates[_i].text, &value));
    ck_assert_uint_eq(value, rates[_i].rate_bps);
}
END_TEST

static const char *const bad_rates[] = {"",
                                        "100",
                                        "Gbps",
                                        "100 Gbps",
                                        "100gbps",
                                        "100GbpS",
                                        "200GBps",
                                        "-1bps",
                                        "+1bps",
                                        "1.bps",
                                        ".5Gbps",
                                        "0.5bps",
                                        "1.0005Kbps",
                                        "1e3bps",
                                        "100Gbps ",
                                        " 1bps",
                                        "0x10bps",
                                        "1,5Gbps",
                                        "1.5.5Gbps",
                                        "18446744073709551616bps",
                                        "18446744073709551Tbps",
                                        "99999999999999999999999bps",
                                        "18446744073.709551616Gbps"};

START_TEST(bad_rates_leave_the_value_alone)
{
    uint64_t value = 7;

    ck_assert_msg(!weft_parse_rate_bps(bad_rates[_i], &value), "%s", bad_rates[_i]);
    ck_assert_uint_eq(value, 7);
}
END_TEST

static const struct {
    const char *text;
    uint64_t size_bytes;
} sizes[] = {{"8", 8},
             {"0", 0},
             {"8B", 8},
             {"1KiB", 1024},
             {"1.5KiB", 1536},
             {"0.0009765625KiB", 1},
             {"256MiB", 268435456},
             {"1GiB", 1073741824},
             {"1TiB", UINT64_C(1) << 40},
             {"1KB", 1000},
             {"9.6MB", 9600000},
             {"2GB", 2000000000},
             {"1TB", UINT64_C(1000000000000)},
             {"16777215.99999904632568359375TiB", UINT64_MAX - 1048575}};

START_TEST(sizes_in_both_families)
{
    uint64_t value = 7;

    ck_assert(weft_parse_size_bytes(sizes[_i].text, &value));
    ck_assert_uint_eq(value, sizes[_i].size_bytes);
}
END_TEST

START_TEST(bad_sizes)
{
    static const char *const bad[] = {"1.5",   "-1",          "1kB",  "1K",
                                      "1KiBs", "0.1KiB",      "1 MB", "",
                                      "B",     "16777216TiB", "1.0"};
    uint64_t value = 7;

    for (int i = 0; i < N(bad); i++) {
        ck_assert_msg(!weft_parse_size_bytes(bad[i], &value), "%s", bad[i]);
    }
    ck_assert_uint_eq(value, 7);
}
END_TEST

START_TEST(times)
{
    static const struct {
        const char *text;
        weft_ns time_ns;
    } good[] = {{"0s", 0},
                {"1.5us", 1500},
                {"2ms", 2000000},
                {"0.000000001s", 1},
                {"9223372036854775806ns", INT64_MAX - 1}};
    static const char *const bad[] = {
        "0",          "1", "0.5ns", "-1s", "1m", "1h", "1 s", "9223372036854775807ns",
        "9223372037s"};
    weft_ns value = 7;

    for (int i = 0; i < N(good); i++) {
        ck_assert_msg(weft_parse_time_ns(good[i].text, &value), "%s", good[i].text);
        ck_assert_int_eq(value, good[i].time_ns);
    }
    value = 7;
    for (int i = 0; i < N(bad); i++) {
        ck_assert_msg(!weft_parse_time_ns(bad[i], &value), "%s", bad[i]);
    }
    ck_assert_int_eq(value, 7);
}
END_TEST

START_TEST(shares)
{
    static const struct {
        const char *text;
        uint32_t share_ppb;
    } good[] = {{"0.1%", 1000000},  {"100%", 1000000000}, {"0%", 0},
                {"0.0", 0},         {"1.0", 1000000000},  {"0.05", 50000000},
                {"0.000000001", 1}, {"0.0000001%", 1}};
    static const char *const bad[] = {"1",      "0",           "1.1",   "101%",
                                      "100.1%", "-0.1",        "0.1 %", "0.0000000001",
                                      "%",      "0.00000001%", "5e-1"};
    uint32_t value = 7;

    for (int i = 0; i < N(good); i++) {
        ck_assert_msg(weft_parse_share_ppb(good[i].text, &value), "%s", good[i].text);
        ck_assert_uint_eq(value, good[i].share_ppb);
    }
    value = 7;
    for (int i = 0; i < N(bad); i++) {
        ck_assert_msg(!weft_parse_share_ppb(bad[i], &value), "%s", bad[i]);
    }
    ck_assert_uint_eq(value, 7);
}
END_TEST

START_TEST(bandwidths)
{
    uint64_t value = 7;

    ck_assert(!weft_parse_bandwidth("10", &value));
    ck_assert(!weft_parse_bandwidth("10Gbps", &value));
    ck_assert(!weft_parse_bandwidth("10GB", &value));
    ck_assert(!weft_parse_bandwidth("10  GBps", &value));
    ck_assert_uint_eq(value, 7);
    ck_assert(weft_parse_bandwidth("10GBps", &value));
    ck_assert_uint_eq(value, UINT64_C(10000000000));
    ck_assert(weft_parse_bandwidth("24.5 GBps", &value));
    ck_assert_uint_eq(value, UINT64_C(24500000000));
    ck_assert(weft_parse_bandwidth("3KBps", &value));
    ck_assert_uint_eq(value, 3000);
}
END_TEST

START_TEST(the_shortest_exact_text)
{
    char out[24];

    weft_format_rate(UINT64_C(100000000000), out, sizeof(out));
    ck_assert_str_eq(out, "100Gbps");
    weft_format_rate(0, out, sizeof(out));
    ck_assert_str_eq(out, "0bps");
    weft_format_rate(UINT64_C(12500000000), out, sizeof(out));
    ck_assert_str_eq(out, "12.5Gbps");
    weft_format_size(1048576, out, sizeof(out));
    ck_assert_str_eq(out, "1MiB");
    weft_format_size(1537, out, sizeof(out));
    ck_assert_str_eq(out, "1537B");
    weft_format_time(1500, out, sizeof(out));
    ck_assert_str_eq(out, "1.5us");
    weft_format_time(-2000000, out, sizeof(out));
    ck_assert_str_eq(out, "-2ms");
    weft_format_time(WEFT_NEVER, out, sizeof(out));
    ck_assert_str_eq(out, "never");
    weft_format_time(INT64_MIN, out, sizeof(out));
    ck_assert_str_eq(out, "-9223372036.854775808s");
}
END_TEST

START_TEST(what_is_formatted_parses_to_the_same)
{
    struct weft_rng rng;

    weft_rng_init(&rng, 1, "units");
    for (int i = 0; i < 4000; i++) {
        uint64_t value = weft_rng_next(&rng) >> (i % 64), back = 0;
        weft_ns time = (weft_ns)(value >> 2), time_back = 0;
        char out[24];

        if (i % 5 == 0) {
            value = value / 1000 * 1000;
        }
        weft_format_size(value, out, sizeof(out));
        ck_assert_msg(weft_parse_size_bytes(out, &back), "%s", out);
        ck_assert_uint_eq(back, value);
        weft_format_rate(value, out, sizeof(out));
        ck_assert_msg(weft_parse_rate_bps(out, &back), "%s", out);
        ck_assert_uint_eq(back, value);
        weft_format_time(time, out, sizeof(out));
        ck_assert_msg(weft_parse_time_ns(out, &time_back), "%s", out);
        ck_assert_int_eq(time_back, time);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/units");
    TCase *tcase = tcase_create("units");

    tcase_add_loop_test(tcase, rates_are_exact, 0, N(rates));
    tcase_add_loop_test(tcase, bad_rates_leave_the_value_alone, 0, N(bad_rates));
    tcase_add_loop_test(tcase, sizes_in_both_families, 0, N(sizes));
    tcase_add_test(tcase, bad_sizes);
    tcase_add_test(tcase, times);
    tcase_add_test(tcase, shares);
    tcase_add_test(tcase, bandwidths);
    tcase_add_test(tcase, the_shortest_exact_text);
    tcase_add_test(tcase, what_is_formatted_parses_to_the_same);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
