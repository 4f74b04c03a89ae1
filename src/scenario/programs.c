/* Reads jobs of programs: the command of each host, and how each must end. */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "scenario/arena.h"
#include "scenario/sections.h"

#define WORDS_MAX 1024u
#define TEXT_BYTES_MAX 65536u
#define PATTERN_BYTES_MAX 256u
#define REPEATS_MAX 1000u
#define OTHERS "*"

enum { KEY_STATUS, KEY_OUTPUT, KEY_WITHIN };

static const struct walk_key expect_keys[] = {
    [KEY_STATUS] = {.name = "status"},
    [KEY_OUTPUT] = {.name = "output"},
    [KEY_WITHIN] = {.name = "within"},
};
static const struct walk_table expect_table = {"the expect of a job exec", expect_keys,
                                               WEFT_LENGTH(expect_keys)};

/* ---- commands ---- */

/* Reads any scalar except null, up to TEXT_BYTES_MAX. */
static bool read_word(struct loader *loader, const struct tree_node *node,
                      const char *name, const char **out)
{
    if (!read_scalar(loader, node, name, out)) {
        return false;
    }
    return strlen(*out) <= TEXT_BYTES_MAX
               ? true
               : complain(loader, node->mark, "%s: at most %u bytes", name,
                          TEXT_BYTES_MAX);
}

static bool read_words(struct loader *loader, const struct tree_node *node,
                       struct scenario_command *out)
{
    bool ok = read_list(loader, node, "a command", 1, WORDS_MAX);

    out->words = arena_calloc(loader->arena, node->n + 1, sizeof(out->words[0]));
    for (uint32_t i = 0; i < node->n && ok; i++) {
        ok = read_word(loader, node->items[i], "a word of a command", &out->words[i]);
        out->n_words++;
    }
    return ok;
}

/* Returns the words as text for messages. */
static const char *joined(struct loader *loader, const struct scenario_command *command)
{
    struct weft_text text = {NULL, 0, 0};
    const char *copy;

    for (uint32_t i = 0; i < command->n_words; i++) {
        weft_text_add(&text, "%s%s", i > 0 ? " " : "", command->words[i]);
    }
    copy = arena_strdup(loader->arena, text.bytes != NULL ? text.bytes : "");
    weft_text_fini(&text);
    return copy;
}

static bool read_command(struct loader *loader, const struct tree_node *node,
                         struct scenario_command *out)
{
    out->mark = node->mark;
    if (node->kind == TREE_LIST) {
        if (!read_words(loader, node, out)) {
            return false;
        }
        out->text = joined(loader, out);
        return true;
    }
    if (!read_word(loader, node, "a command", &out->text)) {
        return false;
    }
    if (out->text[strspn(out->text, " \t\n")] == '\0') {
        return complain(loader, node->mark, "a command: it is empty");
    }
    out->n_words = 3;
    out->words = arena_calloc(loader->arena, out->n_words, sizeof(out->words[0]));
    out->words[0] = "sh";
    out->words[1] = "-c";
    out->words[2] = out->text;
    return true;
}

/* Reads "HOST" or "*". */
static bool read_host(const struct topology *topology, const struct tree_node *node,
                      uint32_t *out)
{
    *out = SCENARIO_OTHERS;
    return strcmp(node->text, OTHERS) == 0 ||
           topology_find_host(topology, node, "exec", out);
}

static bool names(const struct scenario_exec *exec, uint32_t host)
{
    bool is_named = false;

    for (uint32_t i = 0; i < exec->n_commands; i++) {
        is_named = is_named || exec->commands[i].host == host;
    }
    return is_named;
}

static void read_commands(const struct topology *topology, const struct tree_node *node,
                          struct scenario_exec *exec)
{
    struct loader *loader = topology->loader;

    exec->commands = arena_calloc(loader->arena, node->n + 1, sizeof(exec->commands[0]));
    for (uint32_t i = 0; i < node->n; i++) {
        const struct tree_pair *pair = &node->pairs[i];
        struct scenario_command *command = &exec->commands[exec->n_commands];

        if (strcmp(pair->key->text, "expect") != 0 &&
            read_host(topology, pair->key, &command->host) &&
            read_command(loader, pair->value, command)) {
            exec->n_commands++;
        }
    }
    if (names(exec, SCENARIO_OTHERS) &&
        exec->n_commands == loader->scenario->n_hosts + 1) {
        complain(loader, node->mark,
                 "exec: '*' is for all hosts that no other command names, and the others "
                 "name every one");
    }
}

/* ---- expectations ---- */

static bool runs(const struct scenario_exec *exec, uint32_t host)
{
    return host == SCENARIO_OTHERS || names(exec, host) || names(exec, SCENARIO_OTHERS);
}

/* Reads a host of `status` or `output`, which must have a command. */
static bool read_subject(const struct topology *topology,
                         const struct scenario_exec *exec, const struct tree_node *key,
                         const char *name, uint32_t *out)
{
    return topology_find_host(topology, key, name, out) &&
           (runs(exec, *out) ||
            complain(topology->loader, key->mark, "%s: no command runs on '%s'", name,
                     topology->loader->scenario->hosts[*out].name));
}

static bool read_status(struct loader *loader, const struct tree_node *node,
                        struct scenario_end_status *out)
{
    static const char *const kinds[] = {
        [SCENARIO_END_ANY] = "any",
        [SCENARIO_END_KILLED] = "killed",
        [SCENARIO_END_HANGS] = "hangs",
    };
    char got[TREE_DESCRIBE_BYTES];
    uint32_t status;

    out->mark = node->mark;
    for (unsigned i = SCENARIO_END_ANY; i < WEFT_LENGTH(kinds); i++) {
        if (node->kind == TREE_SCALAR && node->text != NULL &&
            strcmp(node->text, kinds[i]) == 0) {
            out->kind = (enum scenario_end_kind)i;
            return true;
        }
    }
    if (node->kind != TREE_SCALAR || tree_scalar_kind(node) != TREE_INT) {
        return complain(loader, node->mark,
                        "status: expected an exit status (0..255), any, killed (by a "
                        "fault) or hangs (until `within`), got %s",
                        tree_describe(node, got));
    }
    if (!read_u32(loader, node, "status", 0, 255, &status)) {
        return false;
    }
    out->status = (int)status;
    return true;
}

static void read_statuses(const struct topology *topology, const struct tree_node *node,
                          struct scenario_exec *exec)
{
    struct loader *loader = topology->loader;
    uint32_t n = node->kind == TREE_MAP ? node->n : 1;

    exec->statuses = arena_calloc(loader->arena, n + 1, sizeof(exec->statuses[0]));
    if (node->kind != TREE_MAP) {
        exec->statuses[0].host = SCENARIO_OTHERS;
        exec->n_statuses = read_status(loader, node, &exec->statuses[0]) ? 1 : 0;
        return;
    }
    walk_duplicates(loader, node, "status");
    for (uint32_t i = 0; i < n; i++) {
        struct scenario_end_status *out = &exec->statuses[exec->n_statuses];

        if (read_subject(topology, exec, node->pairs[i].key, "status", &out->host) &&
            read_status(loader, node->pairs[i].value, out)) {
            exec->n_statuses++;
        }
    }
}

/* Returns true if the counts of a pattern multiply to at most REPEATS_MAX, because its
 * compiled size grows with their product: {1000}{1000} would exhaust memory. */
static bool has_small_counts(const char *pattern)
{
    unsigned long product = 1;

    for (const char *at = strchr(pattern, '{'); at != NULL; at = strchr(at + 1, '{')) {
        unsigned long largest = 1;

        for (const char *c = at + 1; strchr("0123456789,", *c) != NULL && *c != '\0';) {
            char *end = NULL;
            unsigned long count = *c == ',' ? 0 : strtoul(c, &end, 10);

            largest = count > largest ? count : largest;
            c = end != NULL ? end : c + 1;
        }
        product = largest > REPEATS_MAX ? largest : product * largest;
        if (product > REPEATS_MAX) {
            return false;
        }
    }
    return true;
}

static bool read_pattern(struct loader *loader, const struct tree_node *node,
                         struct scenario_output *out)
{
    regex_t compiled;
    char why[128];
    int problem;

    out->mark = node->mark;
    if (!read_scalar(loader, node, "output", &out->pattern)) {
        return false;
    }
    if (strlen(out->pattern) > PATTERN_BYTES_MAX || !has_small_counts(out->pattern)) {
        return complain(loader, node->mark,
                        "output: a pattern has at most %u bytes, and its counts ({n}) at "
                        "most %u, multiplied",
                        PATTERN_BYTES_MAX, REPEATS_MAX);
    }
    problem = regcomp(&compiled, out->pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB);
    if (problem != 0) {
        regerror(problem, &compiled, why, sizeof(why));
        return complain(loader, node->mark,
                        "output: no POSIX extended regular expression: %s", why);
    }
    regfree(&compiled);
    return true;
}

static void read_outputs(const struct topology *topology, const struct tree_node *node,
                         struct scenario_exec *exec)
{
    struct loader *loader = topology->loader;
    uint32_t n = node->kind == TREE_MAP ? node->n : 1;

    exec->outputs = arena_calloc(loader->arena, n + 1, sizeof(exec->outputs[0]));
    if (node->kind != TREE_MAP) {
        exec->outputs[0].host = SCENARIO_OTHERS;
        exec->n_outputs = read_pattern(loader, node, &exec->outputs[0]) ? 1 : 0;
        return;
    }
    walk_duplicates(loader, node, "output");
    for (uint32_t i = 0; i < n; i++) {
        struct scenario_output *out = &exec->outputs[exec->n_outputs];

        if (read_subject(topology, exec, node->pairs[i].key, "output", &out->host) &&
            read_pattern(loader, node->pairs[i].value, out)) {
            exec->n_outputs++;
        }
    }
}

static void read_within(struct loader *loader, const struct tree_node *node,
                        struct scenario_exec *exec)
{
    exec->has_within = read_time(loader, node, "within", &exec->within_ns);
    if (exec->has_within && (exec->within_ns == 0 || exec->within_ns > WALK_TIME_MAX)) {
        complain(loader, node->mark, "within: expected a time above 0s, 11 days at most");
        exec->within_ns = SCENARIO_WITHIN_NS;
    }
}

static void read_expect(const struct topology *topology, const struct tree_node *node,
                        struct scenario_exec *exec)
{
    struct loader *loader = topology->loader;
    struct walk_seen seen;

    if (!walk_keys(loader, node, &expect_table, &seen)) {
        return;
    }
    if (seen.at[KEY_STATUS] != NULL) {
        read_statuses(topology, seen.at[KEY_STATUS], exec);
    }
    if (seen.at[KEY_OUTPUT] != NULL) {
        read_outputs(topology, seen.at[KEY_OUTPUT], exec);
    }
    if (seen.at[KEY_WITHIN] != NULL) {
        read_within(loader, seen.at[KEY_WITHIN], exec);
    }
}

const struct scenario_exec *programs_read(const struct topology *topology,
                                          const struct tree_node *node,
                                          struct scenario_mark mark)
{
    struct loader *loader = topology->loader;
    struct scenario_exec *exec = arena_calloc(loader->arena, 1, sizeof(*exec));
    const struct tree_node *expect;
    size_t n_before = loader->diag->n + loader->diag->n_left_out;

    exec->within_ns = SCENARIO_WITHIN_NS;
    if (!read_map(loader, node, "exec")) {
        return exec;
    }
    walk_duplicates(loader, node, "exec");
    read_commands(topology, node, exec);
    expect = tree_get(node, "expect");
    if (expect != NULL) {
        read_expect(topology, expect, exec);
    }
    if (exec->n_commands == 0 && loader->diag->n + loader->diag->n_left_out == n_before) {
        complain(loader, mark, "exec: no host has a command; write HOST: \"COMMAND\"");
    }
    return exec;
}
