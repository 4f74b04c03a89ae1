/* Prints the evidence of a finding: values of one end, values on which both ends agree, and side by
 * side those on which they differ. */
#ifndef WEFT_REPORT_EVIDENCE_H
#define WEFT_REPORT_EVIDENCE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"

/* Returns true if the job survived the condition that the finding reports. */
bool report_is_survived(const json_t *finding);
/* Appends the evidence lines of a finding in a run's document (docs/io.md), none if it has no
 * evidence. Values that are unknown at both ends are printed for undetermined findings only. */
void report_evidence(const json_t *finding, struct weft_text *out);
/* Appends, for an undetermined finding, one line per candidate cause with the command that would
 * decide it, followed by the question that the command answers. */
void report_candidates(const json_t *finding, struct weft_text *out);

#endif
