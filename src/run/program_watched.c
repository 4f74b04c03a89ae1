#include "run/program_watched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define WC_WR_FLUSH_ERR 5 /* IBV_WC_WR_FLUSH_ERR: follows from another failure */
#define STATE_RESET 0     /* enum ibv_qp_state */
#define STATE_INIT 1
#define STATE_RTR 2
#define STATE_RTS 3
#define CALL_BYTES 24
#define MTU_CODE_MAX 5 /* IBV_MTU_4096 */

/* One record. Numbers are -1 if it has none. */
struct record {
    int64_t program, pid;
    char call[CALL_BYTES];
    char device[PROGRAM_NAME_BYTES];
    char gid[IO_IP_TEXT_BYTES]; /* "" if it has none */
    int64_t qp, type, to, dest_qp, mtu, index, status, problem, fatal;
};

/* ---- one line ---- */

struct word {
    const char *at;
    size_t n;
};

/* Returns the next word of the line; n is 0 at its end. */
static struct word next_word(const char **line)
{
    struct word word;

    *line += strspn(*line, " ");
    word = (struct word){*line, strcspn(*line, " \n")};
    *line += word.n;
    return word;
}

static void copy(struct word word, char *out, size_t n_bytes)
{
    weft_format(out, n_bytes, "%.*s", (int)word.n, word.at);
}

static void read_value(struct word word, struct record *out)
{
    const struct {
        const char *key;
        int64_t *number;
        char *text;
        size_t n_bytes;
    } values[] = {
        {"device=", NULL, out->device, sizeof(out->device)},
        {"gid=", NULL, out->gid, sizeof(out->gid)},
        {"dgid=", NULL, out->gid, sizeof(out->gid)},
        {"qp=", &out->qp, NULL, 0},
        {"type=", &out->type, NULL, 0},
        {"to=", &out->to, NULL, 0},
        {"dest_qp=", &out->dest_qp, NULL, 0},
        {"mtu=", &out->mtu, NULL, 0},
        {"index=", &out->index, NULL, 0},
        {"sgid_index=", &out->index, NULL, 0},
        {"status=", &out->status, NULL, 0},
        {"errno=", &out->problem, NULL, 0},
        {"fatal=", &out->fatal, NULL, 0},
    };

    for (size_t i = 0; i < WEFT_LENGTH(values); i++) {
        size_t n = strlen(values[i].key);

        if (word.n <= n || strncmp(word.at, values[i].key, n) != 0) {
            continue;
        }
        if (values[i].text != NULL) {
            copy((struct word){word.at + n, word.n - n}, values[i].text,
                 values[i].n_bytes);
        } else {
            *values[i].number = strtoll(word.at + n, NULL, 10);
        }
    }
}

/* Returns false if the line is no record. */
static bool read_any(const char *line, struct record *out)
{
    struct word words[6];
    struct word word;

    *out = (struct record){.pid = -1,
                           .qp = -1,
                           .type = -1,
                           .to = -1,
                           .dest_qp = -1,
                           .mtu = -1,
                           .index = -1,
                           .status = -1,
                           .problem = -1,
                           .fatal = -1};
    for (size_t i = 0; i < WEFT_LENGTH(words); i++) {
        words[i] = next_word(&line);
    }
    if (words[5].n == 0 || words[0].at[0] < '0' || words[0].at[0] > '9') {
        return false;
    }
    out->program = strtoll(words[0].at, NULL, 10);
    out->pid = strtoll(words[3].at, NULL, 10);
    copy(words[5], out->call, sizeof(out->call));
    for (word = next_word(&line); word.n > 0; word = next_word(&line)) {
        read_value(word, out);
    }
    return true;
}

/* Returns false if the line is no record of the program. */
static bool read_line(const char *line, uint32_t id, struct record *out)
{
    return read_any(line, out) && out->program == id;
}

static bool is_call(const struct record *record, const char *name)
{
    return strcmp(record->call, name) == 0;
}

/* ---- the failure ---- */

/* Returns true if programs do not survive it. Others probe what a device can do, and continue. */
static bool is_fatal(const struct record *record)
{
    return is_call(record, "completion")
               ? record->status > 0 && record->status != WC_WR_FLUSH_ERR
               : record->problem > 0 &&
                     (is_call(record, "modify_qp") || is_call(record, "create_ah"));
}

static enum weft_phase phase_of(const struct record *record)
{
    static const struct {
        const char *call;
        enum weft_phase phase;
    } phases[] = {
        {"completion", WEFT_PHASE_DATA},     {"create_ah", WEFT_PHASE_RTR},
        {"query_gid", WEFT_PHASE_RTR},       {"open_device", WEFT_PHASE_DISCOVER},
        {"alloc_pd", WEFT_PHASE_DISCOVER},   {"reg_mr", WEFT_PHASE_REGISTER},
        {"create_cq", WEFT_PHASE_CREATE_CQ}, {"create_cq_ex", WEFT_PHASE_CREATE_CQ},
        {"create_srq", WEFT_PHASE_CREATE},   {"create_qp", WEFT_PHASE_CREATE},
    };

    for (size_t i = 0; i < WEFT_LENGTH(phases); i++) {
        if (is_call(record, phases[i].call)) {
            return phases[i].phase;
        }
    }
    return record->to == STATE_INIT  ? WEFT_PHASE_INIT
           : record->to == STATE_RTR ? WEFT_PHASE_RTR
           : record->to == STATE_RTS ? WEFT_PHASE_RTS
                                     : WEFT_PHASE_QP;
}

static void fail(const struct record *record, struct weft_error *out)
{
    if (is_call(record, "completion")) {
        weft_fail_completion(out, (int)record->status, phase_of(record),
                             "a completion says so");
    } else if (is_call(record, "event")) {
        weft_fail(out, WEFT_ERR_SYSTEM, WEFT_PHASE_DATA,
                  "the device reported a fatal event");
    } else {
        /* An empty GID slot has no data, with an errno that depends on the library. */
        weft_fail_errno(out,
                        is_call(record, "query_gid") ? ENODATA : (int)record->problem,
                        phase_of(record), "%s failed", record->call);
    }
}

/* The printed failure is the better one, unless it lacks the errno that the same call returned. */
static void add_failure(const struct record *record, struct program_words *words)
{
    struct weft_error *error = &words->error;

    if (error->status == WEFT_ERR_SYSTEM && error->sys_errno == 0 &&
        error->wc_status == 0 && error->phase == phase_of(record)) {
        weft_error_clear(error);
        fail(record, error);
    } else if (error->status == WEFT_OK) {
        fail(record, error);
        words->is_watched = true;
    }
}

/* ---- what it used ---- */

static bool is_same_qp(const struct record *a, const struct record *b)
{
    return a->pid == b->pid && a->qp == b->qp && strcmp(a->device, b->device) == 0;
}

static void add_device(const struct record *record, struct program_words *words)
{
    if (words->device[0] == '\0') {
        weft_format(words->device, sizeof(words->device), "%s", record->device);
    }
}

static void add_path(const struct record *record, struct program_words *words)
{
    struct io_ip ip;

    add_device(record, words);
    if (words->gid_index == PROGRAM_NO_INDEX && record->index >= 0) {
        words->gid_index = (int)record->index;
    }
    if (words->remote_gid[0] == '\0' && io_ip_parse(record->gid, &ip) &&
        !io_ip_is_zero(&ip)) {
        io_ip_format(&ip, words->remote_gid, sizeof(words->remote_gid));
    }
    if (words->path_mtu == 0 && record->mtu > 0 && record->mtu <= MTU_CODE_MAX) {
        words->path_mtu = 128 << record->mtu;
    }
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end != NULL ? end + 1 : line + strlen(line);
}

static bool is_path(const struct record *record)
{
    return (is_call(record, "modify_qp") && record->to == STATE_RTR) ||
           is_call(record, "create_ah");
}

/* Returns true if the process made a QP of the same type and device. Libraries look for the largest
 * QP that a device allows. */
static bool is_made(const struct record *failure, const struct record *later)
{
    return is_call(failure, "create_qp") && is_call(later, "create_qp") &&
           later->type == failure->type && strcmp(later->device, failure->device) == 0;
}

/* Returns true if the process survived the failed call, because it connects after it, or because
 * the call succeeds. Programs read the GID table up to the slot that fails, and try what a device
 * can do. */
static bool is_survived(const struct record *failure, const struct record *later)
{
    return failure->problem > 0 && later->pid == failure->pid && later->problem == 0 &&
           (is_path(later) || is_made(failure, later));
}

/* Finds the failure: the first that programs do not survive, otherwise the last one. Returns false
 * if there is none. */
static bool find_failure(const char *records, uint32_t id, struct record *out)
{
    bool has = false;

    for (const char *line = records; *line != '\0'; line = next_line(line)) {
        struct record record;

        if (!read_line(line, id, &record)) {
            continue;
        }
        if (is_fatal(&record)) {
            *out = record;
            return true;
        }
        has = has && !is_survived(out, &record);
        if (record.problem > 0 || ((record.status > 0 || record.fatal > 0) && !has)) {
            *out = record;
            has = true;
        }
    }
    return has;
}

bool program_watched_has_failed(const char *records, uint32_t id)
{
    bool has = false;

    for (const char *line = records; *line != '\0' && !has; line = next_line(line)) {
        struct record record;

        has = read_line(line, id, &record) && (is_fatal(&record) || record.fatal > 0);
    }
    return has;
}

/* Finds the last connected QP or address: that of the failed QP, if one failed. */
static bool find_path(const char *records, uint32_t id, const struct record *failure,
                      struct record *out)
{
    bool has = false;

    for (const char *line = records; *line != '\0'; line = next_line(line)) {
        struct record record;

        if (read_line(line, id, &record) && is_path(&record) &&
            (failure == NULL || is_call(&record, "create_ah") || failure->qp < 0 ||
             is_same_qp(&record, failure))) {
            *out = record;
            has = true;
        }
    }
    return has;
}

/* Returns true if the GID slot had a GID when the program read or used it. */
static bool has_read_gid(const char *records, uint32_t id, const struct record *path)
{
    bool has = path->problem == 0;

    for (const char *line = records; *line != '\0'; line = next_line(line)) {
        struct record record;
        struct io_ip ip;

        has = has || (read_line(line, id, &record) && is_call(&record, "query_gid") &&
                      record.problem == 0 && record.index == path->index &&
                      strcmp(record.device, path->device) == 0 &&
                      io_ip_parse(record.gid, &ip) && !io_ip_is_zero(&ip));
    }
    return has;
}

void program_watched_read(const char *records, uint32_t id, struct program_words *words)
{
    struct record failure, path;
    bool has_failure = find_failure(records, id, &failure);

    if (has_failure) {
        add_failure(&failure, words);
        add_device(&failure, words);
    }
    if (find_path(records, id, has_failure ? &failure : NULL, &path)) {
        words->has_read_gid = words->has_read_gid || has_read_gid(records, id, &path);
        add_path(&path, words);
    } else if (has_failure && is_call(&failure, "query_gid")) {
        add_path(&failure, words);
    }
}

/* ---- queue pairs ---- */

/* Returns NULL if there is none. A new one can have the number of a destroyed one. */
static struct program_qp *find_qp(struct program_qp *qps, uint32_t n,
                                  const struct record *record)
{
    for (uint32_t i = 0; i < n; i++) {
        if (qps[i].number == record->qp && strcmp(qps[i].device, record->device) == 0) {
            return &qps[i];
        }
    }
    return NULL;
}

static void follow(const struct record *record, struct program_qp *qp)
{
    qp->state = record->to >= 0 ? record->to : qp->state;
    if (record->to == STATE_RESET) {
        qp->peer_number = -1;
        qp->peer_gid[0] = '\0';
    }
    if (record->dest_qp >= 0) {
        qp->peer_number = record->dest_qp;
    }
    if (record->gid[0] != '\0') {
        weft_format(qp->peer_gid, sizeof(qp->peer_gid), "%s", record->gid);
    }
}

struct program_qp *program_watched_qps(const char *records, uint32_t *n)
{
    struct program_qp *qps = NULL;

    *n = 0;
    for (const char *line = records; *line != '\0'; line = next_line(line)) {
        struct record record;
        struct program_qp *qp;

        if (!read_any(line, &record) || record.problem != 0 || record.qp <= 0) {
            continue;
        }
        qp = find_qp(qps, *n, &record);
        if (qp != NULL &&
            (is_call(&record, "destroy_qp") || is_call(&record, "create_qp"))) {
            memmove(qp, qp + 1, (size_t)(qps + *n - qp - 1) * sizeof(*qp));
            --*n;
        }
        if (is_call(&record, "create_qp")) {
            qps = weft_realloc(qps, ((size_t)*n + 1) * sizeof(*qps));
            qp = &qps[(*n)++];
            *qp = (struct program_qp){.program = (uint32_t)record.program,
                                      .number = record.qp,
                                      .peer_number = -1};
            weft_format(qp->device, sizeof(qp->device), "%s", record.device);
        } else if (qp != NULL && is_call(&record, "modify_qp")) {
            follow(&record, qp);
        }
    }
    return qps;
}
