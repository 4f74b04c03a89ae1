/* What the files of diag/ share: a failure between two hosts, laid out for the rules. */
#ifndef WEFT_DIAG_PRIVATE_H
#define WEFT_DIAG_PRIVATE_H

#include "diag/diag.h"

/* What one host knows of the ports of one, itself or another. */
struct diag_ports {
    const struct diag_port *items; /* NULL: nothing is known */
    uint32_t n;
};

/* One failure, with what both ends say about it. Pointers into the input. */
struct diag_case {
    const struct diag_input *input;
    const struct diag_host *host; /* who failed */
    const struct diag_error *failure;
    const struct diag_host *peer; /* NULL: not in the input, or nobody */
    const char *peer_name;        /* "" if nobody */
    struct diag_ports local, remote;
    const struct diag_port *local_port;  /* the one used; NULL: not known */
    const struct diag_port *remote_port; /* the one aimed at; NULL: not known */
    bool has_local_gid, has_remote_gid;
    struct io_ip local_gid, remote_gid;
    const char *local_type, *remote_type; /* "RoCE v2"; NULL: not known */
    int64_t path_mtu;                     /* or IO_UNKNOWN */
};

/* ---- evidence.c ---- */

void diag_case_init(struct diag_case *c, const struct diag_input *input,
                    const struct diag_host *host, const struct diag_error *failure);
const struct diag_host *diag_find_host(const struct diag_input *input, const char *name);
/* A value of the failure, or NULL / IO_UNKNOWN. */
const char *diag_text(const struct diag_case *c, const char *name);
int64_t diag_number(const struct diag_case *c, const char *name);

/* Is `ip` inside a subnet of `port`, by the prefixes of its addresses? Link-local addresses
 * are in everybody's subnet and decide nothing. */
enum diag_known diag_faces(const struct diag_port *port, const struct io_ip *ip);
/* Does any other port than `but` (may be NULL) face `ip`? */
enum diag_known diag_any_faces(struct diag_ports ports, const struct diag_port *but,
                               const struct io_ip *ip);
/* Do the two ports have addresses that face each other, both ways? */
enum diag_known diag_facing(const struct diag_port *a, const struct diag_port *b);
/* Does any pair of ports of both hosts? */
enum diag_known diag_any_facing(struct diag_ports local, struct diag_ports remote);
/* The port went down, by its state or an event; `host` may be NULL. */
enum diag_known diag_was_down(const struct diag_host *host, const struct diag_port *port);
/* The peer's process is gone, by what the others saw. */
enum diag_known diag_peer_died(const struct diag_case *c);

/* Starts a finding about `c`, with the evidence of both ends. */
void diag_describe(const struct diag_case *c, struct diag_finding *out);
void diag_evidence_text(struct diag_finding *out, const char *name, const char *text);
void diag_evidence_int(struct diag_finding *out, const char *name, int64_t number);

/* ---- rules.c ---- */

/* What `c` was caused by: a code, or `undetermined` with its candidates. */
void diag_judge(const struct diag_case *c, struct diag_finding *out);

#endif
