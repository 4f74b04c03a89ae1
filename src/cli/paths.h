/* Shared by the files of `weft paths`. */
#ifndef WEFT_CLI_PATHS_H
#define WEFT_CLI_PATHS_H

#include "base/text.h"
#include "cli/cli.h"
#include "nccl/paths.h"
#include "nccl/stub.h"

enum { PATHS_PAIRS_MAX = 1024 };

/* The topology document whose paths are computed. */
struct paths_document {
    struct weft_text text; /* Owned */
    const char *name;      /* for messages: the file, or "this machine" */
    bool is_machine;       /* describes a machine, which may have no GPU */
};

/* Reads the file of the command line, or describes the machine that it selects. Returns CLI_OK, or
 * another exit status after a message. The caller frees out->text in either case. */
int paths_document_read(const struct cli_options *options, struct paths_document *out);
/* Writes a clause that describes how a stub was completed. */
void paths_stub_text(const struct topo_stub *stub, char *out, size_t out_bytes);
/* Implements weft paths --xml. Returns an exit status. */
int paths_document_print(const struct paths_document *document);

/* One document with one set of settings. */
struct paths_session {
    const struct cli_options *options;
    const struct topo_rules *rules;
    const struct paths_document *document; /* Not owned */
    struct topo_system *system;            /* Owned */
    struct topo_settings settings;
    struct topo_comm comm;
    struct topo_peer *peers; /* Owned */
    struct topo_machine machine;
    int pairs[PATHS_PAIRS_MAX][2];
    struct topo_view view;
};

/* Loads the document. Settings are those of the environment, except that `name` has `value` (NULL,
 * NULL: no exception). Returns CLI_OK, or another exit status after a message. The caller calls
 * paths_close() in either case. */
int paths_open(struct paths_session *session, const struct cli_options *options,
               const struct paths_document *document, const char *name,
               const char *value);
void paths_close(struct paths_session *session);
/* Computes the paths and, if there is a communicator, trims the system and computes them again.
 * Calls `first`, if not NULL, with `context` before the trim. */
weft_status paths_compute(struct paths_session *session, void (*first)(void *context),
                          void *context, struct weft_error *error);

/* Returns the node called "GPU/0-99000", "GPU0" (by number) or "0" (by number, of `type`); NULL if
 * there is none. */
struct topo_node *paths_find(const struct topo_system *system, const char *name,
                             enum topo_type type);

/* Implements weft paths --explain FROM TO, which prints why a path is as it is and which settings
 * would change it. Returns an exit status. */
int paths_explain(const struct cli_options *options,
                  const struct paths_document *document, const char *from,
                  const char *to);
/* Implements weft paths --json. Returns an exit status. */
int paths_json(struct paths_session *session);

#endif
