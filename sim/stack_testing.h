/* A fixture for tests of the host stack: hosts with stacks and ports, without NICs. */
#ifndef WEFT_SIM_STACK_TESTING_H
#define WEFT_SIM_STACK_TESTING_H

#include "base/text.h"
#include "base/trace.h"
#include "sim/stack.h"
#include "sim/tcp.h"

#define NET_HOSTS_MAX 4
#define NET_PORTS_MAX 4

struct net_host {
    struct sim_stack *stack;
    struct sim_port *ports[NET_PORTS_MAX];
    uint32_t n_ports;
};

struct net {
    struct sim_engine *engine;
    struct weft_trace trace;
    struct weft_text story;
    struct net_host hosts[NET_HOSTS_MAX];
    uint32_t n_hosts;
    bool has_one_mac; /* all ports of a host have the MAC of its first port; for bonds */
};

void net_init(struct net *net);
void net_fini(struct net *net);
/* Adds a host called "h0", "h1" ... `config` NULL: defaults (all sysctls 0). */
uint32_t net_add_host(struct net *net, const struct sim_stack_config *config);
/* Connects a new port of each host by a cable (100 Gbit/s, 1 us, MTU 1500), with an
 * address each ("10.0.0.1/24"; NULL if none). Ports are called "p0", "p1" ... */
void net_cable(struct net *net, uint32_t a, const char *address_a, uint32_t b,
               const char *address_b);
/* Adds a port without a cable to `host`. */
struct sim_port *net_port(struct net *net, uint32_t host);

struct sim_ip net_ip(const char *text); /* "10.0.0.1", "fe80::1" */
struct sim_prefix net_prefix(const char *text);
struct sim_endpoint net_endpoint(const char *ip, uint16_t port);
union ibv_gid net_gid(const char *ip);
/* Runs all events before `until_ns`, and moves the clock there. */
void net_run(struct net *net, weft_ns until_ns);

/* Returns a waker that counts its calls. */
struct sim_waker net_count(int *counter);

#endif
