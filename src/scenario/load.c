#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/names.h"
#include "scenario/sections.h"

enum {
    KEY_NAME,
    KEY_DESCRIPTION,
    KEY_POLICY,
    KEY_SEED,
    KEY_BOOT,
    KEY_PAYLOAD,
    KEY_RARE,
    KEY_PATIENCE,
    KEY_TOPOLOGY,
    KEY_RANKS,
    KEY_JOBS,
    KEY_FAULTS,
    KEY_EXPECT
};

static const struct walk_key scenario_keys[] = {
    [KEY_NAME] = {.name = "name"},
    [KEY_DESCRIPTION] = {.name = "description"},
    [KEY_POLICY] = {.name = "policy",
                    .type = WALK_CHOICE,
                    .offset = offsetof(struct scenario, policy),
                    .choices = weft_policy_names,
                    .n_choices = WEFT_N_POLICIES},
    [KEY_SEED] = {.name = "seed",
                  .type = WALK_U64,
                  .offset = offsetof(struct scenario, seed),
                  .max = UINT64_MAX},
    [KEY_BOOT] = {.name = "boot",
                  .type = WALK_CHOICE,
                  .offset = offsetof(struct scenario, boot),
                  .choices = names_of_boots,
                  .n_choices = SCENARIO_N_BOOTS},
    [KEY_PAYLOAD] = {.name = "payload",
                     .type = WALK_CHOICE,
                     .offset = offsetof(struct scenario, payload),
                     .choices = names_of_payloads,
                     .n_choices = SCENARIO_N_PAYLOADS},
    [KEY_RARE] = {.name = "rare",
                  .type = WALK_SHARE,
                  .offset = offsetof(struct scenario, rare_ppb)},
    [KEY_PATIENCE] = {.name = "patience",
                      .type = WALK_U32,
                      .offset = offsetof(struct scenario, patience),
                      .min = 1,
                      .max = SCENARIO_PATIENCE_MAX},
    [KEY_TOPOLOGY] = {.name = "topology"},
    [KEY_RANKS] = {.name = "ranks"},
    [KEY_JOBS] = {.name = "jobs"},
    [KEY_FAULTS] = {.name = "faults"},
    [KEY_EXPECT] = {.name = "expect"},
};
static const struct walk_table scenario_table = {"a scenario", scenario_keys,
                                                 WEFT_LENGTH(scenario_keys)};

static void read_name(struct loader *loader, const struct tree_node *root,
                      const struct tree_node *node)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];
    if (node == NULL) {
        complain(loader, root->mark, "a scenario: 'name' is missing");
    } else if (read_text(loader, node, "name", &loader->scenario->name) &&
               !is_name(node->text, 63, true, "-")) {
        complain(loader, node->mark, "name: bad name '%s'; write [a-z0-9-]+, at most 63",
                 diagnose_quote(node->text, quoted));
    }
}

static void read_scenario(struct loader *loader, const struct tree_node *root)
{
    struct topology topology;
    struct walk_seen seen;
    loader->scenario->description = "";
    loader->scenario->seed = 1;
    loader->scenario->patience = 1;
    if (!walk_map(loader, root, &scenario_table, &seen, loader->scenario)) {
        return;
    }
    read_name(loader, root, seen.at[KEY_NAME]);
    if (seen.at[KEY_DESCRIPTION] != NULL) {
        read_text(loader, seen.at[KEY_DESCRIPTION], "description",
                  &loader->scenario->description);
    }
    if (seen.at[KEY_TOPOLOGY] == NULL) {
        complain(loader, root->mark, "a scenario: 'topology' is missing");
    } else if (topology_read(loader, seen.at[KEY_TOPOLOGY], &topology)) {
        ranks_read(&topology, seen.at[KEY_RANKS]);
        jobs_read(&topology, seen.at[KEY_JOBS]);
        faults_read(&topology, seen.at[KEY_FAULTS]);
        expect_read(&topology, seen.at[KEY_EXPECT]);
    }
}

weft_status scenario_load_text(const char *name, const void *text, size_t n_bytes,
                               const struct scenario_set *sets, size_t n_sets,
                               struct scenario **out, struct scenario_diagnostics *diag)
{
    struct scenario_arena *arena = arena_create();
    struct scenario *scenario = arena_calloc(arena, 1, sizeof(*scenario));
    scenario->arena = arena;
    scenario->file = arena_strdup(arena, name);
    scenario->text = arena_dup(arena, text, n_bytes, 1);
    scenario->n_text = n_bytes;
    struct scenario_set *own_sets = arena_dup(arena, sets, n_sets, sizeof(sets[0]));
    for (size_t i = 0; i < n_sets; i++) {
        own_sets[i].text = arena_strdup(arena, sets[i].text);
    }
    scenario->sets = own_sets;
    scenario->n_sets = n_sets;
    struct loader loader = {.file = scenario->file,
                            .sets = own_sets,
                            .n_sets = n_sets,
                            .scenario = scenario,
                            .arena = arena,
                            .diag = diag};
    *out = NULL;
    *diag = (struct scenario_diagnostics){0};

    struct tree_node *root = tree_parse(&loader, text, n_bytes, 0);
    for (size_t i = 0; root != NULL && i < n_sets; i++) {
        root = set_apply(&loader, root, (uint32_t)i + 1);
    }
    if (root != NULL) {
        read_scenario(&loader, root);
    }
    diagnose_sort(diag);
    if (diag->n > 0) {
        scenario_free(scenario);
        return WEFT_ERR_INPUT;
    }
    weft_check(root != NULL);
    *out = scenario;
    return WEFT_OK;
}

static weft_status read_file(const char *path, struct weft_text *text,
                             struct scenario_diagnostics *diag)
{
    struct loader loader = {.file = path, .diag = diag};
    int sys_errno = weft_text_add_file(text, path, TREE_FILE_BYTES_MAX);

    *diag = (struct scenario_diagnostics){0};
    if (sys_errno != 0) {
        complain(&loader, (struct scenario_mark){0}, "cannot read: %s",
                 strerror(sys_errno));
        return WEFT_ERR_INPUT;
    }
    return WEFT_OK;
}

weft_status scenario_load_file(const char *path, const struct scenario_set *sets,
                               size_t n_sets, struct weft_text *text,
                               struct scenario **out, struct scenario_diagnostics *diag)
{
    weft_status status = read_file(path, text, diag);

    *out = NULL;
    if (status == WEFT_OK) {
        status = scenario_load_text(path, text->bytes, text->n, sets, n_sets, out, diag);
    }
    if (status == WEFT_OK && scenario_read_topologies(*out, diag) != WEFT_OK) {
        scenario_free(*out);
        *out = NULL;
        status = WEFT_ERR_INPUT;
    }
    return status;
}

void scenario_free(struct scenario *scenario)
{
    if (scenario != NULL) {
        arena_destroy(scenario->arena);
    }
}

char *scenario_where(const struct scenario *scenario, struct scenario_mark mark,
                     char *out, size_t out_bytes)
{
    diagnose_place(scenario->file, scenario->sets, scenario->n_sets, mark, out,
                   out_bytes);
    return out;
}
