/* Finds symptoms in what users have in hand: a number, a name, or a line of a log. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/symptoms.h"

/* Phrases of logs, and the name of the symptom. Sources: strerror(3); ibv_wc_status_str(3) and
 * ibv_event_type_str(3) (rdma-core); UCX (ib_mlx5_log.c); ncclGetErrorString and names of
 * ncclResult_t; gloo, perftest and Open MPI's openib. Vendor error 0x81 is mlx5's for an
 * acknowledgement that did not come. */
static const struct {
    const char *text, *name;
} phrases[] = {
    {"Operation not permitted", "EPERM"},
    {"No such file or directory", "ENOENT"},
    {"Interrupted system call", "EINTR"},
    {"Input/output error", "EIO"},
    {"Resource temporarily unavailable", "EAGAIN"},
    {"Cannot allocate memory", "ENOMEM"},
    {"Permission denied", "EACCES"},
    {"Bad address", "EFAULT"},
    {"Device or resource busy", "EBUSY"},
    {"No such device", "ENODEV"},
    {"Invalid argument", "EINVAL"},
    {"Too many open files", "EMFILE"},
    {"No space left on device", "ENOSPC"},
    {"Broken pipe", "EPIPE"},
    {"Function not implemented", "ENOSYS"},
    {"No data available", "ENODATA"},
    {"Timer expired", "ETIME"},
    {"Message too long", "EMSGSIZE"},
    {"Protocol not supported", "EPROTONOSUPPORT"},
    {"Operation not supported", "EOPNOTSUPP"},
    {"Address family not supported by protocol", "EAFNOSUPPORT"},
    {"Address already in use", "EADDRINUSE"},
    {"Cannot assign requested address", "EADDRNOTAVAIL"},
    {"Network is down", "ENETDOWN"},
    {"Network is unreachable", "ENETUNREACH"},
    {"Software caused connection abort", "ECONNABORTED"},
    {"Connection reset by peer", "ECONNRESET"},
    {"No buffer space available", "ENOBUFS"},
    {"Transport endpoint is not connected", "ENOTCONN"},
    {"Connection timed out", "ETIMEDOUT"},
    {"Connection refused", "ECONNREFUSED"},
    {"Host is down", "EHOSTDOWN"},
    {"No route to host", "EHOSTUNREACH"},
    {"Remote I/O error", "EREMOTEIO"},
    {"Operation canceled", "ECANCELED"},
    {"local length error", "LOC_LEN_ERR"},
    {"local QP operation error", "LOC_QP_OP_ERR"},
    {"local protection error", "LOC_PROT_ERR"},
    {"work request flushed error", "WR_FLUSH_ERR"},
    {"WR flushed because QP in error state", "WR_FLUSH_ERR"},
    {"memory management operation error", "MW_BIND_ERR"},
    {"bad response error", "BAD_RESP_ERR"},
    {"local access error", "LOC_ACCESS_ERR"},
    {"remote invalid request error", "REM_INV_REQ_ERR"},
    {"remote access error", "REM_ACCESS_ERR"},
    {"remote operation error", "REM_OP_ERR"},
    {"transport retry counter exceeded", "RETRY_EXC_ERR"},
    {"transport retry count exceeded", "RETRY_EXC_ERR"},
    {"vendor err 129", "RETRY_EXC_ERR"},
    {"vendor_err 0x81", "RETRY_EXC_ERR"},
    {"vend 0x81", "RETRY_EXC_ERR"},
    {"syndrome 0x81", "RETRY_EXC_ERR"},
    {"syndrom 0x81", "RETRY_EXC_ERR"},
    {"RNR retry counter exceeded", "RNR_RETRY_EXC_ERR"},
    {"receive-no-ready retry count exceeded", "RNR_RETRY_EXC_ERR"},
    {"response timeout error", "RESP_TIMEOUT_ERR"},
    {"trying to allocate some locked memory", "ENOMEM"},
    {"ncclSystemError", "unhandled system error"},
    {"ncclRemoteError", "remote process exited or there was a network error"},
    {"ncclUnhandledCudaError", "unhandled cuda error"},
    {"Cuda failure", "unhandled cuda error"},
    {"ncclInternalError", "internal error - please report"},
    {"ncclInvalidUsage", "invalid usage"},
    {"ncclInvalidArgument", "invalid usage"},
    {"invalid argument (run with NCCL_DEBUG", "invalid usage"},
    {"connection closed by peer", "connection closed by remote peer"},
    {"no usable interface found", "no socket interface found"},
    {"error while creating shared memory segment", "failed to extend /dev/shm"},
    {"Could not find: libnccl-net", "no plugin found"},
    {"async event : port error", "IBV_EVENT_PORT_ERR"},
    {"GID table change", "IBV_EVENT_GID_CHANGE"},
    {"IBV_EVENT_QP_ACCESS_ERR", "IBV_EVENT_QP_FATAL"},
    {"IBV_EVENT_QP_REQ_ERR", "IBV_EVENT_QP_FATAL"},
    {"local work queue catastrophic error", "IBV_EVENT_QP_FATAL"},
    {"local access violation work queue error", "IBV_EVENT_QP_FATAL"},
    {"local catastrophic error", "IBV_EVENT_DEVICE_FATAL"},
    {"unable to connect the HCA's through the link", "failed to modify QP"},
    {"received unexpected process identifier",
     "failed to TCP connect to a peer MPI process"},
};

/* Words before an errno, some of which stand before other numbers, too: see is_loose_errno(). */
static const char *const loose_labels[] = {
    "failed with", "failed with error", "failed:", "returned", "ret", "rc", "err",
    "error"};

#define IN_PROGRESS                                                                      \
    115 /* returned by a call that does not wait; another number is its result */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_word_byte(char c)
{
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}

/* Returns the first position of `words` in `text`, or NULL. Ignores case and skips positions inside
 * a longer word. An underscore before it is allowed, so that names are found after IBV_WC_, unless
 * `is_whole`. */
static const char *find_words(const char *text, const char *words, bool is_whole)
{
    size_t n = strlen(words);
    bool ends_in_word = is_word_byte(words[n - 1]);

    for (const char *at = text; *at != '\0'; at++) {
        size_t i = 0;
        char before = at == text ? ' ' : at[-1];

        while (i < n && at[i] != '\0' && lower(at[i]) == lower(words[i])) {
            i++;
        }
        if (i == n && !is_word_byte(before) && !(is_whole && before == '_') &&
            !(ends_in_word && (is_word_byte(at[n]) || at[n] == '_'))) {
            return at;
        }
    }
    return NULL;
}

/* Reads the number at `at`, which may follow blanks, '=', ':', '[' or '('. The kernel has errnos as
 * negative numbers. Returns -1 if there is none. */
static int number_at(const char *at, bool *is_negative)
{
    int number = 0;

    at += strspn(at, " =:([");
    *is_negative = *at == '-';
    at += *is_negative;
    if (*at < '0' || *at > '9') {
        return -1;
    }
    for (; *at >= '0' && *at <= '9' && number < 100000; at++) {
        number = number * 10 + (*at - '0');
    }
    return is_word_byte(*at) || (*at == '.' && is_word_byte(at[1])) ? -1 : number;
}

static const struct diag_symptom *by_number(enum diag_symptom_kind kind, int number)
{
    const struct diag_symptom *symptom;

    for (size_t i = 0; (symptom = diag_symptom_at(i)) != NULL; i++) {
        if (symptom->kind == kind && symptom->number == number &&
            kind != DIAG_SYMPTOM_MESSAGE) {
            return symptom;
        }
    }
    return NULL;
}

/* Returns true if `word` is among the last bytes before `at`. */
static bool is_just_before(const char *text, const char *at, const char *word)
{
    enum { NEAR_BYTES = 12 };
    char before[NEAR_BYTES + 1];
    size_t n = (size_t)(at - text) < NEAR_BYTES ? (size_t)(at - text) : NEAR_BYTES;

    for (size_t i = 0; i < n; i++) {
        before[i] = lower(*(at - n + i));
    }
    before[n] = '\0';
    return strstr(before, word) != NULL;
}

/* Finds the symptom by the number after `label`, as in "errno 110", "status=12" or "status -12".
 * Skips the status of a process, as in "exit status 1" or "exited with status 1". */
static const struct diag_symptom *by_label(const char *text, const char *label,
                                           enum diag_symptom_kind kind)
{
    const struct diag_symptom *found = NULL;
    const char *at = find_words(text, label, false);

    while (at != NULL && found == NULL) {
        const char *end = at + strlen(label);
        bool is_negative;
        int number = number_at(end, &is_negative);

        if (!is_just_before(text, at, "exit") &&
            !(kind == DIAG_SYMPTOM_ERRNO && number == IN_PROGRESS)) {
            found = by_number(is_negative ? DIAG_SYMPTOM_ERRNO : kind, number);
        }
        at = find_words(end, label, false);
    }
    return found;
}

/* Finds an errno after a word that other numbers follow, too: small ones are the results of
 * programs, such as NCCL's. */
static const struct diag_symptom *by_loose_label(const char *text)
{
    for (size_t i = 0; i < WEFT_LENGTH(loose_labels); i++) {
        const char *at = find_words(text, loose_labels[i], true);

        while (at != NULL) {
            const char *end = at + strlen(loose_labels[i]);
            bool is_negative;
            int number = number_at(end, &is_negative);

            if ((is_negative || number > 10) && number != IN_PROGRESS &&
                by_number(DIAG_SYMPTOM_ERRNO, number) != NULL &&
                !is_just_before(text, at, "vendor") &&
                !is_just_before(text, at, "exit")) {
                return by_number(DIAG_SYMPTOM_ERRNO, number);
            }
            at = find_words(end, loose_labels[i], true);
        }
    }
    return NULL;
}

/* The longest name or phrase that was found. */
struct match {
    const struct diag_symptom *symptom; /* or NULL */
    const char *at;
    size_t n;
};

static void keep_longest(struct match *match, const struct diag_symptom *symptom,
                         const char *at, size_t n)
{
    if (at != NULL && n > match->n) {
        *match = (struct match){symptom, at, n};
    }
}

static void find_phrases(const char *text, const struct diag_symptom *symptom,
                         struct match *match)
{
    for (size_t i = 0; i < WEFT_LENGTH(phrases); i++) {
        if (strcmp(phrases[i].name, symptom->name) == 0) {
            keep_longest(match, symptom, find_words(text, phrases[i].text, true),
                         strlen(phrases[i].text));
        }
    }
}

/* Finds the symptom by its name or a phrase. The longest wins, because "RNR_RETRY_EXC_ERR" contains
 * "RETRY_EXC_ERR"; an errno or a status is more exact than a message, unless it is part of the
 * message's own words. */
static const struct diag_symptom *by_name(const char *text, bool are_messages)
{
    struct match exact = {NULL, NULL, 0}, message = {NULL, NULL, 0};
    const struct diag_symptom *symptom;

    for (size_t i = 0; (symptom = diag_symptom_at(i)) != NULL; i++) {
        bool is_message = symptom->kind == DIAG_SYMPTOM_MESSAGE;
        struct match *match = is_message ? &message : &exact;

        if (symptom->kind != DIAG_SYMPTOM_ERRNO || symptom->number != IN_PROGRESS) {
            keep_longest(
                match, symptom,
                find_words(text, symptom->name, symptom->kind != DIAG_SYMPTOM_WC_STATUS),
                strlen(symptom->name));
            find_phrases(text, symptom, match);
        }
    }
    if (are_messages || (exact.symptom != NULL && message.symptom != NULL &&
                         exact.at >= message.at && exact.at < message.at + message.n)) {
        return message.symptom;
    }
    return exact.symptom;
}

static size_t add(const struct diag_symptom *symptom, const struct diag_symptom **out,
                  size_t n, size_t n_max)
{
    if (symptom != NULL && n < n_max) {
        out[n++] = symptom;
    }
    return n;
}

static const struct diag_symptom *find_one(const char *text)
{
    const struct diag_symptom *found = by_label(text, "status", DIAG_SYMPTOM_WC_STATUS);

    if (found == NULL) { /* NCCL before 2.21: "Got completion with error 12, opcode 1" */
        found = by_label(text, "completion with error", DIAG_SYMPTOM_WC_STATUS);
    }
    if (found == NULL) {
        found = by_label(text, "errno", DIAG_SYMPTOM_ERRNO);
    }
    if (found == NULL) {
        found = by_name(text, false);
    }
    if (found == NULL) {
        found = by_loose_label(text);
    }
    if (found == NULL) {
        found = by_name(text, true);
    }
    if (found == NULL && (find_words(text, "EINPROGRESS", true) != NULL ||
                          find_words(text, "errno 115", true) != NULL ||
                          find_words(text, "operation now in progress", true) != NULL)) {
        found = by_number(DIAG_SYMPTOM_ERRNO, IN_PROGRESS);
    }
    return found;
}

size_t diag_symptoms_find(const char *text, const struct diag_symptom **out, size_t n_max)
{
    bool is_negative;
    int number = number_at(text, &is_negative);
    size_t n = 0;

    if (number < 0 || text[strspn(text, " -0123456789")] != '\0') {
        return add(find_one(text), out, n, n_max);
    }
    n = add(by_number(DIAG_SYMPTOM_ERRNO, number), out, n, n_max);
    return is_negative ? n
                       : add(by_number(DIAG_SYMPTOM_WC_STATUS, number), out, n, n_max);
}
