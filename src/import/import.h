/* Makes scenarios of the network configuration that hosts have: netplan's files (netplan(5)).
 * Cables are inferred from the networks; what cannot be inferred is asked for, never guessed. Pure:
 * no file is opened here. */
#ifndef WEFT_IMPORT_IMPORT_H
#define WEFT_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"

/* One netplan file of a host. Nothing is owned. */
struct import_file {
    const char *host; /* whose it is; NULL: by its path, see import_host_of */
    const char *path; /* for messages, and for the order of a host's files */
    const char *bytes;
    size_t n_bytes;
};

/* What the user adds to the files. Nothing is owned. */
struct import_answers {
    const char *const *cables; /* "HOST:PORT,HOST:PORT"; [n_cables] */
    size_t n_cables;
    const char *const *switches; /* networks, each of one switch; [n_switches] */
    size_t n_switches;
    const char *const *without; /* "HOST:PORT" or "PORT", not of the mesh; [n_without] */
    size_t n_without;
    const char *hosts_path; /* as hosts(5): management addresses; or NULL */
    const char *hosts;      /* [n_hosts] */
    size_t n_hosts;
};

/* Writes to `out` the name of the host that the file at `path` is of: the folder of a file that is
 * called as those of /etc/netplan (`50-cloud-init.yaml`), without the folders etc, run, usr, lib
 * and netplan; otherwise the file's own name without its extension. False if there is none. */
bool import_host_of(const char *path, char *out, size_t out_bytes);

/* Appends to `out` the scenario that `files` [n_files] describe, as YAML that the loader accepts.
 * False, with `out` unchanged and a line for everything that is wrong or must be asked in `wrong`,
 * if there is such a thing. Files of one host are merged as netplan merges them: by file name,
 * later values win, lists grow; of files with one name /run hides /etc, and that /lib. */
bool import_netplan(const struct import_file *files, size_t n_files,
                    const struct import_answers *answers, struct weft_text *out,
                    struct weft_text *wrong);

#endif
