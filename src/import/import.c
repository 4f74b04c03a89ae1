#include "import/import.h"

#include "import/model.h"

/* Loads the generated scenario, because the files can exceed a limit that only the loader knows. */
static void check(struct import *import, const struct weft_text *text)
{
    struct scenario_diagnostics diag;
    struct scenario *scenario = NULL;

    if (scenario_load_text("the scenario", text->bytes, text->n, NULL, 0, &scenario,
                           &diag) != WEFT_OK) {
        for (size_t i = 0; i < diag.n; i++) {
            import_complain(import, "no scenario can have what the files have: %s",
                            diag.items[i].text);
        }
    }
    scenario_free(scenario);
    scenario_diagnostics_fini(&diag);
}

bool import_scenario(enum import_source source, const struct import_file *files,
                     size_t n_files, const struct import_answers *answers,
                     struct weft_text *out, struct weft_text *wrong)
{
    struct import import = {.arena = arena_create(),
                            .wrong = wrong,
                            .answers = answers,
                            .is_of_hosts = source == IMPORT_HOSTS};
    struct weft_text text = {NULL, 0, 0};

    if (import.is_of_hosts) {
        import_read_hosts(&import, files, n_files);
    } else {
        import_read(&import, files, n_files);
    }
    if (import.n_wrong == 0) {
        import_relate(&import);
    }
    if (import.n_wrong == 0) {
        import_join(&import);
    }
    if (import.n_wrong == 0) {
        import_write(&import, &text);
        check(&import, &text);
    }
    if (import.n_wrong == 0) {
        weft_text_add_bytes(out, text.bytes, text.n);
    } else if (import.n_asked > IMPORT_COMPLAINTS_MAX) {
        weft_text_add(wrong, "weft import: and %u more\n",
                      import.n_asked - IMPORT_COMPLAINTS_MAX);
    }
    weft_text_fini(&text);
    arena_destroy(import.arena);
    return import.n_wrong == 0;
}
