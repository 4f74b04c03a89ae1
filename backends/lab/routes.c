#include "backends/lab/routes.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stddef.h>
#include <sys/socket.h>

#include "backends/lab/netlink.h"
#include "base/check.h"

/* Marks the rules of Weft in a namespace (rtnetlink(7): "values above RTPROT_STATIC are not
 * interpreted by the kernel"). */
#define PROTOCOL 119
/* Tables are numbered by the netdev's index, above the numbers that administrators use. */
#define FIRST_TABLE 1000000U

enum {
    PREFERENCE_NETDEV = 10,
    PREFERENCE_NETDEV_ELSE = 11,
    PREFERENCE_FROM = 12,
    PREFERENCE_FROM_ELSE = 13,
    PREFERENCE_TO = 14,
    PREFERENCE_LOCAL = 100,
};

/* The match and the action of a rule; zero members do not match anything. */
struct rule {
    uint8_t family;
    uint32_t preference;
    const char *going_out_by;
    const struct io_ip *from, *to; /* of packets that this machine sends */
    uint32_t table;                /* 0: unreachable */
};

static const uint8_t families[] = {AF_INET, AF_INET6};

static uint8_t family_of(const struct io_ip *ip)
{
    return io_ip_is_v4(ip) ? AF_INET : AF_INET6;
}

static void put_ip(struct netlink_request *request, uint16_t attribute,
                   const struct io_ip *ip)
{
    bool is_v4 = io_ip_is_v4(ip);

    netlink_put(request, attribute, ip->bytes + (is_v4 ? 12 : 0), is_v4 ? 4 : 16);
}

static void put_u8(struct netlink_request *request, uint16_t attribute, uint8_t value)
{
    netlink_put(request, attribute, &value, 1);
}

static uint8_t bits_of(const struct io_ip *ip)
{
    return ip == NULL ? 0 : io_ip_is_v4(ip) ? 32 : 128;
}

static int change_rule(int fd, bool adds, const struct rule *rule)
{
    const struct fib_rule_hdr header = {.family = rule->family,
                                        .src_len = bits_of(rule->from),
                                        .dst_len = bits_of(rule->to),
                                        .action = rule->table != 0 ? FR_ACT_TO_TBL
                                                                   : FR_ACT_UNREACHABLE};
    struct netlink_request request;

    netlink_begin(&request, adds ? RTM_NEWRULE : RTM_DELRULE,
                  (uint16_t)(adds ? NLM_F_CREATE | NLM_F_EXCL : 0), &header,
                  sizeof(header));
    netlink_put_u32(&request, FRA_PRIORITY, rule->preference);
    put_u8(&request, FRA_PROTOCOL, PROTOCOL);
    if (rule->table != 0) {
        netlink_put_u32(&request, FRA_TABLE, rule->table);
    }
    if (rule->going_out_by != NULL) {
        netlink_put_text(&request, FRA_OIFNAME, rule->going_out_by);
    }
    if (rule->from != NULL || rule->to != NULL) {
        netlink_put_text(&request, FRA_IIFNAME, "lo"); /* not for received packets */
    }
    if (rule->from != NULL) {
        put_ip(&request, FRA_SRC, rule->from);
    }
    if (rule->to != NULL) {
        put_ip(&request, FRA_DST, rule->to);
    }
    return netlink_call(fd, &request);
}

/* Adds or removes the kernel's own rule of the local table, which has preference 0. */
static int change_first_rule(int fd, bool adds, uint8_t family)
{
    const struct fib_rule_hdr header = {.family = family, .action = FR_ACT_TO_TBL};
    struct netlink_request request;

    netlink_begin(&request, adds ? RTM_NEWRULE : RTM_DELRULE,
                  (uint16_t)(adds ? NLM_F_CREATE | NLM_F_EXCL : 0), &header,
                  sizeof(header));
    netlink_put_u32(&request, FRA_PRIORITY, 0);
    netlink_put_u32(&request, FRA_TABLE, RT_TABLE_LOCAL);
    if (adds) {
        put_u8(&request, FRA_PROTOCOL, RTPROT_KERNEL);
    }
    return netlink_call(fd, &request);
}

/* Returns true if rules of the family failed because the kernel has no IPv6. */
static bool is_absent(int error, uint8_t family)
{
    return family == AF_INET6 && (error == EAFNOSUPPORT || error == EOPNOTSUPP);
}

int lab_routes_begin(int fd)
{
    int error = 0;

    for (size_t i = 0; i < WEFT_LENGTH(families) && error == 0; i++) {
        const struct rule local = {.family = families[i],
                                   .preference = PREFERENCE_LOCAL,
                                   .table = RT_TABLE_LOCAL};

        error = change_rule(fd, true, &local);
        if (error == 0) {
            error = change_first_rule(fd, false, families[i]);
        }
        error = is_absent(error, families[i]) ? 0 : error;
    }
    return error;
}

static int delete_one(int fd, uint8_t family)
{
    const struct fib_rule_hdr header = {.family = family};
    struct netlink_request request;

    netlink_begin(&request, RTM_DELRULE, 0, &header, sizeof(header));
    put_u8(&request, FRA_PROTOCOL, PROTOCOL);
    return netlink_call(fd, &request);
}

void lab_routes_end(int fd)
{
    for (size_t i = 0; i < WEFT_LENGTH(families); i++) {
        int error = change_first_rule(fd, true, families[i]);

        while (error == 0 || error == EEXIST) {
            error = delete_one(fd, families[i]);
        }
    }
}

static uint32_t table_of(int fd, const char *netdev)
{
    uint32_t index = netlink_ifindex(fd, netdev);

    return index == 0 ? 0 : FIRST_TABLE + index;
}

int lab_routes_add_netdev(int fd, const char *netdev)
{
    uint32_t table = table_of(fd, netdev);
    int error = table == 0 ? ENODEV : 0;

    for (size_t i = 0; i < WEFT_LENGTH(families) && error == 0; i++) {
        const struct rule rules[] = {
            {families[i], PREFERENCE_NETDEV, netdev, NULL, NULL, table},
            {families[i], PREFERENCE_NETDEV_ELSE, netdev, NULL, NULL, 0},
        };

        for (size_t j = 0; j < WEFT_LENGTH(rules) && error == 0; j++) {
            error = change_rule(fd, true, &rules[j]);
            error = is_absent(error, families[i]) ? 0 : error;
        }
    }
    return error;
}

static int add_route(int fd, const char *netdev, uint8_t bits, const struct io_ip *subnet)
{
    uint32_t index = netlink_ifindex(fd, netdev);
    const struct rtmsg body = {.rtm_family = family_of(subnet),
                               .rtm_dst_len = bits,
                               .rtm_protocol = PROTOCOL,
                               .rtm_scope = RT_SCOPE_LINK,
                               .rtm_type = RTN_UNICAST};
    struct netlink_request request;
    int error;

    if (index == 0) {
        return ENODEV;
    }
    netlink_begin(&request, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &body, sizeof(body));
    put_ip(&request, RTA_DST, subnet);
    netlink_put_u32(&request, RTA_OIF, index);
    netlink_put_u32(&request, RTA_TABLE, FIRST_TABLE + index);
    error = netlink_call(fd, &request);
    return error == EEXIST ? 0 : error;
}

int lab_routes_add_subnet(int fd, const char *netdev, const struct io_prefix *address)
{
    static const struct io_ip link_local = {{0xfe, 0x80}};
    static const struct io_ip multicast = {{0xff}};
    struct io_ip subnet = address->ip;
    unsigned first = io_ip_is_v4(&subnet) ? 96 : 0;
    int error;

    for (unsigned bit = first + address->prefix_len; bit < 128; bit++) {
        subnet.bytes[bit / 8] &= (uint8_t) ~(0x80U >> bit % 8);
    }
    error = add_route(fd, netdev, address->prefix_len, &subnet);
    if (error == 0) {
        error = add_route(fd, netdev, 64, &link_local);
    }
    if (error == 0) {
        error = add_route(fd, netdev, 8, &multicast);
    }
    return is_absent(error, AF_INET6) ? 0 : error;
}

int lab_routes_change_address(int fd, bool adds, const char *netdev, const char *from,
                              const struct io_prefix *address)
{
    uint8_t family = family_of(&address->ip);
    uint32_t table = table_of(fd, netdev);
    const struct rule rules[] = {
        {family, PREFERENCE_FROM, NULL, &address->ip, NULL, table},
        {family, PREFERENCE_FROM_ELSE, NULL, &address->ip, NULL, 0},
        {family, PREFERENCE_TO, NULL, NULL, &address->ip,
         from != NULL ? table_of(fd, from) : 0},
    };
    size_t n = from != NULL ? 3 : 2;
    int error = table == 0 || (n == 3 && rules[2].table == 0) ? ENODEV : 0;

    for (size_t i = 0; i < n && error == 0; i++) {
        error = change_rule(fd, adds, &rules[i]);
    }
    return error;
}
