/* What users have in hand when an RDMA job fails (an errno, the status of a completion, a line of a
 * log), and for each its causes, the most frequent first. `weft explain` prints it. */
#ifndef WEFT_DIAG_SYMPTOMS_H
#define WEFT_DIAG_SYMPTOMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/catalogue.h"

enum diag_symptom_kind {
    DIAG_SYMPTOM_ERRNO,     /* of Linux */
    DIAG_SYMPTOM_WC_STATUS, /* enum ibv_wc_status */
    DIAG_SYMPTOM_MESSAGE    /* a phrase of a log */
};

/* A cause without a finding has `what` instead of a code. */
struct diag_cause {
    enum diag_code code; /* DIAG_N_CODES: Weft has no finding of it */
    const char *what;    /* NULL if there is a code, whose entry says it */
    const char *ask; /* if the answer is yes it is this one, else go on; NULL: the last */
};

#define DIAG_CAUSES_MAX 12

struct diag_symptom {
    enum diag_symptom_kind kind;
    int number;          /* 0 of a message */
    const char *name;    /* "ETIMEDOUT", "RETRY_EXC_ERR", "unhandled system error" */
    const char *meaning; /* one sentence: what happened */
    struct diag_cause causes[DIAG_CAUSES_MAX];
};

/* By position; NULL past the last. */
const struct diag_symptom *diag_symptom_at(size_t index);
/* Number of its causes: the last one has no question. */
size_t diag_symptom_causes(const struct diag_symptom *symptom);
/* Finds what the text of a user names: "110", "errno 110", "ETIMEDOUT", "Connection timed out",
 * "status 12", "IBV_WC_RETRY_EXC_ERR", or a line of a log that has one of these. Fills out[] and
 * returns how many (a bare number can be an errno and a status); at most n_max. */
size_t diag_symptoms_find(const char *text, const struct diag_symptom **out,
                          size_t n_max);

#endif
