/* Runs `weft doctor` on any document as if another machine had sent it. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/doctor.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Discards the report on standard output; libFuzzer's own output is on standard error. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    weft_check(freopen("/dev/null", "w", stdout) != NULL);
    return 0;
}

/* Checks the hosts of `document` as `weft doctor --join` checks those of another machine. */
static void examine(const json_t *document)
{
    struct examination *all = weft_calloc(1, sizeof(*all));
    struct cli_options options = {.backend = "sim"};
    struct weft_error error = {0};
    all->more.cma_total_kib = all->more.cma_free_kib = IO_UNKNOWN;
    all->told = json_array();
    if (doctor_add_hosts(all, document, true, &error)) {
        json_array_extend(all->told, json_object_get(document, "findings"));
        for (uint32_t i = 0; i < all->input.n_hosts; i++) {
            diag_preflight(&all->input.hosts[i], &all->more, &all->findings);
        }
        doctor_compare_ends(all);
        json_t *report = doctor_document(all);
        (void)doctor_verdict(report);
        weft_check(doctor_tell(&options, all, report));
        json_decref(report);
    }
    json_decref(all->told);
    diag_findings_fini(&all->findings);
    diag_input_fini(&all->input);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = json_loadb((const char *)data, size, 0, NULL);
    if (document != NULL) {
        examine(document);
    }
    json_decref(document);
    return 0;
}
