#include "sim/rules_testing.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* Aborts with a message unless `is_so`. Used because files are counted before any test
 * runs, where Check's assertions are not allowed. */
static void require(bool is_so, const char *path, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "%s: %s\n", path, what);
        abort();
    }
}

static char *read_file(const char *path)
{
    struct weft_text text = {0};
    char chunk[4096];
    size_t n;
    FILE *file = fopen(path, "rb");
    require(file != NULL, path, "not there; tests run from the root of the repository");
    weft_text_add(&text, "%s", "");
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        weft_text_add_bytes(&text, chunk, n);
    }
    fclose(file);
    return text.bytes;
}

/* Cuts `line` at its commas. Returns the number of cells. */
static unsigned cut(char *line, const char **cells)
{
    unsigned n = 0;
    for (;;) {
        char *comma = strchr(line, ',');
        require(n < RULES_COLUMNS_MAX, line, "too many cells");
        cells[n++] = line;
        if (comma != NULL) {
            *comma = '\0';
        }
        require(line[0] != '\0', cells[0], "an empty cell");
        if (comma == NULL) {
            return n;
        }
        line = comma + 1;
    }
}

static void add_row(struct rules *rules, char *line)
{
    if (rules->n_columns == 0) {
        rules->n_columns = cut(line, rules->header);
        return;
    }
    rules->cells =
        weft_realloc(rules->cells, (rules->n_rows + 1) * sizeof(*rules->cells));
    unsigned n = cut(line, rules->cells[rules->n_rows]);
    require(n == rules->n_columns, line, "too few or too many cells");
    rules->n_rows++;
}

void rules_read(struct rules *rules, const char *name)
{
    char path[128];
    memset(rules, 0, sizeof(*rules));
    weft_format(path, sizeof(path), "sim/rules/%s.csv", name);
    rules->text = read_file(path);
    char *line = rules->text;
    while (*line != '\0') {
        char *end = strchr(line, '\n');
        require(end != NULL, path, "the last line does not end");
        *end = '\0';
        if (line[0] != '#') {
            add_row(rules, line);
        }
        line = end + 1;
    }
    require(rules->n_rows > 0, path, "no rows");
    require(strcmp(rules->header[rules->n_columns - 1], "source") == 0, path,
            "the last column is not the source");
}

void rules_fini(struct rules *rules)
{
    free(rules->text);
    free(rules->cells);
}

int rules_count(const char *name)
{
    struct rules rules;
    rules_read(&rules, name);
    int n = (int)rules.n_rows;
    rules_fini(&rules);
    return n;
}

const char *rules_cell(const struct rules *rules, unsigned row, const char *column)
{
    ck_assert_uint_lt(row, rules->n_rows);
    for (unsigned i = 0; i < rules->n_columns; i++) {
        if (strcmp(rules->header[i], column) == 0) {
            return rules->cells[row][i];
        }
    }
    ck_abort_msg("no column %s", column);
    return "";
}

struct word {
    const char *name;
    int value;
};

static int find(const struct word *words, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(words[i].name, name) == 0) {
            return words[i].value;
        }
    }
    ck_abort_msg("what is \"%s\"?", name);
    return 0;
}

int rules_mask(const char *cell)
{
    static const struct word words[] = {
        {"STATE", IBV_QP_STATE},
        {"CUR_STATE", IBV_QP_CUR_STATE},
        {"EN_SQD_ASYNC_NOTIFY", IBV_QP_EN_SQD_ASYNC_NOTIFY},
        {"ACCESS_FLAGS", IBV_QP_ACCESS_FLAGS},
        {"PKEY_INDEX", IBV_QP_PKEY_INDEX},
        {"PORT", IBV_QP_PORT},
        {"QKEY", IBV_QP_QKEY},
        {"AV", IBV_QP_AV},
        {"PATH_MTU", IBV_QP_PATH_MTU},
        {"TIMEOUT", IBV_QP_TIMEOUT},
        {"RETRY_CNT", IBV_QP_RETRY_CNT},
        {"RNR_RETRY", IBV_QP_RNR_RETRY},
        {"RQ_PSN", IBV_QP_RQ_PSN},
        {"MAX_QP_RD_ATOMIC", IBV_QP_MAX_QP_RD_ATOMIC},
        {"ALT_PATH", IBV_QP_ALT_PATH},
        {"MIN_RNR_TIMER", IBV_QP_MIN_RNR_TIMER},
        {"SQ_PSN", IBV_QP_SQ_PSN},
        {"MAX_DEST_RD_ATOMIC", IBV_QP_MAX_DEST_RD_ATOMIC},
        {"PATH_MIG_STATE", IBV_QP_PATH_MIG_STATE},
        {"CAP", IBV_QP_CAP},
        {"DEST_QPN", IBV_QP_DEST_QPN},
        {"RATE_LIMIT", IBV_QP_RATE_LIMIT},
    };
    char names[256];
    int mask = 0;
    if (strcmp(cell, "-") == 0) {
        return 0;
    }
    weft_format(names, sizeof(names), "%s", cell);
    for (char *at = names; at != NULL;) {
        char *bar = strchr(at, '|');
        if (bar != NULL) {
            *bar++ = '\0';
        }
        mask |= find(words, WEFT_LENGTH(words), at);
        at = bar;
    }
    return mask;
}

enum ibv_qp_state rules_state(const char *cell)
{
    static const struct word words[] = {
        {"RESET", IBV_QPS_RESET}, {"INIT", IBV_QPS_INIT}, {"RTR", IBV_QPS_RTR},
        {"RTS", IBV_QPS_RTS},     {"SQD", IBV_QPS_SQD},   {"SQE", IBV_QPS_SQE},
        {"ERR", IBV_QPS_ERR},
    };
    return (enum ibv_qp_state)find(words, WEFT_LENGTH(words), cell);
}

int rules_errno(const char *cell)
{
    static const struct word words[] = {
        {"0", 0},
        {"-", 0},
        {"EINVAL", EINVAL},
        {"ENOMEM", ENOMEM},
        {"EPERM", EPERM},
        {"EBUSY", EBUSY},
        {"EBADF", EBADF},
        {"EFAULT", EFAULT},
        {"ENODATA", ENODATA},
        {"ENODEV", ENODEV},
        {"EEXIST", EEXIST},
        {"ENOSPC", ENOSPC},
        {"EADDRNOTAVAIL", EADDRNOTAVAIL},
        {"EOPNOTSUPP", EOPNOTSUPP},
        {"ETIMEDOUT", ETIMEDOUT},
        {"ENETUNREACH", ENETUNREACH},
        {"EHOSTUNREACH", EHOSTUNREACH},
    };
    return find(words, WEFT_LENGTH(words), cell);
}

int rules_status(const char *cell)
{
    static const struct word words[] = {
        {"-", RULES_NO_COMPLETION},
        {"SUCCESS", IBV_WC_SUCCESS},
        {"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
        {"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
        {"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
        {"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
        {"BAD_RESP_ERR", IBV_WC_BAD_RESP_ERR},
        {"LOC_ACCESS_ERR", IBV_WC_LOC_ACCESS_ERR},
        {"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
        {"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
        {"REM_OP_ERR", IBV_WC_REM_OP_ERR},
        {"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
        {"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
    };
    return find(words, WEFT_LENGTH(words), cell);
}

unsigned rules_number(const char *cell)
{
    char *end = NULL;
    if (strcmp(cell, "-") == 0) {
        return 0;
    }
    unsigned long value = strtoul(cell, &end, 0);
    ck_assert_msg(*end == '\0', "what number is \"%s\"?", cell);
    return (unsigned)value;
}
