/* Findings about what a host is set to, which does not fit it or the others. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_HOST_HCA_LIST,
        .code = "host.hca_list",
        .example = "scenarios/net/list-of-another-host.yaml",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "NCCL_IB_HCA leaves this host no port with carrier, although it has one",
        .remedy =
            "name the ports of this host that have a cable (`ibv_devinfo`, `rdma link`): "
            "the setting is of each host by itself; or leave it unset",
        .reference = "NCCL's environment variables: NCCL_IB_HCA",
        .decide = "env | grep NCCL_IB_HCA; rdma link",
        .explanation =
            "Hosts of one kind name their ports alike, and a list that is right for one "
            "is handed to all. Where the cable of another is in its other cage, NCCL "
            "opens ports there that have no carrier, and leaves out those that do: it "
            "finds no device (`NET/IB : No device found`) and goes over sockets, or has "
            "no port that faces the peer.\n\n"
            "Names are beginnings of names, but behind a leading = whole ones, and "
            "behind a leading ^ those to leave out; `mlx5_0:1` is one port of a card.",
    },
    {
        .id = DIAG_CONN_NO_ROUTE,
        .code = "conn.no_route",
        .example = "scenarios/net/rendezvous-out-of-reach.yaml",
        .severity = DIAG_ERROR,
        .cause = "this host has no route to the address by which the peer is known",
        .remedy =
            "let the peer be known by an address of a network that all hosts are on "
            "(the management network), or add the route (`ip route get ADDRESS`)",
        .reference = "connect(2), ENETUNREACH",
        .decide = "ip route get ADDRESS",
        .explanation =
            "The kernel refused to connect at once (errno 101): no entry of the routing "
            "table, not even a default route, leads to the address. On a mesh of cables "
            "each has a network of its own. An address on one of them is right for the "
            "neighbour and unknown to hosts farther off, so that a rendezvous there "
            "works for some ranks, and the first one reports the others as late.\n\n"
            "It is tried again until the patience is over, because addresses may come "
            "late. Where the host does get a route in time there is no finding.",
    },
};

const struct diag_entries diag_entries_settings = {entries, WEFT_LENGTH(entries)};
