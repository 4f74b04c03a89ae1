#include "run/program_words.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/symptoms.h"

#define NUMBER "[0-9]+"
/* Texts of ibv_wc_status_str(3) for completions that a program caused or met. */
#define STATUS_TEXT                                                                      \
    "local (length|QP operation|protection|access) error|Work Request Flushed Error|"    \
    "(remote (invalid request|access|operation)|bad response) error|"                    \
    "(transport|RNR) retry counter exceeded"

/* Texts of strerror(3) for an address that is not resolved. */
#define UNRESOLVED "Connection timed out|No route to host|Network is unreachable"
/* Lines of perftest */
#define MTU_LINE "^ *Mtu +: (" NUMBER ")[[]B[]]"
#define GID_LINE "^ *GID index +: (" NUMBER ")$"
#define HAS_READ_GID                                                                     \
    "^Failed to modify QP " NUMBER " to RTR|^ *Found Incompatibility issue with GID "    \
    "types"
#define UCX_AH "UCX +ERROR +ibv_create_ah[(]"

/* A line that a program prints, and its meaning. The last group of the pattern is the number, or
 * the first group the text of the errno (strerror) or of the status (ibv_wc_status_str). */
struct line {
    const char *pattern; /* POSIX extended */
    enum { NAMED, ERRNO, COMPLETION, ERRNO_TEXT, COMPLETION_TEXT } kind;
    weft_status status; /* if NAMED */
    int sys_errno;      /* if NAMED; 0 if the program does not print it */
    enum weft_phase phase;
};

/* The first pattern that matches any line wins, so causes stand before their consequences. */
static const struct line lines[] = {
    /* rdma-core, libibverbs/examples/{rc,uc,ud,srq,xsrq}_pingpong.c */
    {"^Failed status .*[(](" NUMBER ")[)] for wr_id", COMPLETION, WEFT_OK, 0,
     WEFT_PHASE_DATA},
    /* perftest prints the QP's number as well. */
    {"^Failed to modify QP (" NUMBER " )?to RTR", NAMED, WEFT_ERR_SYSTEM, 0,
     WEFT_PHASE_RTR},
    {"^Failed to modify QP (" NUMBER " )?to RTS", NAMED, WEFT_ERR_SYSTEM, 0,
     WEFT_PHASE_RTS},
    {"^Failed to modify QP to INIT", NAMED, WEFT_ERR_SYSTEM, 0, WEFT_PHASE_INIT},
    {"^(can't|Failed to|Could not|Couldn't) (read|get|query) (local )?(sgid|gid)", NAMED,
     WEFT_ERR_SYSTEM, ENODATA, WEFT_PHASE_RTR},
    {"^Couldn't Open the XRC Domain (" NUMBER ")", ERRNO, WEFT_OK, 0, WEFT_PHASE_CREATE},
    {"^No IB devices found", NAMED, WEFT_ERR_ENVIRONMENT, 0, WEFT_PHASE_DISCOVER},
    {"^IB device .* (not|wasn't) found", NAMED, WEFT_ERR_ENVIRONMENT, 0,
     WEFT_PHASE_DISCOVER},
    {"^client read(/write)?:", NAMED, WEFT_ERR_CLOSED, 0, WEFT_PHASE_BOOT},
    {"^Couldn't read(/write)? remote address", NAMED, WEFT_ERR_CLOSED, 0,
     WEFT_PHASE_BOOT},
    {"^Couldn't connect to .*:" NUMBER, NAMED, WEFT_ERR_SYSTEM, 0, WEFT_PHASE_TCP},
    /* linux-rdma/perftest, perftest_resources.c and perftest_parameters.c */
    {"^ *Failed status (" NUMBER "): wr_id", COMPLETION, WEFT_OK, 0, WEFT_PHASE_DATA},
    {"^ *Unable to find the Infiniband/RoCE device", NAMED, WEFT_ERR_ENVIRONMENT, 0,
     WEFT_PHASE_DISCOVER},
    {"^ *Port number " NUMBER " state is Down", NAMED, WEFT_ERR_SYSTEM, ENETDOWN,
     WEFT_PHASE_INIT},
    {"^ *Gid index should be between ", NAMED, WEFT_ERR_SYSTEM, ENODATA, WEFT_PHASE_RTR},
    /* Each end compares the kinds of both addresses before it connects its QP. */
    {"^ *Found Incompatibility issue with GID types", NAMED, WEFT_ERR_SYSTEM, 0,
     WEFT_PHASE_RTR},
    {"^ethernet_read_keys: Couldn't read remote address", NAMED, WEFT_ERR_CLOSED, 0,
     WEFT_PHASE_BOOT},
    /* librdmacm's programs and perftest -R print events by rdma_event_str(3). An address is
     * resolved as RTR does it. Status 8 of a rejection is IB_CM_REJ_INVALID_SERVICE_ID: no process
     * listens. */
    {"RDMA_CM_EVENT_ADDR_ERROR, error:? -(" NUMBER ")$", ERRNO, WEFT_OK, 0,
     WEFT_PHASE_RTR},
    {"RDMA_CM_EVENT_(ADDR|ROUTE)_ERROR|RDMA_CM_EVENT_UNREACHABLE", NAMED,
     WEFT_ERR_TIMEOUT, 0, WEFT_PHASE_DATA},
    {"RDMA_CM_EVENT_REJECTED, error:? 8$", NAMED, WEFT_ERR_SYSTEM, ECONNREFUSED,
     WEFT_PHASE_BOOT},
    /* NCCL, transport/net_ib and misc/ibvwrap.cc */
    {"Got completion from peer .* with (status=|error )[A-Z_]*[(]?(" NUMBER ")[), ]",
     COMPLETION, WEFT_OK, 0, WEFT_PHASE_DATA},
    {"ibv_modify_qp failed with (" NUMBER ") .*next state RTR", ERRNO, WEFT_OK, 0,
     WEFT_PHASE_RTR},
    /* Older releases print no state. Only RTR resolves an address and fails with these. */
    {"ibv_modify_qp failed with error (" UNRESOLVED ")", ERRNO_TEXT, WEFT_OK, 0,
     WEFT_PHASE_RTR},
    /* UCX, uct/ib/base/ib_device.c: an address handle resolves the peer's address, as RTR does */
    {UCX_AH ".*[)] for .* failed: ([A-Z].*)$", ERRNO_TEXT, WEFT_OK, 0, WEFT_PHASE_RTR},
    {"UCX +ERROR .*connect[(][)] failed: Connection refused", NAMED, WEFT_ERR_SYSTEM,
     ECONNREFUSED, WEFT_PHASE_BOOT},
    /* A program of the user's */
    {"[Cc]ompletion (failed )?with (error|status)[ =:]*(" NUMBER ")", COMPLETION, WEFT_OK,
     0, WEFT_PHASE_DATA},
    /* UCX, uct/ib/rc/verbs/rc_verbs_iface.c, and any program that prints the status as text */
    {"(" STATUS_TEXT ")", COMPLETION_TEXT, WEFT_OK, 0, WEFT_PHASE_DATA},
};

/* Finds `pattern` in a line of `text`. Sets *out to the part that the last group matched, or the
 * first group if that is asked for. */
static bool find_group(const char *pattern, const char *text, bool is_first,
                       const char **out, size_t *out_n)
{
    regex_t compiled;
    regmatch_t parts[4];
    bool is;

    weft_check(regcomp(&compiled, pattern, REG_EXTENDED | REG_NEWLINE) == 0);
    is = regexec(&compiled, text, WEFT_LENGTH(parts), parts, 0) == 0;
    *out_n = 0;
    for (size_t i = 1; is && i < WEFT_LENGTH(parts) && i <= compiled.re_nsub; i++) {
        if (parts[i].rm_so >= 0 && (i == 1 || !is_first)) {
            *out = text + parts[i].rm_so;
            *out_n = (size_t)(parts[i].rm_eo - parts[i].rm_so);
        }
    }
    regfree(&compiled);
    return is;
}

static bool find(const char *pattern, const char *text, const char **out, size_t *out_n)
{
    return find_group(pattern, text, false, out, out_n);
}

/* Returns the number of the errno or the status with that text, or 0. */
static int number_named(const char *text, size_t n, enum diag_symptom_kind kind)
{
    const struct diag_symptom *found[2];
    char copy[128];
    size_t n_found;

    if (n >= sizeof(copy)) {
        return 0;
    }
    weft_format(copy, sizeof(copy), "%.*s", (int)n, text);
    n_found = diag_symptoms_find(copy, found, WEFT_LENGTH(found));
    return n_found == 1 && found[0]->kind == kind ? found[0]->number : 0;
}

/* Returns the number, or 0 if it is too large for an errno or a status. */
static int number_at(const char *text, size_t n)
{
    long value = n > 0 && n < 6 ? strtol(text, NULL, 10) : 0;

    return value <= 4095 ? (int)value : 0;
}

static void read_failure(const char *output, struct weft_error *out)
{
    for (size_t i = 0; i < WEFT_LENGTH(lines) && out->status == WEFT_OK; i++) {
        const struct line *line = &lines[i];
        bool is_text = line->kind == ERRNO_TEXT || line->kind == COMPLETION_TEXT;
        bool is_errno = line->kind == ERRNO || line->kind == ERRNO_TEXT;
        const char *part = NULL;
        int number;
        size_t n;

        if (!find_group(line->pattern, output, is_text, &part, &n)) {
            continue;
        }
        number = !is_text ? number_at(part, n)
                          : number_named(part, n,
                                         is_errno ? DIAG_SYMPTOM_ERRNO
                                                  : DIAG_SYMPTOM_WC_STATUS);
        if (line->kind != NAMED && number != 0 && is_errno) {
            weft_fail_errno(out, number, line->phase, "the program says so");
        } else if (line->kind != NAMED && number != 0) {
            weft_fail_completion(out, number, line->phase, "the program says so");
        } else if (line->kind == NAMED && line->sys_errno != 0) {
            weft_fail_errno(out, line->sys_errno, line->phase, "the program says so");
        } else if (line->kind == NAMED) {
            weft_fail(out, line->status, line->phase, "the program says so");
            if (line->status == WEFT_ERR_CLOSED) {
                weft_error_int(out, WEFT_VALUE_STREAM_ENDED, 1);
            }
        }
    }
}

/* Replaces a failure in RTR, or of the exchange before it, of a program that printed an empty GID:
 * with none to send from, neither its own queue pair gets to RTR nor its peer's. */
static void read_empty_slot(const char *output, struct weft_error *error)
{
    const char *part = NULL;
    size_t n;
    bool is_early = (error->phase == WEFT_PHASE_RTR && error->sys_errno == 0) ||
                    error->phase == WEFT_PHASE_BOOT;

    if (is_early && find("^ *local address: .*GID ::$", output, &part, &n)) {
        weft_error_clear(error);
        weft_fail_errno(error, ENODATA, WEFT_PHASE_RTR, "the program has no GID");
    }
}

static void read_gid(const char *pattern, const char *output, char *out)
{
    const char *part = NULL;
    size_t n;
    struct io_ip ip;

    if (find(pattern, output, &part, &n) && n < IO_IP_TEXT_BYTES) {
        weft_format(out, IO_IP_TEXT_BYTES, "%.*s", (int)n, part);
        /* Programs print :: without -g. */
        if (!io_ip_parse(out, &ip) || io_ip_is_zero(&ip)) {
            out[0] = '\0';
        }
    }
}

static void read_name(const char *pattern, const char *output, char *out)
{
    const char *part = NULL;
    size_t n;

    if (find_group(pattern, output, true, &part, &n) && n < PROGRAM_NAME_BYTES) {
        weft_format(out, PROGRAM_NAME_BYTES, "%.*s", (int)n, part);
    }
}

/* ucs/debug/log.c: lines of UCX contain [HOST:PID:THREAD], its last ones [HOST:PID:THREAD:TID]. */
static void read_process(const char *output, struct program_words *out)
{
    const char *part = NULL;
    size_t n;

    read_name("\\[([^]: []+):[0-9]+ *:[0-9]+(:[0-9]+)?] .*(" UCX_AH
              "|completion with error)",
              output, out->host);
    read_name(UCX_AH ".* on ([^ :]+)(:[0-9]+)? failed", output, out->device);
    read_gid("(ibv_create_ah[(]|\\[rqpn ).* dgid=([0-9a-fA-F:.]+)", output,
             out->remote_gid);
    if (find("(ibv_create_ah[(]|\\[rqpn ).* sgid_index=(" NUMBER ")", output, &part,
             &n) &&
        out->gid_index == PROGRAM_NO_INDEX) {
        out->gid_index = number_at(part, n);
    }
}

/* ---- flags ---- */

/* A program with known flags: how its name begins and ends, and its defaults. */
struct tool {
    const char *prefix, *suffix;
    char gid_flag;
    const char *gid_option;
    bool has_mtu;  /* true if it has -m, --mtu */
    int mtu, size; /* bytes; 0 if it depends on the device */
    /* Short flags without a value, which may precede one with a value in the same word. */
    const char *bare;
    const char *valued; /* those with one */
};

/* The first match counts. rdma-core, libibverbs/examples: ibv_rc_pingpong(1) and its siblings. A UD
 * message is one packet. linux-rdma/perftest: ib_write_bw(1); its default MTU is the device's. */
static const struct tool tools[] = {
    {"ibv_ud", "_pingpong", 'g', "gid-idx", false, 0, 2048, "ec", "pdisrnlg"},
    {"ibv_xsrq", "_pingpong", 'g', "gid-idx", true, 2048, 4096, "e", "pdismcnlg"},
    {"ibv_", "_pingpong", 'g', "gid-idx", true, 1024, 4096, "eotcjN", "pdismrnlgqw"},
    {"ib_", "_bw", 'x', "gid-index", true, 0, 65536, "", "pdismnqxtuSD"},
    {"ib_", "_lat", 'x', "gid-index", true, 0, 2, "", "pdismnqxtuSD"},
};

struct word {
    const char *at;
    size_t n; /* 0 at the end of a command */
};

/* Returns the next word of the command, which ends where a shell would begin another one. */
static struct word next_word(const char **text)
{
    struct word word;

    *text += strspn(*text, " \t");
    word = (struct word){*text, strcspn(*text, " \t\n;|&()")};
    *text += word.n;
    return word;
}

static struct word without_folder(struct word word)
{
    for (size_t i = word.n; i > 0; i--) {
        if (word.at[i - 1] == '/') {
            return (struct word){word.at + i, word.n - i};
        }
    }
    return word;
}

static const struct tool *tool_of(struct word word)
{
    for (size_t i = 0; i < WEFT_LENGTH(tools); i++) {
        size_t prefix = strlen(tools[i].prefix), suffix = strlen(tools[i].suffix);

        if (word.n > prefix + suffix - 1 &&
            strncmp(word.at, tools[i].prefix, prefix) == 0 &&
            strncmp(word.at + word.n - suffix, tools[i].suffix, suffix) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

/* Returns true if `word` is that option, by its short flag ('\0' if it has none) or long name. Sets
 * *out to its value, which is the rest of `word` or, if there is none, `next`. */
static bool is_option(const struct tool *tool, struct word word, char flag,
                      const char *name, struct word next, struct word *out)
{
    size_t length = strlen(name);
    size_t i = 1;

    *out = next;
    if (word.n < 2 || word.at[0] != '-') {
        return false;
    }
    if (word.at[1] == '-') {
        bool is = word.n >= 2 + length && strncmp(word.at + 2, name, length) == 0 &&
                  (word.n == 2 + length || word.at[2 + length] == '=');

        if (is && word.n > 2 + length) {
            *out = (struct word){word.at + length + 3, word.n - length - 3};
        }
        return is;
    }
    while (i < word.n && strchr(tool->bare, word.at[i]) != NULL) {
        i++;
    }
    if (i + 1 < word.n) {
        *out = (struct word){word.at + i + 1, word.n - i - 1};
    }
    return i < word.n && word.at[i] == flag;
}

/* Returns -1 if the word is not a number or too large. */
static int number_of(struct word word)
{
    int value = 0;

    if (word.n == 0 || word.n > 8) {
        return -1;
    }
    for (size_t i = 0; i < word.n; i++) {
        if (word.at[i] < '0' || word.at[i] > '9') {
            return -1;
        }
        value = value * 10 + (word.at[i] - '0');
    }
    return value;
}

struct flags {
    int gid_index, mtu, size; /* -1 if not given or not understood */
    bool has_all;             /* runs through all sizes, as perftest's -a does */
    bool may_have_host;       /* a word can be the name of the server */
};

/* Returns true if another program with known flags follows in the command. */
static bool has_tool(const char *rest)
{
    bool has = false;

    while (*rest != '\0' && !has) {
        struct word word = next_word(&rest);

        rest += word.n == 0 && *rest != '\0';
        has = tool_of(without_folder(word)) != NULL;
    }
    return has;
}

/* Returns true if the word after `word` is certain to be its value. */
static bool takes_next(const struct tool *tool, struct word word)
{
    size_t i = 1;

    if (word.n < 2 || word.at[0] != '-' || word.at[1] == '-') {
        return false;
    }
    while (i < word.n && strchr(tool->bare, word.at[i]) != NULL) {
        i++;
    }
    return i + 1 == word.n && strchr(tool->valued, word.at[i]) != NULL;
}

static void read_option(const struct tool *tool, struct word word, struct word next,
                        struct flags *out)
{
    bool is_perftest = tool->gid_flag == 'x';
    struct word value;

    if (is_option(tool, word, tool->gid_flag, tool->gid_option, next, &value)) {
        out->gid_index = number_of(value);
    } else if (tool->has_mtu && is_option(tool, word, 'm', "mtu", next, &value)) {
        out->mtu = number_of(value);
    } else if (is_option(tool, word, 's', "size", next, &value)) {
        out->size = number_of(value);
        out->has_all = out->size < 0; /* unknown */
    } else if (is_perftest && is_option(tool, word, 'a', "all", next, &value)) {
        out->has_all = true;
    }
}

/* Returns the number in a line of perftest, or -1 if there is none. perftest prints what it uses,
 * because its defaults are the device's. */
static int printed(const struct tool *tool, const char *pattern, const char *output)
{
    const char *part = NULL;
    size_t n;

    return tool->gid_flag == 'x' && find(pattern, output, &part, &n)
               ? number_of((struct word){part, n})
               : -1;
}

static void read_flags(const char *command, const char *output, struct program_words *out)
{
    const struct tool *tool = NULL;
    const char *rest = command;
    struct word word = next_word(&rest);
    struct flags flags = {.gid_index = -1, .mtu = -1, .size = -1};
    bool is_value = false, is_first = true;
    int mtu, size;

    while (*rest != '\0' || word.n > 0) {
        bool is_end = word.n == 0;
        const char *ahead;

        rest += is_end;
        if (is_end && tool != NULL) {
            break;
        }
        is_first = is_first && !is_end;
        ahead = rest;
        if (tool == NULL) {
            word = without_folder(word);
            tool = tool_of(word);
            out->is_timed =
                out->is_timed || (word.n == 7 && strncmp(word.at, "timeout", 7) == 0);
        } else {
            read_option(tool, word, next_word(&ahead), &flags);
            flags.may_have_host = flags.may_have_host || (word.at[0] != '-' && !is_value);
            is_value = takes_next(tool, word);
        }
        word = next_word(&rest);
    }
    if (tool == NULL || has_tool(rest)) {
        return; /* with several programs it is unknown which printed what */
    }
    if (printed(tool, MTU_LINE, output) > 0) {
        flags.mtu = printed(tool, MTU_LINE, output);
    }
    if (printed(tool, GID_LINE, output) >= 0) {
        flags.gid_index = printed(tool, GID_LINE, output);
    }
    mtu = flags.mtu > 0 ? flags.mtu : tool->mtu;
    size = flags.size > 0 ? flags.size : tool->size;
    /* Nothing else is in the command that can hang. */
    out->waits_for_client = is_first && rest[strspn(rest, " \t\n")] == '\0' &&
                            !flags.may_have_host && out->remote_gid[0] == '\0';
    out->gid_index = flags.gid_index >= 0 ? flags.gid_index : PROGRAM_NO_INDEX;
    if (!tool->has_mtu) {
        mtu = flags.has_all ? 0 : size;
    }
    out->path_mtu = flags.has_all || size > mtu ? mtu : size;
}

/* ---- programs of librdmacm ---- */

/* A program whose connections librdmacm makes, from address to address. */
struct routed {
    const char *name;
    const char *valued; /* short flags with a value */
    char peer, own;     /* flags of the address of the peer, and of its own */
    char is_client; /* the flag that makes `peer` that of the peer; '\0' if none does */
};

/* rdma-core, librdmacm/examples: rping(1), ucmatose(1), udaddy(1) */
static const struct routed routed[] = {
    {"rping", "aIpCSt", 'a', 'a', 'c'},
    {"ucmatose", "sbfPcCStpa", 's', 'b', '\0'},
    {"udaddy", "sbcCStpP", 's', 'b', '\0'},
};

static const struct routed *routed_of(struct word word)
{
    for (size_t i = 0; i < WEFT_LENGTH(routed); i++) {
        if (word.n == strlen(routed[i].name) &&
            strncmp(word.at, routed[i].name, word.n) == 0) {
            return &routed[i];
        }
    }
    return NULL;
}

struct addresses {
    struct word peer, own;
    bool is_client;
};

/* Reads the flags in one word, of which the last can have its value in `next`. */
static void read_routed_flags(const struct routed *program, struct word word,
                              struct word next, struct addresses *out)
{
    for (size_t i = 1; i < word.n && word.at[0] == '-'; i++) {
        struct word value = {word.at + i + 1, word.n - i - 1};

        out->is_client = out->is_client || word.at[i] == program->is_client;
        if (strchr(program->valued, word.at[i]) == NULL) {
            continue;
        }
        value = value.n > 0 ? value : next;
        if (word.at[i] == program->peer) {
            out->peer = value;
        }
        if (word.at[i] == program->own) {
            out->own = value;
        }
        return;
    }
}

/* Copies a word that is an address to `out`, unless that has one. */
static void copy_address(struct word word, char *out)
{
    char text[IO_IP_TEXT_BYTES];
    struct io_ip ip;

    weft_format(text, sizeof(text), "%.*s", (int)word.n, word.at);
    if (out[0] == '\0' && io_ip_parse(text, &ip)) {
        weft_format(out, IO_IP_TEXT_BYTES, "%s", text);
    }
}

static void read_routed(const char *command, struct program_words *out)
{
    const struct routed *program = NULL;
    struct addresses addresses = {.is_client = false};
    const char *rest = command;

    while (*rest != '\0') {
        struct word word = next_word(&rest);
        const char *ahead = rest;

        rest += word.n == 0 && *rest != '\0';
        if (program != NULL && routed_of(without_folder(word)) != NULL) {
            return; /* with several programs it is unknown which failed */
        }
        if (program == NULL) {
            program = routed_of(without_folder(word));
        } else {
            read_routed_flags(program, word, next_word(&ahead), &addresses);
        }
    }
    if (program == NULL) {
        return;
    }
    out->is_routed = true;
    if (program->is_client == '\0' || addresses.is_client) {
        copy_address(addresses.peer, out->remote_gid);
    }
    if (program->is_client == '\0' || !addresses.is_client) {
        copy_address(addresses.own, out->local_gid);
    }
}

void program_words_read(const char *command, const char *output,
                        struct program_words *out)
{
    const char *part = NULL;
    size_t n;

    *out = (struct program_words){.gid_index = PROGRAM_NO_INDEX};
    read_failure(output, &out->error);
    read_empty_slot(output, &out->error);
    read_gid("^ *local address: .*GID ([0-9a-fA-F:.]+)", output, out->local_gid);
    read_gid("^ *remote address: .*GID ([0-9a-fA-F:.]+)", output, out->remote_gid);
    out->has_read_gid =
        out->local_gid[0] != '\0' || find(HAS_READ_GID, output, &part, &n);
    read_flags(command, output, out);
    read_process(output, out);
    read_routed(command, out);
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
