/* What the files of `weft paths` share. */
#ifndef WEFT_CLI_PATHS_H
#define WEFT_CLI_PATHS_H

#include "base/text.h"
#include "cli/cli.h"
#include "topo/paths.h"
#include "topo/stub.h"

enum { PATHS_PAIRS_MAX = 1024 };

/* What paths are asked of. */
struct paths_document {
    struct weft_text text; /* Owned */
    const char *name;      /* for messages: a file, or "this machine" */
    bool is_machine;       /* may be one without GPUs */
};

/* Reads the file of the command line, or describes the machine that it means. CLI_OK, or another
 * exit status after a message. weft_text_fini of the text in any case. */
int paths_document_read(const struct cli_options *options, struct paths_document *out);
/* What is said of a stub that was completed: a clause. */
void paths_stub_text(const struct topo_stub *stub, char *out, size_t out_bytes);
/* weft paths --xml. */
int paths_document_print(const struct paths_document *document);

/* One document under one set of settings. */
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

/* Loads the document, with settings of the environment but for `name`, which has `value` (NULL,
 * NULL: none). CLI_OK, or another exit status after a message. paths_close in any case. */
int paths_open(struct paths_session *session, const struct cli_options *options,
               const struct paths_document *document, const char *name,
               const char *value);
void paths_close(struct paths_session *session);
/* Paths, trimmed and computed again if there is a communicator; `first`, if not NULL, is called
 * with `context` before the trim. */
weft_status paths_compute(struct paths_session *session, void (*first)(void *context),
                          void *context, struct weft_error *error);

/* The node called "GPU/0-99000", "GPU0" (by number) or "0" (of `type`, by number); NULL. */
struct topo_node *paths_find(const struct topo_system *system, const char *name,
                             enum topo_type type);

/* weft paths --explain FROM TO: why this path, and what would change it. */
int paths_explain(const struct cli_options *options,
                  const struct paths_document *document, const char *from,
                  const char *to);
/* weft paths --json. */
int paths_json(struct paths_session *session);

#endif
