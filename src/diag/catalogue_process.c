/* Catalogue entries about one process: its file descriptors, the messages and handles that it
 * receives, and the memory that it passes to the plugin. */
#include "base/check.h"
#include "diag/catalogue_entries.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_HOST_FD_LIMIT,
        .code = "host.fd_limit",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause = "the process, or its machine, has no file descriptor left (errno 24 or "
                 "23)",
        .remedy = "raise the limit where the process is started (`ulimit -n`, "
                  "LimitNOFILE= of its unit, the container's --ulimit nofile), or find "
                  "out what keeps descriptors open",
        .reference = "getrlimit(2): RLIMIT_NOFILE; accept(2), socket(2): EMFILE, ENFILE",
        .decide = "grep 'open files' /proc/PID/limits; ls /proc/PID/fd | wc -l; cat "
                  "/proc/sys/fs/file-nr",
        .explanation =
            "Every control stream of a connection, every listener and every RDMA "
            "device is a descriptor, and the application's files and sockets count "
            "against the same limit: 1024 in many shells, which a data loader alone "
            "may use up.\n\n"
            "A connector retries for a while, because a descriptor may be closed "
            "meanwhile. Clients of a listener wait in the kernel's queue until one is "
            "free. Connections that are up need no further descriptor.",
    },
    {
        .id = DIAG_CONN_MALFORMED,
        .code = "conn.malformed",
        .severity = DIAG_ERROR,
        .cause =
            "a message from the peer, or the handle that was given, does not conform "
            "to the protocol",
        .remedy =
            "find the program that connects: a port scan and a health check are "
            "harmless; keep other programs off the port by a firewall, and give the "
            "job a secret (NCCL_MESH_SECRET)",
        .reference = "docs/wire.md",
        .decide = "the address in the log; ss -tnp, on that host",
        .explanation =
            "Bytes that are no message of this protocol, a message where another one "
            "is due, a field out of its range, or a handle that is none. The first "
            "such byte ends the stream on which it arrived. A listener continues, and "
            "so do all its connections. A listener that is scanned logs it at most "
            "once a second.\n\n"
            "If a connection fails because of it, another program answers at the "
            "address in the handle: a port that was given to another program since, or "
            "a proxy in between. Other versions of this protocol are reported as "
            "`conn.version`, other secrets as `conn.auth_failed`.",
    },
    {
        .id = DIAG_PLUGIN_NOT_REGISTERED,
        .code = "plugin.not_registered",
        .severity = DIAG_ERROR,
        .cause =
            "a message was to be sent from, or received into, memory that is not within "
            "what was registered for its connection",
        .remedy =
            "report it to the authors of the program that calls the plugin, with the "
            "line of the log: NCCL itself registers what it sends",
        .reference = "NCCL's net interface: regMr, isend, irecv",
        .decide = "weft plugin-check libnccl-net-mesh.so, against the same call made by "
                  "another caller",
        .explanation =
            "Each buffer comes with the handle of regMr, and has to lie in that "
            "memory, registered for that very connection. What does not is refused "
            "with ncclInvalidArgument before anything happens, so that neither a "
            "device ends the connection nor a peer writes where it must not. The "
            "connection stays usable. A device would have reported a completion with "
            "status 4 (IBV_WC_LOC_PROT_ERR), or 10 (IBV_WC_REM_ACCESS_ERR) at the "
            "other end.",
    },
};

const struct diag_entries diag_entries_process = {entries, WEFT_LENGTH(entries)};
