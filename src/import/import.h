/* Creates scenarios from the network configuration of hosts: netplan's files (netplan(5)), or files
 * of addresses and names (hosts(5)). Cables are inferred from the networks. If that is ambiguous
 * the user is asked; nothing is guessed. Opens no files. */
#ifndef WEFT_IMPORT_IMPORT_H
#define WEFT_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* One file. Nothing is owned. */
struct import_file {
    /* Netplan only: host that the file belongs to; NULL to derive it from the path
     * (import_host_of). */
    const char *host;
    const char *path; /* for messages, and to order the files of a host */
    const char *bytes;
    size_t n_bytes;
};

/* The user's additions to the files. Nothing is owned. */
struct import_answers {
    const char *const *cables; /* "HOST:PORT,HOST:PORT"; [n_cables] */
    size_t n_cables;
    const char *const *switches; /* networks that each have one switch; [n_switches] */
    size_t n_switches;
    /* "HOST:PORT" or "PORT", which are not part of the mesh; [n_without] */
    const char *const *without;
    size_t n_without;
    /* Name of a file as hosts(5) with management addresses; or NULL. */
    const char *hosts_path;
    const char *hosts; /* [n_hosts] */
    size_t n_hosts;
    /* Length of the prefixes of networks in hosts files, for IPv4 and IPv6; 0 if not given. */
    unsigned prefix_len[2];
};

/* Writes to `out` the name of the host to which the file at `path` belongs. If the file is named as
 * those in /etc/netplan (`50-cloud-init.yaml`), that is the last folder of the path other than etc,
 * run, usr, lib and netplan; otherwise the file's name without its extension. Returns false if
 * there is none. */
bool import_host_of(const char *path, char *out, size_t out_bytes);

enum import_source { IMPORT_NETPLAN, IMPORT_HOSTS };

/* Appends to `out` the scenario that `files` [n_files] describe, as YAML that the loader accepts.
 * If something is invalid or must be asked, returns false, leaves `out` unchanged and appends a
 * line for each problem to `wrong`.
 *
 * Netplan files of one host are merged as netplan does it: in the order of file names, later values
 * replace earlier ones and lists are extended; of files with the same name, those in /run hide
 * those in /etc, and these those in /lib.
 *
 * Hosts files (hosts(5)) describe all hosts together. The host of a line is the name that other
 * lines have, too, else one of its own (docs/import.md). */
bool import_scenario(enum import_source source, const struct import_file *files,
                     size_t n_files, const struct import_answers *answers,
                     struct weft_text *out, struct weft_text *wrong);

#endif
