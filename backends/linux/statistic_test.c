/* Answers of RDMA netlink, whole and cut. */
#include "backends/linux/statistic.h"

#include <check.h>
#include <linux/gen_stats.h>
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "io/hostinfo.h"

static struct linux_statistics answer;

static void put(const void *bytes, size_t n)
{
    memcpy(answer.bytes + answer.n, bytes, n);
    answer.n += NLMSG_ALIGN(n);
}

/* Begins an attribute; returns where. */
static size_t begin(uint16_t type)
{
    struct nlattr head = {.nla_type = type};
    size_t at = answer.n;

    put(&head, sizeof(head));
    return at;
}

static void end(size_t at, size_t n_padding)
{
    uint16_t n = (uint16_t)(answer.n - at - n_padding);

    memcpy(answer.bytes + at, &n, sizeof(n));
}

static void put_text(uint16_t type, const char *text)
{
    size_t at = begin(type), n = strlen(text) + 1;

    put(text, n);
    end(at, NLMSG_ALIGN(n) - n);
}

static void put_u64(uint16_t type, uint64_t value)
{
    size_t at = begin(type);

    put(&value, sizeof(value));
    end(at, 0);
}

static void put_counter(const char *name, uint64_t value)
{
    size_t at = begin(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY | NLA_F_NESTED);

    put_text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
    put_u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
    end(at, 0);
}

/* Writes the answer for a device of these counters: nested attributes behind the device's name, as
 * nldev.c writes them. */
static void setup(void)
{
    struct nlmsghdr header = {.nlmsg_type = LINUX_STATISTICS_TYPE};
    size_t table;

    memset(&answer, 0, sizeof(answer));
    put(&header, sizeof(header));
    put_text(RDMA_NLDEV_ATTR_DEV_NAME, "rxe_ab");
    table = begin(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS | NLA_F_NESTED);
    put_counter("sent_pkts", 7);
    put_counter("rcvd_pkts", 1234567890123);
    put_counter("send_err", UINT64_MAX);
    end(table, 0);
    header.nlmsg_len = (uint32_t)answer.n;
    memcpy(answer.bytes, &header, sizeof(header));
}

START_TEST(counters_are_found_by_name)
{
    ck_assert_int_eq(linux_statistic_in(&answer, "sent_pkts"), 7);
    ck_assert_int_eq(linux_statistic_in(&answer, "rcvd_pkts"), 1234567890123);
    ck_assert_int_eq(linux_statistic_in(&answer, "sent"), IO_UNKNOWN);
    ck_assert_int_eq(linux_statistic_in(&answer, "sent_pkts_too"), IO_UNKNOWN);
    ck_assert_int_eq(linux_statistic_in(&answer, ""), IO_UNKNOWN);
    /* not a number of the type that all counters have here */
    ck_assert_int_eq(linux_statistic_in(&answer, "send_err"), IO_UNKNOWN);
}
END_TEST

/* The bytes behind the cut are garbage, so that reading them finds other lengths. Whether the
 * header has the length of the whole message or of its rest, the table is not whole. */
START_TEST(a_cut_answer_has_no_counters)
{
    size_t n_whole = answer.n;

    for (uint32_t n = 0; n < n_whole; n++) {
        for (int is_told = 0; is_told < 2; is_told++) {
            setup();
            answer.n = n;
            if (is_told && n >= NLMSG_HDRLEN) {
                memcpy(answer.bytes, &n, sizeof(n));
            }
            memset(answer.bytes + n, 0xff, sizeof(answer.bytes) - n);
            ck_assert_int_eq(linux_statistic_in(&answer, "sent_pkts"), IO_UNKNOWN);
        }
    }
}
END_TEST

START_TEST(another_message_has_no_counters)
{
    uint16_t other = NLMSG_ERROR;

    memcpy(answer.bytes + offsetof(struct nlmsghdr, nlmsg_type), &other, sizeof(other));
    ck_assert_int_eq(linux_statistic_in(&answer, "sent_pkts"), IO_UNKNOWN);
    answer.n = 0;
    ck_assert_int_eq(linux_statistic_in(&answer, "sent_pkts"), IO_UNKNOWN);
}
END_TEST

/* ---- qdiscs ---- */

/* Makes the answer one qdisc of netdev 7 that dropped 25 frames. */
static void set_qdisc(uint32_t parent)
{
    struct nlmsghdr header = {.nlmsg_type = RTM_NEWQDISC};
    struct tcmsg head = {.tcm_ifindex = 7, .tcm_parent = parent};
    struct gnet_stats_queue queue = {.qlen = 3, .drops = 25};
    size_t stats, at;

    answer.n = 0;
    put(&header, sizeof(header));
    put(&head, sizeof(head));
    put_text(TCA_KIND, "netem");
    stats = begin(TCA_STATS2 | NLA_F_NESTED);
    put_u64(TCA_STATS_BASIC, 5);
    at = begin(TCA_STATS_QUEUE);
    put(&queue, sizeof(queue));
    end(at, 0);
    end(stats, 0);
    header.nlmsg_len = (uint32_t)answer.n;
    memcpy(answer.bytes, &header, sizeof(header));
}

START_TEST(drops_are_those_of_the_root_qdisc_of_the_netdev)
{
    set_qdisc(TC_H_ROOT);
    ck_assert_int_eq(linux_qdisc_drops_in(answer.bytes, answer.n, 7), 25);
    ck_assert_int_eq(linux_qdisc_drops_in(answer.bytes, answer.n, 8), IO_UNKNOWN);
    for (size_t n = 0; n < answer.n; n++) {
        ck_assert_int_eq(linux_qdisc_drops_in(answer.bytes, n, 7), IO_UNKNOWN);
    }
    set_qdisc(TC_H_INGRESS);
    ck_assert_int_eq(linux_qdisc_drops_in(answer.bytes, answer.n, 7), IO_UNKNOWN);
    ck_assert_int_eq(linux_qdisc_drops("lo"), 0); /* has none */
    ck_assert_int_eq(linux_qdisc_drops("no-such"), IO_UNKNOWN);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("linux, statistic");
    TCase *tcase = tcase_create("statistic");

    suite_add_tcase(suite, tcase);
    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, counters_are_found_by_name);
    tcase_add_test(tcase, a_cut_answer_has_no_counters);
    tcase_add_test(tcase, another_message_has_no_counters);
    tcase_add_test(tcase, drops_are_those_of_the_root_qdisc_of_the_netdev);
    return suite_run(suite);
}
