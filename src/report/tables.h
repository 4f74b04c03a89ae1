/* A run's document (docs/io.md) as people read it: connections, nccl-tests' table,
 * findings, expectations, verdict. Rendered from the document alone, so that a saved
 * document prints the same again. */
#ifndef WEFT_REPORT_TABLES_H
#define WEFT_REPORT_TABLES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"
#include "report/style.h"

/* Who is connected to whom: ports, GIDs, type, path MTU, QPs, who relays, set-up time; ranks
 * beside the hosts where ranks share one. Of more than 40 only 24 unless `all`. */
void report_connections(const json_t *document, bool all,
                        const struct report_style *style, struct weft_text *out);
/* How each program of a job ended, and what it wrote: its last lines unless `all`. */
void report_programs(const json_t *job, bool all, const struct report_style *style,
                     struct weft_text *out);
/* nccl-tests' columns, and each row's share of the physical limit; or programs. */
void report_jobs(const json_t *document, bool all, const struct report_style *style,
                 struct weft_text *out);
/* Every cable's traffic; only cables that dropped something unless `all`. */
void report_links(const json_t *document, bool all, struct weft_text *out);
/* What happened, where, why, and what to type next. */
void report_findings(const json_t *document, const struct report_style *style,
                     struct weft_text *out);
/* Each expectation with what was found; then the verdict in one line. */
void report_verdict(const json_t *document, const struct report_style *style,
                    struct weft_text *out);
/* What `-q` leaves of a run that did not end as expected: findings, expectations that were not
 * met, and the verdict. */
void report_failures(const json_t *document, const struct report_style *style,
                     struct weft_text *out);
/* All of the above in order. Where findings explain why the run ended, what did work is left out
 * (connections, cables, sizes of which nothing was measured) unless `all`: one screen says
 * what happened, where, why, and what to type next. */
void report_run(const json_t *document, bool all, const struct report_style *style,
                struct weft_text *out);

#endif
