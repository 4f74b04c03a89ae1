/* weft import netplan FILE...: generates a scenario from the network configuration of hosts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"
#include "import/import.h"
#include "scenario/diagnose.h"

#define FILE_BYTES_MAX ((size_t)16 << 20)
#define HOST_BYTES 64

/* An operand: FILE, or HOST=FILE. */
struct operand {
    char host[HOST_BYTES];
    struct weft_text text; /* Owned */
};

/* Returns false after a message. */
static bool read_whole(const char *path, struct weft_text *out)
{
    int sys_errno = weft_text_add_file(out, path, FILE_BYTES_MAX);

    if (sys_errno != 0) {
        fprintf(stderr, "%s: cannot read: %s\n", path, strerror(sys_errno));
    } else if (out->n > FILE_BYTES_MAX) {
        fprintf(stderr, "%s: too large: more than 16 MiB\n", path);
        sys_errno = 1;
    }
    return sys_errno == 0;
}

/* Splits HOST=FILE and reads the file. A "=" after a slash belongs to the path. Returns false after
 * a message. */
static bool read_operand(const char *text, struct operand *operand,
                         struct import_file *out)
{
    size_t n = strcspn(text, "=/");
    bool has_host = text[n] == '=';

    out->path = has_host ? text + n + 1 : text;
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

static int import(struct cli_options *options, const struct import_file *files,
                  size_t n_files, const struct weft_text *hosts)
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
    };
    struct weft_text out = {NULL, 0, 0};
    struct weft_text wrong = {NULL, 0, 0};
    int code = CLI_USAGE;

    if (import_netplan(files, n_files, &answers, &out, &wrong)) {
        code = cli_print(out.bytes, out.n) ? CLI_OK : CLI_USAGE;
    } else {
        fputs(wrong.bytes, stderr);
    }
    weft_text_fini(&out);
    weft_text_fini(&wrong);
    return code;
}

int cli_import(struct cli_options *options)
{
    struct weft_text hosts = {NULL, 0, 0};
    struct operand *operands;
    struct import_file *files;
    size_t n = 0;
    bool ok;

    if (options->n_operands == 0 || strcmp(options->operands[0], "netplan") != 0) {
        char quoted[DIAGNOSE_QUOTE_BYTES];

        if (options->n_operands > 0) {
            fprintf(stderr, "weft import: expected 'netplan', got '%s'\n",
                    diagnose_quote(options->operands[0], quoted));
        }
        options->n_operands = 1;
    }
    if (options->n_operands == 1) {
        fprintf(stderr,
                "usage: weft import [flags] netplan FILE... (weft import --help); "
                "HOST=FILE says whose file it is\n");
        return CLI_USAGE;
    }
    n = (size_t)options->n_operands - 1;
    operands = weft_calloc(n, sizeof(*operands));
    files = weft_calloc(n, sizeof(*files));
    ok = options->hosts == NULL || read_whole(options->hosts, &hosts);
    for (size_t i = 0; i < n; i++) {
        ok = read_operand(options->operands[i + 1], &operands[i], &files[i]) && ok;
    }
    int code = ok ? import(options, files, n, &hosts) : CLI_USAGE;

    for (size_t i = 0; i < n; i++) {
        weft_text_fini(&operands[i].text);
    }
    weft_text_fini(&hosts);
    free(operands);
    free(files);
    return code;
}
