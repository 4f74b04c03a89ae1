/* Catalogue entries about routes that need IP forwarding by another host. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_ROUTE_FORWARD_OFF,
        .code = "route.forward_off",
        .example = "scenarios/net/transit-off.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause = "the two hosts have no cable to each other, only routes over a third, "
                 "which does not forward IP",
        .remedy = "sysctl -w net.ipv4.ip_forward=1 on the host that `over` names (and in "
                  "/etc/sysctl.d, for the next boot); or relay, as policy weft does",
        .reference = "Documentation/networking/ip-sysctl.rst, ip_forward; sparkring "
                     "PREREQUISITES",
        .decide = "sysctl net.ipv4.ip_forward, on the hosts between",
        .explanation =
            "In a partial mesh a program that connects every pair can be given routes "
            "over the hosts between: RoCE v2 is UDP, and a kernel that forwards IP "
            "forwards it. Modify to RTR asks for nothing but the gateway's MAC "
            "address, which answers whether it forwards or not. So both ends reach "
            "RTS, and then all packets are lost (status 12, vendor error 129), exactly "
            "as on a broken cable.",
    },
    {
        .id = DIAG_ROUTE_FORWARD_BLOCKED,
        .code = "route.forward_blocked",
        .example = "scenarios/field/s17-transit-blocked.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_PORTS,
        .cause =
            "the two hosts have no cable to each other, only routes over a third, which "
            "forwards IP, and whose firewall lets nothing through",
        .remedy =
            "accept what is forwarded between these ports (iptables -I FORWARD -i IF "
            "-o IF -j ACCEPT, both ways; with Docker in the chain DOCKER-USER), on "
            "the host that `over` names; or relay, as policy weft does",
        .reference = "docs.docker.com, packet filtering and firewalls: FORWARD is DROP; "
                     "sparkring PREREQUISITES, PR#95",
        .decide = "iptables -vL FORWARD; nft list ruleset, on the hosts between",
        .explanation =
            "As with `route.forward_off`, both ends reach RTS, because the gateway "
            "answers, and all packets that follow are lost. Here the host between does "
            "forward, by its setting. Starting Docker sets the policy of the chain "
            "FORWARD to DROP, and a job that worked for weeks fails once a container "
            "is started. No end sees the firewall of another host: it is the remaining "
            "cause when the setting is right, both hosts found their gateways, and no "
            "port was damaged or paused.",
    },
};

const struct diag_entries diag_entries_transit = {entries, WEFT_LENGTH(entries)};
