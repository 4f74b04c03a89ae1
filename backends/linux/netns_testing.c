#define _GNU_SOURCE
#include "backends/linux/netns_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <netlink/addr.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/veth.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"

static int own_namespace(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

void netns_testing_in(int fd, void (*function)(void *context), void *context)
{
    int home = own_namespace();
    weft_check(home >= 0);
    int result = setns(fd, CLONE_NEWNET);
    weft_check(result == 0);
    function(context);
    result = setns(home, CLONE_NEWNET);
    weft_check(result == 0);
    close(home);
}

/* ---- netlink ---- */

static struct nl_sock *open_route(void)
{
    struct nl_sock *sock = nl_socket_alloc();
    weft_check(sock != NULL);
    int result = nl_connect(sock, NETLINK_ROUTE);
    weft_check(result == 0);
    return sock;
}

static struct rtnl_link *find_link(struct nl_sock *sock, const char *name)
{
    struct rtnl_link *link = NULL;
    int result = rtnl_link_get_kernel(sock, 0, name, &link);
    weft_check(result == 0 && link != NULL);
    return link;
}

struct setting {
    const char *netdev;
    const char *text;
    bool up;
    int result;
};

static void set_up(void *context)
{
    const struct setting *setting = context;
    struct nl_sock *sock = open_route();
    struct rtnl_link *link = find_link(sock, setting->netdev);
    struct rtnl_link *change = rtnl_link_alloc();
    if (setting->up) {
        rtnl_link_set_flags(change, IFF_UP);
    } else {
        rtnl_link_unset_flags(change, IFF_UP);
    }
    int result = rtnl_link_change(sock, link, change, 0);
    weft_check(result == 0);
    rtnl_link_put(change);
    rtnl_link_put(link);
    nl_socket_free(sock);
}

void netns_testing_up(int fd, const char *netdev, bool up)
{
    struct setting setting = {.netdev = netdev, .up = up};
    netns_testing_in(fd, set_up, &setting);
}

static void add_bridge(void *context)
{
    const struct setting *setting = context;
    struct nl_sock *sock = open_route();
    struct rtnl_link *made = rtnl_link_bridge_alloc();
    struct rtnl_link *bridge, *port;
    int result;

    rtnl_link_set_name(made, setting->text);
    result = rtnl_link_add(sock, made, NLM_F_CREATE | NLM_F_EXCL);
    weft_check(result == 0);
    bridge = find_link(sock, setting->text);
    port = find_link(sock, setting->netdev);
    result = rtnl_link_enslave(sock, bridge, port);
    weft_check(result == 0);
    rtnl_link_put(made);
    rtnl_link_put(bridge);
    rtnl_link_put(port);
    nl_socket_free(sock);
}

void netns_testing_bridge(int fd, const char *bridge, const char *port)
{
    struct setting setting = {.netdev = port, .text = bridge};
    netns_testing_in(fd, add_bridge, &setting);
}

static void add_address(void *context)
{
    const struct setting *setting = context;
    struct nl_sock *sock = open_route();
    struct rtnl_link *link = find_link(sock, setting->netdev);
    struct rtnl_addr *address = rtnl_addr_alloc();
    struct nl_addr *local;
    int result = nl_addr_parse(setting->text, AF_UNSPEC, &local);
    weft_check(result == 0);
    rtnl_addr_set_ifindex(address, rtnl_link_get_ifindex(link));
    result = rtnl_addr_set_local(address, local);
    weft_check(result == 0);
    if (nl_addr_get_family(local) == AF_INET6) {
        rtnl_addr_set_flags(address, IFA_F_NODAD);
    }
    result = rtnl_addr_add(sock, address, 0);
    weft_check(result == 0);
    nl_addr_put(local);
    rtnl_addr_put(address);
    rtnl_link_put(link);
    nl_socket_free(sock);
}

void netns_testing_address(int fd, const char *netdev, const char *address)
{
    struct setting setting = {.netdev = netdev, .text = address};
    netns_testing_in(fd, add_address, &setting);
}

static void write_sysctl(void *context)
{
    const struct setting *setting = context;
    char path[160];
    weft_format(path, sizeof path, "/proc/sys/%s", setting->netdev);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    weft_check(fd >= 0);
    size_t n = strlen(setting->text);
    weft_check(write(fd, setting->text, n) == (ssize_t)n);
    close(fd);
}

void netns_testing_sysctl(int fd, const char *name, const char *value)
{
    struct setting setting = {.netdev = name, .text = value};
    netns_testing_in(fd, write_sysctl, &setting);
}

struct pair {
    const char *name_a, *name_b;
    int fd_b;
    uint32_t mtu_bytes;
    int result;
};

static void add_veth(void *context)
{
    struct pair *pair = context;
    struct nl_sock *sock = open_route();
    struct rtnl_link *a = rtnl_link_veth_alloc();
    weft_check(a != NULL);
    struct rtnl_link *b = rtnl_link_veth_get_peer(a);
    rtnl_link_set_name(a, pair->name_a);
    rtnl_link_set_mtu(a, pair->mtu_bytes);
    rtnl_link_set_name(b, pair->name_b);
    rtnl_link_set_mtu(b, pair->mtu_bytes);
    rtnl_link_set_ns_fd(b, pair->fd_b);
    pair->result = rtnl_link_add(sock, a, NLM_F_CREATE | NLM_F_EXCL);
    rtnl_link_put(b);
    rtnl_link_veth_release(a);
    nl_socket_free(sock);
}

static void without_ipv6(int fd, const char *netdev)
{
    char name[96];
    weft_format(name, sizeof name, "net/ipv6/conf/%s/addr_gen_mode", netdev);
    netns_testing_sysctl(fd, name, "1"); /* no automatic link-local address */
}

void netns_testing_veth(int fd_a, const char *name_a, int fd_b, const char *name_b,
                        uint32_t mtu_bytes)
{
    struct pair pair = {
        .name_a = name_a, .name_b = name_b, .fd_b = fd_b, .mtu_bytes = mtu_bytes};
    netns_testing_in(fd_a, add_veth, &pair);
    weft_check(pair.result == 0);
    without_ipv6(fd_a, name_a);
    without_ipv6(fd_b, name_b);
    netns_testing_up(fd_a, name_a, true);
    netns_testing_up(fd_b, name_b, true);
}

/* While an RDMA device is being removed (with an earlier namespace), the kernel cannot add it to
 * a new namespace, and unshare(2) fails with ENODEV (rdma_dev_init_net). Seen on 7.2;
 * temporary. */
static int unshare_patiently(void)
{
    int result = -1;
    for (int i = 0; i < 5000; i++) {
        result = unshare(CLONE_NEWNET);
        if (result == 0 || errno != ENODEV) {
            break;
        }
        (void)poll(NULL, 0, 2);
    }
    return result;
}

int netns_testing_create(void)
{
    int home = own_namespace();
    int result = home < 0 ? -1 : unshare_patiently();
    weft_check(result == 0);
    int fd = own_namespace();
    weft_check(fd >= 0);
    result = setns(home, CLONE_NEWNET);
    weft_check(result == 0);
    close(home);
    netns_testing_up(fd, "lo", true);
    return fd;
}

bool netns_testing_available(const char **out_why)
{
    *out_why = "no network namespaces";
    if (geteuid() != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        *out_why = "neither root nor user namespaces";
        return false;
    }
    int home = own_namespace();
    if (home < 0 || unshare_patiently() != 0) {
        if (home >= 0) {
            close(home);
        }
        return false;
    }
    int fd = own_namespace();
    int result = setns(home, CLONE_NEWNET);
    weft_check(result == 0 && fd >= 0);
    struct pair pair = {
        .name_a = "probe0", .name_b = "probe1", .fd_b = fd, .mtu_bytes = 1500};
    netns_testing_in(fd, add_veth, &pair);
    *out_why = "no veth pairs in this kernel";
    close(fd);
    close(home);
    return pair.result == 0;
}
