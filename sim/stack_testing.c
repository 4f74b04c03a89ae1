#include "sim/stack_testing.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/addr.h"

static const char *const host_names[NET_HOSTS_MAX] = {"h0", "h1", "h2", "h3"};
static const char *const port_names[NET_PORTS_MAX] = {"p0", "p1", "p2", "p3"};

static void add_line(void *context, const char *line, size_t n_bytes)
{
    weft_text_add_bytes(context, line, n_bytes);
}

void net_init(struct net *net)
{
    *net = (struct net){0};
    weft_trace_init(&net->trace, WEFT_TRACE_STORY, add_line, &net->story);
    net->engine = sim_engine_create(1, &net->trace);
}

void net_fini(struct net *net)
{
    for (uint32_t i = 0; i < net->n_hosts; i++) {
        for (uint32_t j = 0; j < net->hosts[i].n_ports; j++) {
            sim_port_destroy(net->hosts[i].ports[j]);
        }
    }
    for (uint32_t i = 0; i < net->n_hosts; i++) {
        sim_stack_destroy(net->hosts[i].stack);
    }
    sim_engine_destroy(net->engine);
    weft_text_fini(&net->story);
}

uint32_t net_add_host(struct net *net, const struct sim_stack_config *config)
{
    struct sim_stack_config own = {0};
    weft_check(net->n_hosts < NET_HOSTS_MAX);
    if (config != NULL) {
        own = *config;
    }
    own.host = host_names[net->n_hosts];
    net->hosts[net->n_hosts].stack = sim_stack_create(net->engine, &own);
    return net->n_hosts++;
}

struct sim_port *net_port(struct net *net, uint32_t host)
{
    struct net_host *at = &net->hosts[host];
    weft_check(at->n_ports < NET_PORTS_MAX);
    struct sim_port_config config = {.host = host_names[host],
                                     .name = port_names[at->n_ports],
                                     .mac = 0x020000000000 | (uint64_t)host << 8 |
                                            (net->has_one_mac ? 1 : at->n_ports + 1),
                                     .mtu_bytes = 1500};
    struct sim_port *port = sim_port_create(net->engine, &config);
    at->ports[at->n_ports++] = port;
    return port;
}

static void add_netdev(struct net *net, uint32_t host, struct sim_port *port,
                       const char *address)
{
    struct sim_stack *stack = net->hosts[host].stack;
    uint32_t ifindex = sim_stack_add_port(
        stack, port, &(struct sim_gid_config){.n_slots = 16, .has_roce_v1 = true});
    if (address != NULL) {
        struct sim_prefix prefix = net_prefix(address);
        ck_assert_int_eq(sim_stack_add_address(stack, ifindex, &prefix), 0);
    }
    sim_port_attach(port, NULL, stack);
}

void net_cable(struct net *net, uint32_t a, const char *address_a, uint32_t b,
               const char *address_b)
{
    struct sim_cable_config config = {
        .name = "cable", .rate_bps = 100000000000, .delay_ps = 1000000, .up = true};
    struct sim_port *port_a = net_port(net, a);
    struct sim_port *port_b = net_port(net, b);
    sim_cable_connect(net->engine, &config, port_a, port_b);
    add_netdev(net, a, port_a, address_a);
    add_netdev(net, b, port_b, address_b);
}

struct sim_ip net_ip(const char *text)
{
    struct io_ip ip;
    struct sim_ip out;
    ck_assert_msg(io_ip_parse(text, &ip), "no address: %s", text);
    memcpy(out.bytes, ip.bytes, sizeof out.bytes);
    return out;
}

struct sim_prefix net_prefix(const char *text)
{
    struct io_prefix prefix;
    ck_assert_msg(io_prefix_parse(text, &prefix), "no prefix: %s", text);
    struct sim_prefix out = {.prefix_len = prefix.prefix_len};
    memcpy(out.ip.bytes, prefix.ip.bytes, sizeof out.ip.bytes);
    return out;
}

struct sim_endpoint net_endpoint(const char *ip, uint16_t port)
{
    return (struct sim_endpoint){.ip = net_ip(ip), .port = port};
}

union ibv_gid net_gid(const char *ip)
{
    struct sim_ip address = net_ip(ip);
    return sim_gid_of_ip(&address);
}

void net_run(struct net *net, weft_ns until_ns)
{
    while (sim_step(net->engine, until_ns * 1000)) {
    }
}

static void count(void *context)
{
    (*(int *)context)++;
}

struct sim_waker net_count(int *counter)
{
    return (struct sim_waker){count, counter};
}
