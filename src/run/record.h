/* Encodes the result of a finished rank as JSON: everything that evaluation, diagnosis,
 * expectations and the document read from a struct host. A rank in a process of its own writes a
 * record. The collecting process decodes it into a struct host without devices, so that the same
 * code judges both. */
#ifndef WEFT_RUN_RECORD_H
#define WEFT_RUN_RECORD_H

#include <jansson.h>

#include "base/error.h"
#include "diag/diag.h"
#include "host/host.h"

/* 6: ports and the error have the format of observations. */
#define RUN_RECORD_SCHEMA 6

/* Returns a new reference. Times are those of the host's clock. */
json_t *run_record_encode(const struct host *host);

/* Decodes a record into a host as if it had run in this process. `config` is copied; the rows in it
 * must outlive the host. `name` is the host's name in the scenario. `origin_ns` is subtracted from
 * all times. Never returns NULL: without a record (NULL), or if the record is malformed (`error` is
 * filled), the host is in HOST_DEAD. The caller frees it with run_record_free(). */
struct host *run_record_decode(const json_t *record, const char *name,
                               const struct host_config *config, weft_ns origin_ns,
                               struct weft_error *error);
/* Returns the facts that a host in another process recorded about itself; NULL if the host ran in
 * this process or left no record. */
const struct diag_host *run_record_facts(const struct host *host);
/* Moves the facts that a host in another process recorded about itself (run/facts.h) to `out`.
 * Returns false if the host ran in this process. */
bool run_record_take_facts(const struct host *host, struct diag_host *out);
/* Ignores NULL. */
void run_record_free(struct host *host);

#endif
