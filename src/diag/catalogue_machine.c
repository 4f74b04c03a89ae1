/* Catalogue entry about the network interfaces of a machine that NCCL's bootstrap can use. */
#include "diag/catalogue_entries.h"

#include "base/check.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_HOST_NO_INTERFACE,
        .code = "host.no_interface",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "NCCL_SOCKET_IFNAME leaves NCCL no interface: what it names does not "
                 "exist, is down or has no address",
        .remedy =
            "name an interface of this machine that is up and has an address; where "
            "machines name theirs differently, by a list (`=enP7s7,eno1`) or by what "
            "to leave out (`^docker,lo`)",
        .reference =
            "NCCL's environment variables: NCCL_SOCKET_IFNAME, NCCL_SOCKET_FAMILY",
        .decide = "ip -brief address; env | grep NCCL_SOCKET_",
        .explanation =
            "NCCL's bootstrap listens on the first interface that NCCL_SOCKET_IFNAME "
            "leaves "
            "it, and if there is none it does not look for another: it ends with "
            "`Bootstrap "
            ": no socket interface found`, on this machine only, while the others wait "
            "for "
            "it. Interfaces differ between machines that look alike: another slot, "
            "another "
            "release of the system, a container without the host's network. "
            "The evidence has what is "
            "named and cannot be used, and why, and what could be used.\n\n"
            "The names, between commas, are beginnings of names; behind a leading = they "
            "are "
            "whole names, and behind a leading ^ those to leave out. Interfaces count "
            "that "
            "are up, have carrier, and have an address of NCCL_SOCKET_FAMILY (AF_INET or "
            "AF_INET6; otherwise either).",
    },
};

const struct diag_entries diag_entries_machine = {entries, WEFT_LENGTH(entries)};
