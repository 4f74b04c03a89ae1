#include "run/program_words.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define NUMBER "[0-9]+"

/* A line of a program, and what it means. The first number in parentheses is what `kind` says. */
struct line {
    const char *pattern; /* POSIX extended */
    enum { NAMED, ERRNO, COMPLETION } kind;
    weft_status status; /* if NAMED */
    int sys_errno;      /* if NAMED; 0: the program does not say */
    const char *phase;
};

/* The first that any line has wins: before what a failure leads to stands what it is. */
static const struct line lines[] = {
    /* rdma-core, libibverbs/examples/{rc,uc,ud,srq,xsrq}_pingpong.c */
    {"^Failed status .*[(](" NUMBER ")[)] for wr_id", COMPLETION, WEFT_OK, 0, "data"},
    {"^Failed to modify QP to RTR", NAMED, WEFT_ERR_SYSTEM, 0, "rtr"},
    {"^Failed to modify QP to RTS", NAMED, WEFT_ERR_SYSTEM, 0, "rts"},
    {"^Failed to modify QP to INIT", NAMED, WEFT_ERR_SYSTEM, 0, "init"},
    {"^(can't|Failed to|Could not|Couldn't) (read|get|query) (local )?(sgid|gid)", NAMED,
     WEFT_ERR_SYSTEM, ENODATA, "rtr"},
    {"^Couldn't Open the XRC Domain (" NUMBER ")", ERRNO, WEFT_OK, 0, "create"},
    {"^No IB devices found", NAMED, WEFT_ERR_ENVIRONMENT, 0, "discover"},
    {"^IB device .* not found", NAMED, WEFT_ERR_ENVIRONMENT, 0, "discover"},
    {"^client read(/write)?:", NAMED, WEFT_ERR_CLOSED, 0, "boot"},
    {"^Couldn't read(/write)? remote address", NAMED, WEFT_ERR_CLOSED, 0, "boot"},
    {"^Couldn't connect to .*:" NUMBER, NAMED, WEFT_ERR_SYSTEM, ECONNREFUSED, "boot"},
    /* linux-rdma/perftest, perftest_resources.c and perftest_parameters.c */
    {"^ *Failed status (" NUMBER "): wr_id", COMPLETION, WEFT_OK, 0, "data"},
    {"^ *Unable to find the Infiniband/RoCE device", NAMED, WEFT_ERR_ENVIRONMENT, 0,
     "discover"},
    /* NCCL, transport/net_ib and misc/ibvwrap.cc */
    {"Got completion from peer .* with status=(" NUMBER ") ", COMPLETION, WEFT_OK, 0,
     "data"},
    {"ibv_modify_qp failed with (" NUMBER ") .*next state RTR", ERRNO, WEFT_OK, 0, "rtr"},
};

/* Finds `pattern` in a line of `text`; the part in the last parentheses is at *out. */
static bool find(const char *pattern, const char *text, const char **out, size_t *out_n)
{
    regex_t compiled;
    regmatch_t parts[4];
    bool is;

    weft_check(regcomp(&compiled, pattern, REG_EXTENDED | REG_NEWLINE) == 0);
    is = regexec(&compiled, text, WEFT_LENGTH(parts), parts, 0) == 0;
    *out_n = 0;
    for (size_t i = 1; is && i < WEFT_LENGTH(parts) && i <= compiled.re_nsub; i++) {
        if (parts[i].rm_so >= 0) {
            *out = text + parts[i].rm_so;
            *out_n = (size_t)(parts[i].rm_eo - parts[i].rm_so);
        }
    }
    regfree(&compiled);
    return is;
}

/* Numbers of an errno or a status are small: a larger one is none. */
static int number_at(const char *text, size_t n)
{
    long value = n > 0 && n < 6 ? strtol(text, NULL, 10) : 0;

    return value <= 4095 ? (int)value : 0;
}

static void read_failure(const char *output, struct weft_error *out)
{
    for (size_t i = 0; i < WEFT_LENGTH(lines) && out->status == WEFT_OK; i++) {
        const struct line *line = &lines[i];
        const char *part = NULL;
        size_t n;

        if (!find(line->pattern, output, &part, &n)) {
            continue;
        }
        if (line->kind == COMPLETION && number_at(part, n) != 0) {
            weft_fail_completion(out, number_at(part, n), line->phase,
                                 "the program says so");
        } else if (line->kind == ERRNO && number_at(part, n) != 0) {
            weft_fail_errno(out, number_at(part, n), line->phase, "the program says so");
        } else if (line->kind == NAMED && line->sys_errno != 0) {
            weft_fail_errno(out, line->sys_errno, line->phase, "the program says so");
        } else if (line->kind == NAMED) {
            weft_fail(out, line->status, line->phase, "the program says so");
        }
    }
}

static void read_gid(const char *pattern, const char *output, char *out)
{
    const char *part = NULL;
    size_t n;
    struct io_ip ip;

    if (find(pattern, output, &part, &n) && n < IO_IP_TEXT_BYTES) {
        weft_format(out, IO_IP_TEXT_BYTES, "%.*s", (int)n, part);
        if (!io_ip_parse(out, &ip)) {
            out[0] = '\0';
        }
    }
}

/* Flags of rdma-core's ping-pongs (ibv_rc_pingpong(1)) and perftest (ib_write_bw(1)). */
static void read_flags(const char *command, struct program_words *out)
{
    static const char *const indexes[] = {
        "(^|[ /])ibv_[a-z]+_pingpong .*-g *(" NUMBER ")",
        "(^|[ /])ib_[a-z]+_(bw|lat) .*-x *(" NUMBER ")"};
    static const char *const mtus[] = {"(^|[ /])ibv_[a-z]+_pingpong .*-m *(" NUMBER ")",
                                       "(^|[ /])ib_[a-z]+_(bw|lat) .*-m *(" NUMBER ")"};
    const char *part = NULL;
    size_t n;

    for (size_t i = 0; i < WEFT_LENGTH(indexes); i++) {
        if (find(indexes[i], command, &part, &n) && n < 8) {
            out->gid_index = (int)strtol(part, NULL, 10);
        }
        if (find(mtus[i], command, &part, &n) && n < 8) {
            out->path_mtu = (int)strtol(part, NULL, 10);
        }
    }
    /* ibv_rc_pingpong(1): the default is 1024; so of its siblings. */
    if (out->path_mtu == 0 &&
        find("(^|[ /])ibv_[a-z]+_pingpong( |$)", command, &part, &n)) {
        out->path_mtu = 1024;
    }
}

void program_words_read(const char *command, const char *output,
                        struct program_words *out)
{
    *out = (struct program_words){.gid_index = PROGRAM_NO_INDEX};
    read_failure(output, &out->error);
    read_gid("^ *local address: .*GID ([0-9a-fA-F:.]+)", output, out->local_gid);
    read_gid("^ *remote address: .*GID ([0-9a-fA-F:.]+)", output, out->remote_gid);
    read_flags(command, out);
}

static bool is_of_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_' || c == '.';
}

bool program_words_have(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = strstr(text, word); at != NULL && n > 0;
         at = strstr(at + 1, word)) {
        if ((at == text || !is_of_name(at[-1])) && !is_of_name(at[n])) {
            return true;
        }
    }
    return false;
}
