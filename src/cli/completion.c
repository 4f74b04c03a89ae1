/* `weft completion SHELL`: the shell's own file of completions, from the tables of verbs and
 * flags that the command itself reads, so that they agree. */
#include <stdio.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/cli.h"
#include "diag/catalogue.h"

/* Kinds of arguments. */
enum kind { KIND_OTHER, KIND_FILE, KIND_FOLDER, KIND_COMMAND, KIND_CHOICE };

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns the kind of an argument that --help shows as "FILE" or "[DIR]". */
static enum kind kind_of(const char *argument)
{
    const char *name = argument + (argument[0] == '[' ? 1 : 0);

    if (begins(name, "FILE") || begins(name, "OBS.json") || begins(name, "SO")) {
        return KIND_FILE;
    }
    if (begins(name, "DIR")) {
        return KIND_FOLDER;
    }
    return begins(name, "COMMAND") ? KIND_COMMAND : KIND_OTHER;
}

/* Returns the kind of the operands of `verb`, and appends the words that they can be to the empty
 * `*out`, separated by blanks. */
static enum kind kind_of_operand(const struct cli_verb_spec *verb, struct weft_text *out)
{
    const struct bench *bench;

    if (strcmp(verb->name, "completion") == 0) {
        weft_text_add(out, "bash zsh fish");
    } else if (strcmp(verb->name, "lab") == 0) {
        weft_text_add(out, "up exec run fault clear capture diagnose ls down");
    } else if (strcmp(verb->name, "explain") == 0) {
        for (int i = 0; i < DIAG_N_CODES; i++) {
            weft_text_add(out, "%s%s", i == 0 ? "" : " ",
                          diag_entry((enum diag_code)i)->code);
        }
    } else if (strcmp(verb->name, "bench") == 0) {
        for (unsigned i = 0; (bench = bench_at(i)) != NULL; i++) {
            weft_text_add(out, "%s%s", i == 0 ? "" : " ", bench->name);
        }
    } else {
        return kind_of(verb->operands);
    }
    return KIND_CHOICE;
}

/* ---- bash ---- */

/* Appends the line that offers the words of `kind`. */
static void bash_offer(enum kind kind, const char *choices, const char *indent,
                       struct weft_text *out)
{
    switch (kind) {
    case KIND_FILE:
        weft_text_add(out, "%s_weft_files -f\n", indent);
        break;
    case KIND_FOLDER:
        weft_text_add(out, "%s_weft_files -d\n", indent);
        break;
    case KIND_COMMAND:
        weft_text_add(out, "%s_weft_offer -c\n", indent);
        break;
    case KIND_CHOICE:
        weft_text_add(out, "%s_weft_offer -W '%s'\n", indent, choices);
        break;
    case KIND_OTHER:
        weft_text_add(out, "%s:\n", indent);
        break;
    }
}

static void bash_verb(const struct cli_verb_spec *verb, struct weft_text *out)
{
    struct weft_text choices = {0}, flags = {0}, values = {0};
    struct cli_flag flag;
    enum kind kind = kind_of_operand(verb, &choices);

    for (size_t i = 0; cli_flag_next(verb->name, &i, &flag);) {
        weft_text_add(&flags, "%s--%s", flags.n == 0 ? "" : " ", flag.name);
        if (flag.argument != NULL) {
            bool is_optional = flag.argument[0] == '['; /* then only with = */

            weft_text_add(&values, "        %s%s%s--%s=)\n", is_optional ? "" : "--",
                          is_optional ? "" : flag.name, is_optional ? "" : " | ",
                          flag.name);
            bash_offer(flag.choices != NULL ? KIND_CHOICE : kind_of(flag.argument),
                       flag.choices, "            ", &values);
            weft_text_add(&values, "            return ;;\n");
        }
    }
    weft_text_add(out, "    %s)\n        flags='%s'\n", verb->name, flags.bytes);
    if (values.n > 0) {
        weft_text_add(out, "        case $flag in\n%s        esac\n", values.bytes);
    }
    weft_text_add(out, "        [[ $current == -* ]] || {\n");
    bash_offer(kind, choices.bytes, "            ", out);
    weft_text_add(out, "            return\n        }\n        ;;\n");
    weft_text_fini(&choices);
    weft_text_fini(&flags);
    weft_text_fini(&values);
}

/* Appends the script for bash. Readline begins a word after = and :, which occur in the words of
 * weft. So the script splits the line itself, and removes what is before the last = or : from what
 * it offers. */
static void bash(const struct cli_verb_spec *verbs, struct weft_text *out)
{
    const struct cli_verb_spec *verb;

    weft_text_add(
        out,
        "# Completion of weft %s for bash, made by `weft completion bash`.\n"
        "_weft_offer() {\n"
        "    mapfile -t COMPREPLY < <(compgen \"$@\" -- \"$current\")\n"
        "    if [[ $current == *:* ]]; then\n"
        "        COMPREPLY=(\"${COMPREPLY[@]#\"${current%%:*}:\"}\")\n"
        "    fi\n"
        "}\n"
        "_weft_files() {\n"
        "    _weft_offer \"$@\"\n"
        "    compopt -o filenames 2>/dev/null\n"
        "}\n"
        "_weft() {\n"
        "    local line=${COMP_LINE:0:COMP_POINT} flags='' flag='' current words\n"
        "    read -ra words <<<\"$line\"\n"
        "    current=${line##*[[:space:]]}\n"
        "    [[ -n $current ]] || words+=('')\n"
        "    COMPREPLY=()\n"
        "    if [[ ${#words[@]} -le 2 ]]; then\n"
        "        _weft_offer -W '",
        weft_version);
    for (verb = verbs; verb->name != NULL; verb++) {
        weft_text_add(out, "%s ", verb->name);
    }
    weft_text_add(out, "--help --version'\n"
                       "        return\n"
                       "    fi\n"
                       "    if [[ $current == --*=* ]]; then\n"
                       "        flag=${current%%%%=*}=\n"
                       "        current=${current#*=}\n"
                       "    else\n"
                       "        flag=${words[${#words[@]} - 2]}\n"
                       "    fi\n"
                       "    case ${words[1]} in\n");
    for (verb = verbs; verb->name != NULL; verb++) {
        bash_verb(verb, out);
    }
    weft_text_add(out, "    esac\n"
                       "    _weft_offer -W \"$flags\"\n"
                       "}\n"
                       "complete -F _weft weft\n");
}

/* ---- zsh ---- */

/* Appends a text for use inside '...' and inside the brackets or colons of _arguments. */
static void zsh_text(const char *text, struct weft_text *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            weft_text_add(out, "'\\''");
        } else if (strchr("[]:\\", *text) != NULL) {
            weft_text_add(out, "\\%c", *text);
        } else {
            weft_text_add(out, "%c", *text);
        }
    }
}

static void zsh_action(enum kind kind, const char *choices, struct weft_text *out)
{
    static const char *const actions[] = {[KIND_OTHER] = " ",
                                          [KIND_FILE] = "_files",
                                          [KIND_FOLDER] = "_files -/",
                                          [KIND_COMMAND] = "_command_names -e"};

    if (kind != KIND_CHOICE) {
        weft_text_add(out, "%s", actions[kind]);
        return;
    }
    weft_text_add(out, "(");
    zsh_text(choices, out);
    weft_text_add(out, ")");
}

static void zsh_flag(const struct cli_flag *flag, struct weft_text *out)
{
    weft_text_add(out, " \\\n            '");
    if (flag->letter != 0) {
        weft_text_add(out, "(-%c --%s)'{-%c,--%s}'", flag->letter, flag->name,
                      flag->letter, flag->name);
    } else {
        weft_text_add(out, "%s--%s", flag->may_repeat ? "*" : "", flag->name);
    }
    if (flag->argument != NULL) {
        weft_text_add(out, "%s", flag->argument[0] == '[' ? "=-" : "=");
    }
    weft_text_add(out, "[");
    zsh_text(flag->help, out);
    weft_text_add(out, "]");
    if (flag->argument != NULL) {
        weft_text_add(out, flag->argument[0] == '[' ? "::" : ":");
        zsh_text(flag->argument, out);
        weft_text_add(out, ":");
        zsh_action(flag->choices != NULL ? KIND_CHOICE : kind_of(flag->argument),
                   flag->choices, out);
    }
    weft_text_add(out, "'");
}

static void zsh(const struct cli_verb_spec *verbs, struct weft_text *out)
{
    const struct cli_verb_spec *verb;
    struct cli_flag flag;

    weft_text_add(out,
                  "#compdef weft\n"
                  "# Completion of weft %s for zsh, made by `weft completion zsh`.\n"
                  "_weft() {\n"
                  "    local -a verbs=(",
                  weft_version);
    for (verb = verbs; verb->name != NULL; verb++) {
        weft_text_add(out, "\n        '%s:", verb->name);
        zsh_text(verb->help, out);
        weft_text_add(out, "'");
    }
    weft_text_add(out, ")\n"
                       "    if (( CURRENT == 2 )); then\n"
                       "        _describe verb verbs\n"
                       "        return\n"
                       "    fi\n"
                       "    local verb=$words[2]\n"
                       "    shift words\n"
                       "    (( CURRENT-- ))\n"
                       "    case $verb in\n");
    for (verb = verbs; verb->name != NULL; verb++) {
        struct weft_text choices = {0};
        enum kind kind = kind_of_operand(verb, &choices);

        weft_text_add(out, "    %s)\n        _arguments", verb->name);
        for (size_t j = 0; cli_flag_next(verb->name, &j, &flag);) {
            zsh_flag(&flag, out);
        }
        if (verb->operands[0] != '\0') {
            weft_text_add(out, " \\\n            '*:");
            zsh_text(verb->operands, out);
            weft_text_add(out, ":");
            zsh_action(kind, choices.bytes, out);
            weft_text_add(out, "'");
        }
        weft_text_add(out, " ;;\n");
        weft_text_fini(&choices);
    }
    weft_text_add(out, "    esac\n}\n"
                       "if [ \"$funcstack[1]\" = _weft ]; then\n"
                       "    _weft \"$@\"\n"
                       "fi\n");
}

/* ---- fish ---- */

static void fish_text(const char *text, struct weft_text *out)
{
    weft_text_add(out, "'");
    for (; *text != '\0'; text++) {
        weft_text_add(out, strchr("'\\", *text) != NULL ? "\\%c" : "%c", *text);
    }
    weft_text_add(out, "'");
}

static void fish_value(enum kind kind, const char *choices, struct weft_text *out)
{
    switch (kind) {
    case KIND_FILE:
        weft_text_add(out, " -F");
        break;
    case KIND_FOLDER:
        weft_text_add(out, " -f -a '(__fish_complete_directories)'");
        break;
    case KIND_COMMAND:
        weft_text_add(out, " -f -a '(__fish_complete_subcommand)'");
        break;
    case KIND_CHOICE:
        weft_text_add(out, " -f -a ");
        fish_text(choices, out);
        break;
    case KIND_OTHER:
        weft_text_add(out, " -f");
        break;
    }
}

static void fish_verb(const struct cli_verb_spec *verb, struct weft_text *out)
{
    struct weft_text choices = {0};
    struct cli_flag flag;
    enum kind kind = kind_of_operand(verb, &choices);

    weft_text_add(out, "complete -c weft -n __fish_use_subcommand -a %s -d ", verb->name);
    fish_text(verb->help, out);
    weft_text_add(out, "\n");
    for (size_t i = 0; cli_flag_next(verb->name, &i, &flag);) {
        weft_text_add(out, "complete -c weft -n '__fish_seen_subcommand_from %s' -l %s",
                      verb->name, flag.name);
        if (flag.letter != 0) {
            weft_text_add(out, " -s %c", flag.letter);
        }
        if (flag.argument != NULL) {
            weft_text_add(out, "%s", flag.argument[0] == '[' ? "" : " -r");
            fish_value(flag.choices != NULL ? KIND_CHOICE : kind_of(flag.argument),
                       flag.choices, out);
        }
        weft_text_add(out, " -d ");
        fish_text(flag.help, out);
        weft_text_add(out, "\n");
    }
    if (kind != KIND_OTHER) {
        weft_text_add(out, "complete -c weft -n '__fish_seen_subcommand_from %s'",
                      verb->name);
        fish_value(kind, choices.bytes, out);
        weft_text_add(out, "\n");
    }
    weft_text_fini(&choices);
}

static void fish(const struct cli_verb_spec *verbs, struct weft_text *out)
{
    const struct cli_verb_spec *verb;

    weft_text_add(
        out,
        "# Completion of weft %s for fish, made by `weft completion fish`.\n"
        "complete -c weft -f\n"
        "complete -c weft -n __fish_use_subcommand -l version -d version\n"
        "complete -c weft -n __fish_use_subcommand -l help -d 'what there is'\n",
        weft_version);
    for (verb = verbs; verb->name != NULL; verb++) {
        fish_verb(verb, out);
    }
}

int cli_completion(struct cli_options *options)
{
    static const struct {
        const char *name;
        void (*write)(const struct cli_verb_spec *verbs, struct weft_text *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const char *name = options->n_operands == 1 ? options->operands[0] : "";
    struct weft_text out = {0};

    for (size_t i = 0; i < WEFT_LENGTH(shells); i++) {
        if (strcmp(name, shells[i].name) == 0) {
            bool ok;

            shells[i].write(options->verbs, &out);
            ok = cli_print(out.bytes, out.n);
            weft_text_fini(&out);
            return ok ? CLI_OK : CLI_FAILED;
        }
    }
    fprintf(stderr, "usage: weft completion bash|zsh|fish\n");
    return CLI_USAGE;
}
