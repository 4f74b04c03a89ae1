/* What is left of a rank once it is over, as JSON: everything that evaluation, diagnosis,
 * expectations and the document read of a struct host. A rank in a process of its own
 * writes its record; whoever gathers reads it back into a struct host without machines,
 * so that the same code judges both. */
#ifndef WEFT_RUN_RECORD_H
#define WEFT_RUN_RECORD_H

#include <jansson.h>

#include "base/error.h"
#include "diag/diag.h"
#include "host/host.h"

#define RUN_RECORD_SCHEMA 3

/* A new reference. Times are as the host's clock tells them. */
json_t *run_record_encode(const struct host *host);

/* A host as if it had run here. `config` (copied) tells rank, ranks and rows, which must
 * outlive it; `name` is what the scenario calls it; `origin_ns` is subtracted from all
 * times. Never NULL: without a record (NULL) or with one that is malformed, which fills
 * `error`, it is HOST_DEAD. The caller frees it with run_record_free. */
struct host *run_record_decode(const json_t *record, const char *name,
                               const struct host_config *config, weft_ns origin_ns,
                               struct weft_error *error);
/* Of a host that ran elsewhere: moves what it knew of itself (run/facts.h) to `out`. False of
 * one that ran here. */
bool run_record_take_facts(const struct host *host, struct diag_host *out);
/* NULL is ignored. */
void run_record_free(struct host *host);

#endif
