/* The rules of the reliable connection as tables that somebody typed from the manuals:
 * sim/rules/<name>.csv, read when a test runs. Nothing in sim/ is made from them or reads
 * them but tests; the last column of each names the source of its row. */
#ifndef WEFT_SIM_RULES_TESTING_H
#define WEFT_SIM_RULES_TESTING_H

#include <infiniband/verbs.h>

enum { RULES_COLUMNS_MAX = 12, RULES_NO_COMPLETION = -1 };

struct rules {
    char *text; /* Owned; cut into cells */
    unsigned n_columns, n_rows;
    const char *header[RULES_COLUMNS_MAX];
    const char *(*cells)[RULES_COLUMNS_MAX]; /* Owned array of [n_rows] */
};

/* Reads sim/rules/<name>.csv. Lines of '#' are comments, the first other one names the
 * columns. Aborts if a row has too few or many cells, or an empty one. */
void rules_read(struct rules *rules, const char *name);
void rules_fini(struct rules *rules);
/* How many rows the file has, for loop tests that are registered before they run. */
int rules_count(const char *name);
const char *rules_cell(const struct rules *rules, unsigned row, const char *column);

/* Words of the tables; each fails the test if it does not know one. "-" is 0 for masks and
 * numbers, RULES_NO_COMPLETION for statuses. */
int rules_mask(const char *cell); /* "AV|PATH_MTU": IBV_QP_* */
enum ibv_qp_state rules_state(const char *cell);
int rules_errno(const char *cell);  /* "EINVAL"; "0" */
int rules_status(const char *cell); /* "LOC_LEN_ERR" */
unsigned rules_number(const char *cell);

#endif
