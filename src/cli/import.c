/* weft import netplan FILE..., weft import hosts FILE...: generate a scenario from the network
 * configuration of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "import/import.h"
#include "scenario/diagnose.h"

#define FILE_BYTES_MAX ((size_t)16 << 20)
#define HOST_BYTES 64

/* An operand: FILE, or HOST=FILE of netplan. */
struct operand {
    char host[HOST_BYTES];
    struct weft_text text; /* Owned */
};

/* Reads a file, or stdin if `path` is "-". Returns false after a message. */
static bool read_whole(const char *path, struct weft_text *out)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int sys_errno =
        weft_text_add_file(out, is_stdin ? "/dev/stdin" : path, FILE_BYTES_MAX);

    if (sys_errno != 0) {
        fprintf(stderr, "%s: cannot read: %s\n", path, strerror(sys_errno));
    } else if (out->n > FILE_BYTES_MAX) {
        fprintf(stderr, "%s: too large: more than 16 MiB\n", path);
        sys_errno = 1;
    }
    return sys_errno == 0;
}

/* Splits HOST=FILE, if the files are of netplan, and reads the file. A "=" after a slash belongs to
 * the path. Returns false after a message. */
static bool read_operand(const char *text, enum import_source source,
                         struct operand *operand, struct import_file *out)
{
    size_t n = strcspn(text, "=/");
    bool has_host = source == IMPORT_NETPLAN && text[n] == '=';

    out->path = has_host ? text + n + 1 : text;
    if (has_host && (n == 0 || out->path[0] == '\0')) {
        fprintf(stderr, "weft import: '%s' names no %s; write HOST=FILE\n", text,
                n == 0 ? "host" : "file");
        return false;
    }
    if (has_host && n >= sizeof(operand->host)) {
        fprintf(stderr, "weft import: %s: the host's name is longer than %d letters\n",
                text, HOST_BYTES - 1);
        return false;
    }
    if (has_host) {
        weft_format(operand->host, sizeof(operand->host), "%.*s", (int)n, text);
        out->host = operand->host;
    }
    if (!read_whole(out->path, &operand->text)) {
        return false;
    }
    out->bytes = operand->text.n > 0 ? operand->text.bytes : "";
    out->n_bytes = operand->text.n;
    return true;
}

static int import(struct cli_options *options, enum import_source source,
                  const struct import_file *files, size_t n_files,
                  const struct weft_text *hosts)
{
    const struct import_answers answers = {
        .cables = options->cable.values,
        .n_cables = options->cable.n,
        .switches = options->switches.values,
        .n_switches = options->switches.n,
        .without = options->without.values,
        .n_without = options->without.n,
        .hosts_path = options->hosts,
        .hosts = options->hosts == NULL ? NULL
                 : hosts->n > 0         ? hosts->bytes
                                        : "",
        .n_hosts = hosts->n,
        .prefix_len = {options->prefix_len[0], options->prefix_len[1]},
    };
    struct weft_text out = {NULL, 0, 0};
    struct weft_text wrong = {NULL, 0, 0};
    int code = CLI_USAGE;

    if (import_scenario(source, files, n_files, &answers, &out, &wrong)) {
        code = cli_print(out.bytes, out.n) ? CLI_OK : CLI_USAGE;
    } else {
        fputs(wrong.bytes, stderr);
    }
    weft_text_fini(&out);
    weft_text_fini(&wrong);
    return code;
}

static const char *const sources[] = {
    [IMPORT_NETPLAN] = "netplan", [IMPORT_HOSTS] = "hosts"};

/* Checks the operands and finds the kind of the files. Returns false after a message. */
static bool check_usage(const struct cli_options *options, enum import_source *out)
{
    const char *kind = options->n_operands > 0 ? options->operands[0] : NULL;
    char quoted[DIAGNOSE_QUOTE_BYTES], hint[64];
    unsigned n_stdin = options->hosts != NULL && strcmp(options->hosts, "-") == 0;
    unsigned i = 0;

    while (kind != NULL && i < WEFT_LENGTH(sources) && strcmp(kind, sources[i]) != 0) {
        i++;
    }
    if (kind != NULL && i == WEFT_LENGTH(sources)) {
        fprintf(stderr, "weft import: expected netplan or hosts, got '%s'%s\n",
                diagnose_quote(kind, quoted),
                diagnose_hint(kind, sources, WEFT_LENGTH(sources), hint, sizeof(hint)));
    }
    if (options->n_operands < 2 || i == WEFT_LENGTH(sources)) {
        fprintf(stderr,
                "usage: weft import [flags] netplan|hosts FILE... (weft import --help); "
                "netplan: HOST=FILE says whose file it is\n");
        return false;
    }
    *out = (enum import_source)i;
    if (*out != IMPORT_HOSTS && (options->prefix_len[0] | options->prefix_len[1]) != 0) {
        fprintf(stderr, "weft import: --prefix: netplan files have the prefixes; it is "
                        "for `weft import hosts`\n");
        return false;
    }
    for (int k = 1; k < options->n_operands; k++) {
        const char *text = options->operands[k];
        size_t at = strcspn(text, "=/");
        bool has_host = *out == IMPORT_NETPLAN && text[at] == '=';

        if (*out == IMPORT_NETPLAN && strcmp(text, "-") == 0) {
            fprintf(stderr, "weft import: -: write HOST=- to say whose file it is\n");
            return false;
        }
        n_stdin += strcmp(has_host ? text + at + 1 : text, "-") == 0;
    }
    if (n_stdin > 1) {
        fprintf(stderr,
                "weft import: stdin can be read once, and `-` is given %u times\n",
                n_stdin);
    }
    return n_stdin <= 1;
}

int cli_import(struct cli_options *options)
{
    struct weft_text hosts = {NULL, 0, 0};
    enum import_source source;
    struct operand *operands;
    struct import_file *files;
    size_t n;
    bool ok;

    if (!check_usage(options, &source)) {
        return CLI_USAGE;
    }
    n = (size_t)options->n_operands - 1;
    operands = weft_calloc(n, sizeof(*operands));
    files = weft_calloc(n, sizeof(*files));
    ok = options->hosts == NULL || read_whole(options->hosts, &hosts);
    for (size_t i = 0; i < n; i++) {
        ok =
            read_operand(options->operands[i + 1], source, &operands[i], &files[i]) && ok;
    }
    int code = ok ? import(options, source, files, n, &hosts) : CLI_USAGE;

    for (size_t i = 0; i < n; i++) {
        weft_text_fini(&operands[i].text);
    }
    weft_text_fini(&hosts);
    free(operands);
    free(files);
    return code;
}
