/* Reads the rules of the reliable connection from tables that were typed from the
 * manuals: sim/rules/<name>.csv. Only tests use them, and no code is generated from them.
 * The last column of each table names the source of the row. */
#ifndef WEFT_SIM_RULES_TESTING_H
#define WEFT_SIM_RULES_TESTING_H

#include <infiniband/verbs.h>

enum { RULES_COLUMNS_MAX = 12, RULES_NO_COMPLETION = -1 };

struct rules {
    char *text; /* Owned; split into cells */
    unsigned n_columns, n_rows;
    const char *header[RULES_COLUMNS_MAX];
    const char *(*cells)[RULES_COLUMNS_MAX]; /* Owned array of [n_rows] */
};

/* Reads sim/rules/<name>.csv. Lines that begin with '#' are comments; the first other
 * line names the columns. Aborts if a row has too few or too many cells, or an empty
 * one. */
void rules_read(struct rules *rules, const char *name);
void rules_fini(struct rules *rules);
/* Returns the number of rows, for loop tests, which are registered before they run. */
int rules_count(const char *name);
const char *rules_cell(const struct rules *rules, unsigned row, const char *column);

/* Words of the tables. Each function fails the test on an unknown word. "-" is 0 for
 * masks and numbers, and RULES_NO_COMPLETION for statuses. */
int rules_mask(const char *cell); /* "AV|PATH_MTU": IBV_QP_* */
enum ibv_qp_state rules_state(const char *cell);
int rules_errno(const char *cell);  /* "EINVAL"; "0" */
int rules_status(const char *cell); /* "LOC_LEN_ERR" */
unsigned rules_number(const char *cell);

#endif
