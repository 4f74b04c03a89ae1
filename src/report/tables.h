/* Prints a run's document (docs/io.md): connections, nccl-tests' table, findings, expectations,
 * verdict. Uses the document alone, so that a saved document prints the same again. */
#ifndef WEFT_REPORT_TABLES_H
#define WEFT_REPORT_TABLES_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"
#include "report/style.h"

/* Appends the connections: ports, GIDs, type, path MTU, QPs, relays, set-up time, and ranks if a
 * host has several. Unless `all`, shows only the first 24 if there are more than 40. */
void report_connections(const json_t *document, bool all,
                        const struct report_style *style, struct weft_text *out);
/* Appends how each program of a job ended, and its output (unless `all`, the last lines only). */
void report_programs(const json_t *job, bool all, const struct report_style *style,
                     struct weft_text *out);
/* Appends nccl-tests' columns and each row's share of the physical limit, or the programs of a
 * job. */
void report_jobs(const json_t *document, bool all, const struct report_style *style,
                 struct weft_text *out);
/* Appends the traffic of each cable; unless `all`, only of cables that dropped frames. */
void report_links(const json_t *document, bool all, struct weft_text *out);
/* Appends the findings: what happened, where, why, and the commands to use next. */
void report_findings(const json_t *document, const struct report_style *style,
                     struct weft_text *out);
/* Appends the first finding as report_findings() does, and each finding of another cause in one
 * line. Appends nothing if there are none. */
void report_first_finding(const json_t *document, const struct report_style *style,
                          struct weft_text *out);
/* Appends each expectation with the actual result, then the verdict in one line. */
void report_verdict(const json_t *document, const struct report_style *style,
                    struct weft_text *out);
/* Appends the output of `-q` for a run that did not end as expected: findings, unmet expectations
 * and the verdict. */
void report_failures(const json_t *document, const struct report_style *style,
                     struct weft_text *out);
/* Appends all of the above in order. Unless `all`, omits what worked (connections, cables, sizes
 * without a measurement) if a finding explains why the run failed, so that the report fits on one
 * screen. */
void report_run(const json_t *document, bool all, const struct report_style *style,
                struct weft_text *out);

#endif
