#include "cli/failed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "diag/observations.h"
#include "report/tables.h"
#include "run/program_words.h"

#define OUTPUT_BYTES_MAX                                                                 \
    ((size_t)1 << 19) /* kept of a stream's beginning, and of its end */

bool failed_is_wanted(const struct cli_options *options)
{
    return options->findings == NULL || strcmp(options->findings, "off") != 0;
}

bool failed_is_now(const struct cli_options *options)
{
    return options->findings != NULL && strcmp(options->findings, "now") == 0;
}

bool failed_is_watched(const struct cli_options *options)
{
    return options->watch == NULL || strcmp(options->watch, "off") != 0;
}

/* ---- deciding ---- */

static bool has_sent_or_received(const struct diag_host *host)
{
    bool any = false;

    for (uint32_t i = 0; i < host->n_ports; i++) {
        any = any || host->ports[i].counters[DIAG_TX_PACKETS] > 0 ||
              host->ports[i].counters[DIAG_RX_PACKETS] > 0;
    }
    return any;
}

/* Returns true if a program names a device, or prints a failure, a GID or a device that Weft knows,
 * or if a device has counted packets. */
static bool any_used_rdma(const struct program_causes *causes,
                          const struct diag_input *input)
{
    bool any = false;

    for (uint32_t i = 0; i < causes->n; i++) {
        struct program_words words;

        program_words_read(causes->commands[i], causes->facts[i].output.bytes, &words);
        any = any || words.error.status != WEFT_OK || words.local_gid[0] != '\0';
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        any = any || input->hosts[i].policy[0] != '\0' ||
              has_sent_or_received(&input->hosts[i]);
    }
    return any;
}

json_t *failed_findings(const struct program_causes *causes)
{
    struct diag_input input = {.hosts = NULL};
    struct diag_findings findings = {NULL, 0};
    uint32_t n = 0;
    json_t *document;

    program_causes_observe(causes, &input);
    if (any_used_rdma(causes, &input)) {
        diag(&input, &findings);
        diag_sort(&findings);
    }
    for (uint32_t i = 0; i < findings.n; i++) {
        if (findings.items[i].entry->id != DIAG_UNDETERMINED &&
            findings.items[i].severity == DIAG_ERROR) {
            findings.items[n++] = findings.items[i];
        }
    }
    findings.n = n;
    document = json_pack("{s:o}", "findings", diag_findings_encode(&findings));
    diag_findings_fini(&findings);
    diag_input_fini(&input);
    return document;
}

/* ---- reporting ---- */

void failed_tell(const struct cli_options *options, const json_t *document)
{
    bool is_for_stdout = options->colour == CLI_COLOUR_AUTO && isatty(STDERR_FILENO) == 0;
    struct report_style style = is_for_stdout ? report_style(false) : options->style;
    struct weft_text text = {NULL, 0, 0};

    report_first_finding(document, &style, &text);
    if (text.n > 0) {
        fwrite(text.bytes, 1, text.n, stderr);
    }
    weft_text_fini(&text);
}

/* ---- output ---- */

void failed_add_output(int fd, off_t from, struct weft_text *out)
{
    char *bytes = weft_calloc(OUTPUT_BYTES_MAX, 1);
    struct stat status;

    for (int i = 0; i < 2 && fd >= 0 && fstat(fd, &status) == 0; i++) {
        ssize_t n = pread(fd, bytes, OUTPUT_BYTES_MAX, from);

        for (ssize_t k = 0; k < n; k++) {
            bytes[k] = bytes[k] == '\0' ? '?' : bytes[k];
        }
        weft_text_add_bytes(out, bytes, n > 0 ? (size_t)n : 0);
        from += n > 0 ? n : 0;
        if (status.st_size > from + (off_t)OUTPUT_BYTES_MAX) {
            from = status.st_size - (off_t)OUTPUT_BYTES_MAX;
        }
    }
    free(bytes);
}
