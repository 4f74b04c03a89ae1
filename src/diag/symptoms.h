/* Table of the symptoms of a failed RDMA job that users see (an errno, the status of a completion,
 * a line of a log). Each has its causes, the most frequent first. `weft explain` prints them. */
#ifndef WEFT_DIAG_SYMPTOMS_H
#define WEFT_DIAG_SYMPTOMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "diag/catalogue.h"

enum diag_symptom_kind {
    DIAG_SYMPTOM_ERRNO,     /* number of a Linux errno */
    DIAG_SYMPTOM_WC_STATUS, /* enum ibv_wc_status */
    DIAG_SYMPTOM_MESSAGE    /* phrase in a log */
};

/* One cause of a symptom. A cause that is not a finding of Weft has `what` instead of a code. */
struct diag_cause {
    enum diag_code code; /* DIAG_N_CODES if Weft has no finding for it */
    const char *what;    /* NULL if there is a code, whose entry describes it */
    /* A question that is answered with yes if this is the cause; NULL for the last cause. */
    const char *ask;
};

#define DIAG_CAUSES_MAX 12

struct diag_symptom {
    enum diag_symptom_kind kind;
    int number;          /* errno or status; 0 for a message */
    const char *name;    /* "ETIMEDOUT", "RETRY_EXC_ERR", "unhandled system error" */
    const char *meaning; /* one sentence without a capital letter or full stop */
    struct diag_cause causes[DIAG_CAUSES_MAX];
};

/* Returns a symptom by its position in the table, or NULL past the last. */
const struct diag_symptom *diag_symptom_at(size_t index);
/* Returns the number of causes. The last one has no question. */
size_t diag_symptom_causes(const struct diag_symptom *symptom);
/* Finds the symptoms named in a user's text: "110", "errno 110", "ETIMEDOUT", "Connection timed
 * out", "failed with 110", "status 12", "IBV_WC_RETRY_EXC_ERR", or a line of a log that contains
 * one of these. Writes up to n_max symptoms to out[] and returns their number. A bare number can be
 * an errno and a status; a negative one is an errno, as the kernel has it. */
size_t diag_symptoms_find(const char *text, const struct diag_symptom **out,
                          size_t n_max);

#endif
