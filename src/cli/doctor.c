/* `weft doctor [FILE...]`: checks, before a run, this machine, the hosts of a scenario, or machines
 * that saved their results to files. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/doctor.h"
#include "plugin/setting_list.h"
#include "run/facts.h"
#include "run/forecast.h"

extern char **environ;

enum { SETTINGS_MAX = 256 };

/* NCCL's settings in order of precedence. */
struct settings {
    struct diag_setting items[SETTINGS_MAX];
    uint32_t n;
    char *texts[SETTINGS_MAX]; /* Owned; "NAME\0VALUE" */
};

/* ---- settings ---- */

/* Adds `line` if it is NAME=VALUE with a name of NCCL's. Ignores all other lines, including
 * comments. */
static void add_setting(struct settings *settings, const char *line, const char *source)
{
    const char *equals = strchr(line, '=');
    char *text;

    if (strncmp(line, "NCCL_", 5) != 0 || equals == NULL || settings->n == SETTINGS_MAX) {
        return;
    }
    text = weft_strdup(line);
    text[equals - line] = '\0';
    settings->texts[settings->n] = text;
    settings->items[settings->n++] = (struct diag_setting){
        .name = text, .value = text + (equals - line) + 1, .source = source};
}

/* Reads nccl.conf as NCCL's param.cc does: one setting per line, except for lines that begin with
 * #. The value is everything after the =, including blanks and trailing remarks. */
static void add_file(struct settings *settings, const char *path, const char *source)
{
    struct weft_text text = {0};
    char *rest, *line;

    if (weft_text_add_file(&text, path, 65536) == 0 && text.n > 0) {
        for (rest = text.bytes; (line = strsep(&rest, "\n")) != NULL;) {
            add_setting(settings, line, source);
        }
    }
    weft_text_fini(&text);
}

/* NCCL takes the user's home directory from the password database and ignores HOME. */
static void read_settings(struct settings *settings)
{
    const char *named = getenv("NCCL_CONF_FILE");
    const struct passwd *user = getpwuid(getuid());
    char path[512];

    for (char **entry = environ; *entry != NULL; entry++) {
        add_setting(settings, *entry, "environment");
    }
    if (named != NULL && named[0] != '\0') {
        add_file(settings, named, "NCCL_CONF_FILE");
    } else if (user != NULL) {
        weft_format(path, sizeof(path), "%s/.nccl.conf", user->pw_dir);
        add_file(settings, path, "~/.nccl.conf");
    }
    add_file(settings, "/etc/nccl.conf", "/etc/nccl.conf");
}

static void settings_fini(struct settings *settings)
{
    for (uint32_t i = 0; i < settings->n; i++) {
        free(settings->texts[i]);
    }
}

/* ---- this machine ---- */

static int64_t meminfo(const char *text, const char *name)
{
    const char *at = text == NULL ? NULL : strstr(text, name);

    return at == NULL ? IO_UNKNOWN : strtoll(at + strlen(name), NULL, 10);
}

static void read_memory(struct diag_preflight *more)
{
    struct weft_text text = {0};

    if (weft_text_add_file(&text, "/proc/meminfo", 65536) != 0) {
        weft_text_fini(&text);
        text = (struct weft_text){0};
    }
    more->cma_total_kib = meminfo(text.bytes, "\nCmaTotal:");
    more->cma_free_kib = meminfo(text.bytes, "\nCmaFree:");
    weft_text_fini(&text);
}

static enum diag_known find_plugin(void)
{
    void *object = dlopen("libnccl-net-mesh.so", RTLD_NOW | RTLD_LOCAL);

    if (object != NULL) {
        dlclose(object);
    }
    return object != NULL ? DIAG_YES : DIAG_NO;
}

/* Opens the devices, which are discovered without waiting, and records the host's facts. */
static void look_at_host(struct io_env *env, struct diag_host *out)
{
    struct weft_error error = {0};
    struct rdma *rdma = NULL;
    struct io_task task;

    io_task_init(&task, env->loop, env->host, 1);
    if (rdma_open(env, &task, &rdma, &error) == WEFT_OK) {
        run_facts_before(rdma, out);
    } else {
        weft_format(out->name, sizeof(out->name), "%s", env->name);
        out->memlock_bytes = env->ops->hostinfo(env)->memlock_bytes;
        out->was_observed = true;
        out->gid_index = IO_UNKNOWN;
    }
    rdma_close(rdma);
    io_task_fini(&task);
}

static int examine_machine(struct cli_options *options, struct examination *all)
{
    const struct plain_config config = {
        .name = options->name,
        .is_soft = strcmp(options->backend, "soft") == 0,
        .netdevs = options->netdevs,
        .log = &options->log,
    };
    struct settings *settings = weft_calloc(1, sizeof(*settings));
    struct io_interface *interfaces = backend_interfaces(&all->more.n_interfaces);
    struct weft_error error = {0};
    struct world *world = NULL;
    struct diag_host *host;

    all->input.hosts = weft_calloc(1, sizeof(*all->input.hosts));
    all->input.n_hosts = 1;
    host = &all->input.hosts[0];
    read_settings(settings);
    read_memory(&all->more);
    all->more.settings = settings->items;
    all->more.n_settings = settings->n;
    all->more.has_plugin = find_plugin();
    all->more.interfaces = interfaces;
    if (plain_world_create(&config, &world, &error) == WEFT_OK) {
        look_at_host(world->ops->host_env(world, 0, 0), host);
        world->ops->destroy(world);
    } else {
        (void)(gethostname(host->name, sizeof(host->name) - 1) == 0);
        host->was_observed = true;
        host->memlock_bytes = host->gid_index = IO_UNKNOWN;
    }
    diag_preflight(host, &all->more, &all->findings);
    settings_fini(settings);
    free(settings);
    free(interfaces);
    all->more.settings = NULL;
    all->more.interfaces = NULL;
    all->more.n_interfaces = 0;
    return CLI_OK;
}

/* ---- a scenario's hosts ---- */

void doctor_check_host(const struct world_host *spec, uint32_t index,
                       struct examination *all)
{
    struct diag_setting *settings = weft_calloc(spec->n_settings + 1, sizeof(*settings));

    for (uint32_t i = 0; i < spec->n_settings; i++) {
        settings[i] = (struct diag_setting){spec->settings[i].name,
                                            spec->settings[i].value, "the scenario"};
    }
    all->more.settings = settings;
    all->more.n_settings = spec->n_settings;
    diag_preflight(&all->input.hosts[index], &all->more, &all->findings);
    all->more.settings = NULL;
    all->more.n_settings = 0;
    free(settings);
}

/* Checks the hosts of a scenario without its faults and jobs. Includes what only both ends of a
 * cable together can show, and the ports and GIDs that its policy chooses. */
static int examine_scenario(struct cli_options *options, const char *path,
                            struct examination *all)
{
    struct scenario *scenario = cli_load(options, path);
    struct scenario_world *plan = NULL;
    struct weft_error error = {0};
    struct world *world = NULL;
    char text[300];

    if (scenario == NULL || scenario_to_world(scenario, &plan) != WEFT_OK) {
        scenario_free(scenario);
        return CLI_USAGE;
    }
    if (options->policy != NULL) {
        (void)!weft_policy_parse(options->policy, &scenario->policy);
    }
    plan->spec.n_faults = 0;
    plan->spec.log = &options->log;
    if (backend_find("sim")->create(&plan->spec, &world, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft doctor: %s: %s\n", path, text);
        scenario_world_free(plan);
        scenario_free(scenario);
        return CLI_ENVIRONMENT;
    }
    all->input.n_hosts = plan->spec.n_hosts;
    all->input.hosts = weft_calloc(plan->spec.n_hosts + 1, sizeof(*all->input.hosts));
    for (uint32_t i = 0; i < plan->spec.n_hosts; i++) {
        struct io_env *env = world->ops->host_env(world, i, 0);

        look_at_host(env, &all->input.hosts[i]);
        run_facts_policy(env, scenario->policy, &all->input.hosts[i]);
        doctor_check_host(&plan->spec.hosts[i], i, all);
    }
    run_facts_cables(&plan->spec, false, &all->input);
    run_forecast(scenario, &all->input, &all->findings);
    world->ops->destroy(world);
    scenario_world_free(plan);
    scenario_free(scenario);
    return CLI_OK;
}

/* ---- saved results of machines ---- */

/* Checks the documents that machines saved with `--json`. Their findings about settings are in
 * those documents. */
static int examine_files(struct cli_options *options, struct examination *all)
{
    for (int i = 0; i < options->n_operands; i++) {
        const char *path = options->operands[i];
        json_t *document = cli_read_json(path);
        struct weft_error error = {0};

        if (document == NULL) {
            return CLI_USAGE;
        }
        if (!doctor_add_hosts(all, document, false, &error)) {
            fprintf(stderr, "%s: %s\n", path, error.message);
            json_decref(document);
            return CLI_USAGE;
        }
        json_decref(document);
    }
    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        diag_preflight(&all->input.hosts[i], &all->more, &all->findings);
    }
    return CLI_OK;
}

static bool is_recorded(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

/* Checks this machine and, with --join, all machines. */
static int examine_here(struct cli_options *options, struct examination *all,
                        bool *out_tells)
{
    int code = examine_machine(options, all);

    return code == CLI_OK && (options->join || options->qualify)
               ? doctor_join(options, all, out_tells)
               : code;
}

static int examine(struct cli_options *options, struct examination *all)
{
    bool tells = true;
    json_t *document;
    int code;

    if (options->n_operands == 0) {
        code = examine_here(options, all, &tells);
    } else if (is_recorded(options->operands[0])) {
        code = examine_files(options, all);
    } else {
        code = examine_scenario(options, options->operands[0], all);
    }
    if (code != CLI_OK) {
        return code;
    }
    doctor_compare_ends(all);
    document = doctor_document(all);
    code = doctor_verdict(document);
    if (tells && !doctor_tell(options, all, document)) {
        code = CLI_USAGE;
    }
    json_decref(document);
    return code;
}

struct examination *doctor_begin(void)
{
    struct examination *all = weft_calloc(1, sizeof(*all));

    all->more.cma_total_kib = all->more.cma_free_kib = IO_UNKNOWN;
    all->more.known = all->known;
    while (all->more.n_known < DOCTOR_KNOWN_MAX &&
           plugin_setting_at(all->more.n_known) != NULL) {
        all->known[all->more.n_known] = plugin_setting_at(all->more.n_known)->name;
        all->more.n_known++;
    }
    return all;
}

void doctor_end(struct examination *all)
{
    json_decref(all->told);
    diag_findings_fini(&all->findings);
    diag_input_fini(&all->input);
    free(all);
}

/* Returns true after a message if a flag has no effect on what is checked. */
static bool has_idle_flag(const struct cli_options *options)
{
    bool has_files = options->n_operands > 0;
    bool has_scenario = has_files && !is_recorded(options->operands[0]);

    if (has_files &&
        cli_refuse_given(options, "backend name netdevs",
                         "only without a file, when this machine is checked")) {
        return true;
    }
    if (!options->join && !options->qualify &&
        cli_refuse_given(options, "rank nranks rendezvous secret patience",
                         "only with --join or --qualify")) {
        return true;
    }
    return !has_scenario && !options->qualify &&
           cli_refuse_given(options, "policy set", "only with a scenario");
}

int cli_doctor(struct cli_options *options)
{
    bool joins = options->join || options->qualify;
    struct examination *all;
    int code;

    if ((options->n_operands > 1 && !is_recorded(options->operands[0])) ||
        (options->n_operands > 0 && joins)) {
        fprintf(stderr, "usage: weft doctor [SCENARIO | HOST.json...] [flags]\n"
                        "       weft doctor --join | --qualify [flags]\n");
        return CLI_USAGE;
    }
    if (options->save != NULL && !options->qualify) {
        fprintf(stderr, "weft doctor: --save: only --qualify makes a scenario; "
                        "add --qualify, or keep what was found with --json=FILE\n");
        return CLI_USAGE;
    }
    if (has_idle_flag(options)) {
        return CLI_USAGE;
    }
    all = doctor_begin();
    code = examine(options, all);
    doctor_end(all);
    /* After a failed check --qualify is skipped, because it would fail on the same cables. */
    return code == CLI_OK && options->qualify ? cli_node(options) : code;
}
