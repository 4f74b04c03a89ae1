/* What a finding rests on, as people read it: what one end said, what both ends said alike, and
 * side by side what they did not. */
#ifndef WEFT_REPORT_EVIDENCE_H
#define WEFT_REPORT_EVIDENCE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"

/* A job lived through what the finding tells. */
bool report_is_survived(const json_t *finding);
/* Appends the lines for a finding of a run's document (docs/io.md); none if nothing is known of
 * it. What is unknown is told of findings that could not be decided, and only of them. */
void report_evidence(const json_t *finding, struct weft_text *out);
/* Appends what an undetermined finding may be: each candidate with the command that decides, and
 * below it the question that the command answers. */
void report_candidates(const json_t *finding, struct weft_text *out);

#endif
