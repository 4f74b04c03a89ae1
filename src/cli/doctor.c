/* `weft doctor [FILE...]`: what is wrong with this machine, with the hosts of a scenario, or with
 * machines that wrote what they saw into files, before anything runs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/cli.h"
#include "diag/observations.h"
#include "diag/preflight.h"
#include "plugin/setting_list.h"
#include "report/tables.h"
#include "run/facts.h"

extern char **environ;

enum { SETTINGS_MAX = 256, KNOWN_MAX = 64 };

/* NCCL's settings, in the order in which they win. */
struct settings {
    struct diag_setting items[SETTINGS_MAX];
    uint32_t n;
    char *texts[SETTINGS_MAX]; /* Owned: NAME\0VALUE */
};

struct examination {
    struct diag_input input; /* the hosts that were looked at */
    struct diag_findings findings;
    struct diag_preflight more;
    const char *known[KNOWN_MAX];
};

/* ---- settings ---- */

/* `line` is NAME=VALUE; others than NCCL's are left out. */
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

/* As NCCL reads nccl.conf: a setting a line, # begins a remark. */
static void add_file(struct settings *settings, const char *path, const char *source)
{
    struct weft_text text = {0};
    char *rest, *line;

    if (weft_text_add_file(&text, path, 65536) == 0 && text.n > 0) {
        for (rest = text.bytes; (line = strsep(&rest, "\n")) != NULL;) {
            line[strcspn(line, "#")] = '\0';
            line[strcspn(line, " \t\r")] = '\0';
            add_setting(settings, line, source);
        }
    }
    weft_text_fini(&text);
}

static void read_settings(struct settings *settings)
{
    const char *home = getenv("HOME"), *named = getenv("NCCL_CONF_FILE");
    char path[512];

    for (char **entry = environ; *entry != NULL; entry++) {
        add_setting(settings, *entry, "environment");
    }
    weft_format(path, sizeof(path), "%s/.nccl.conf", home == NULL ? "" : home);
    if (named != NULL && named[0] != '\0') {
        add_file(settings, named, "NCCL_CONF_FILE");
    } else if (home != NULL) {
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

/* Devices are discovered at once; nothing has to go on for that. */
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
    const struct plain_config config = {.log = &options->log};
    struct settings *settings = weft_calloc(1, sizeof(*settings));
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
    all->more.settings = NULL;
    return CLI_OK;
}

/* ---- a scenario's hosts ---- */

static void examine_host(struct world *world, const struct world_host *spec,
                         uint32_t index, struct examination *all)
{
    struct diag_host *host = &all->input.hosts[index];
    struct diag_setting *settings = weft_calloc(spec->n_settings + 1, sizeof(*settings));

    for (uint32_t i = 0; i < spec->n_settings; i++) {
        settings[i] = (struct diag_setting){spec->settings[i].name,
                                            spec->settings[i].value, "the scenario"};
    }
    all->more.settings = settings;
    all->more.n_settings = spec->n_settings;
    look_at_host(world->ops->host_env(world, index, 0), host);
    diag_preflight(host, &all->more, &all->findings);
    all->more.settings = NULL;
    free(settings);
}

/* Without a fault or a job; what is known of both ends of a cable is compared, too. */
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
    scenario_free(scenario);
    plan->spec.n_faults = 0;
    plan->spec.log = &options->log;
    all->more.cma_total_kib = all->more.cma_free_kib = IO_UNKNOWN;
    if (backend_find("sim")->create(&plan->spec, &world, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft doctor: %s: %s\n", path, text);
        scenario_world_free(plan);
        return CLI_ENVIRONMENT;
    }
    all->input.n_hosts = plan->spec.n_hosts;
    all->input.hosts = weft_calloc(plan->spec.n_hosts + 1, sizeof(*all->input.hosts));
    for (uint32_t i = 0; i < plan->spec.n_hosts; i++) {
        examine_host(world, &plan->spec.hosts[i], i, all);
    }
    world->ops->destroy(world);
    scenario_world_free(plan);
    return CLI_OK;
}

/* ---- machines that were looked at before ---- */

/* `--json` of each of them. What they had to say of their settings, they said there. */
static int examine_files(struct cli_options *options, struct examination *all)
{
    all->more.cma_total_kib = all->more.cma_free_kib = IO_UNKNOWN;
    for (int i = 0; i < options->n_operands; i++) {
        const char *path = options->operands[i];
        json_error_t syntax;
        json_t *document = json_load_file(path, JSON_REJECT_DUPLICATES, &syntax);
        struct diag_input input = {.hosts = NULL};
        struct weft_error error = {0};
        struct diag_host *hosts;

        if (document == NULL) {
            fprintf(stderr, "%s:%d:%d: %s\n", path, syntax.line, syntax.column,
                    syntax.text);
            return CLI_USAGE;
        }
        if (diag_observations_decode(document, &input, &error) != WEFT_OK) {
            fprintf(stderr, "%s: %s\n", path, error.message);
            diag_input_fini(&input);
            json_decref(document);
            return CLI_USAGE;
        }
        json_decref(document);
        hosts = weft_realloc(all->input.hosts,
                             (all->input.n_hosts + input.n_hosts + 1) * sizeof(*hosts));
        memcpy(hosts + all->input.n_hosts, input.hosts,
               input.n_hosts * sizeof(*input.hosts));
        all->input.hosts = hosts;
        all->input.n_hosts += input.n_hosts;
        free(input.hosts); /* what is in them has moved */
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

/* ---- the answer ---- */

/* Cables of which both ends are known, as `weft diagnose` compares them. */
static void compare_ends(struct examination *all)
{
    struct diag_findings more = {NULL, 0};

    diag_preflight_ends(&all->input, &all->findings);
    diag(&all->input, &more);
    if (more.n > 0) {
        all->findings.items = weft_realloc(
            all->findings.items, (all->findings.n + more.n) * sizeof(*more.items));
        memcpy(all->findings.items + all->findings.n, more.items,
               more.n * sizeof(*more.items));
        all->findings.n += more.n;
    }
    diag_findings_fini(&more);
}

static void list_ports(const struct examination *all, struct weft_text *out)
{
    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        const struct diag_host *host = &all->input.hosts[i];

        for (uint32_t k = 0; k < host->n_ports; k++) {
            const struct diag_port *port = &host->ports[k];
            const char *separator = "  ";

            weft_text_add(out, "%s  %-16s %-4s mtu %lld", host->name, port->name,
                          port->is_up == DIAG_YES ? "up" : "down",
                          (long long)port->netdev_mtu);
            for (uint32_t g = 0; g < port->n_gids; g++) {
                char text[IO_IP_TEXT_BYTES];

                if (port->gids[g].type == 2 && port->gids[g].prefix_len > 0) {
                    weft_text_add(out, "%s%s/%d (GID %d)", separator,
                                  io_ip_format(&port->gids[g].ip, text, sizeof(text)),
                                  port->gids[g].prefix_len, port->gids[g].index);
                    separator = ", ";
                }
            }
            weft_text_add(out, "\n");
        }
    }
}

/* Calls `add` for every two ports that face each other. */
static void each_cable(const struct examination *all,
                       void (*add)(void *to, const struct diag_host *a,
                                   const struct diag_port *pa, const struct diag_host *b,
                                   const struct diag_port *pb),
                       void *to)
{
    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        for (uint32_t j = i + 1; j < all->input.n_hosts; j++) {
            const struct diag_host *a = &all->input.hosts[i], *b = &all->input.hosts[j];

            for (uint32_t k = 0; k < a->n_ports; k++) {
                for (uint32_t l = 0; l < b->n_ports; l++) {
                    if (diag_preflight_faces(&a->ports[k], &b->ports[l])) {
                        add(to, a, &a->ports[k], b, &b->ports[l]);
                    }
                }
            }
        }
    }
}

static void add_line(void *to, const struct diag_host *a, const struct diag_port *pa,
                     const struct diag_host *b, const struct diag_port *pb)
{
    weft_text_add(to, "cable  %s %s to %s %s\n", a->name, pa->name, b->name, pb->name);
}

static void add_member(void *to, const struct diag_host *a, const struct diag_port *pa,
                       const struct diag_host *b, const struct diag_port *pb)
{
    json_array_append_new(to,
                          json_pack("{s:s, s:s, s:s, s:s}", "from", a->name, "from_port",
                                    pa->name, "to", b->name, "to_port", pb->name));
}

static bool tell(const struct cli_options *options, const struct examination *all)
{
    json_t *findings = diag_findings_encode(&all->findings);
    json_t *document =
        json_pack("{s:i, s:s, s:o, s:o, s:o}", "schema_version", 1, "weft", WEFT_VERSION,
                  "hosts", json_array(), "cables", json_array(), "findings", findings);
    struct weft_text text = {0};
    bool ok;

    for (uint32_t i = 0; i < all->input.n_hosts; i++) {
        json_array_append_new(json_object_get(document, "hosts"),
                              diag_host_encode(&all->input.hosts[i]));
    }
    each_cable(all, add_member, json_object_get(document, "cables"));
    if (options->json != NULL) {
        char *dump = json_dumps(document, JSON_INDENT(2));

        weft_text_add(&text, "%s\n", dump);
        free(dump);
        ok = cli_write_file(options->json, text.bytes, text.n);
    } else {
        list_ports(all, &text);
        each_cable(all, add_line, &text);
        report_findings(document, &options->style, &text);
        if (all->findings.n == 0) {
            weft_text_add(&text, "no findings\n");
        }
        ok = cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
    json_decref(document);
    return ok;
}

int cli_doctor(struct cli_options *options)
{
    struct examination *all = weft_calloc(1, sizeof(*all));
    int code;

    if (options->n_operands > 1 && !is_recorded(options->operands[0])) {
        fprintf(stderr, "usage: weft doctor [SCENARIO | HOST.json...] [flags]\n");
        free(all);
        return CLI_USAGE;
    }
    all->more.known = all->known;
    while (all->more.n_known < KNOWN_MAX &&
           plugin_setting_at(all->more.n_known) != NULL) {
        all->known[all->more.n_known] = plugin_setting_at(all->more.n_known)->name;
        all->more.n_known++;
    }
    if (options->n_operands == 0) {
        code = examine_machine(options, all);
    } else if (is_recorded(options->operands[0])) {
        code = examine_files(options, all);
    } else {
        code = examine_scenario(options, options->operands[0], all);
    }
    if (code == CLI_OK) {
        compare_ends(all);
        code = tell(options, all) ? CLI_OK : CLI_USAGE;
        for (uint32_t i = 0; i < all->findings.n; i++) {
            if (all->findings.items[i].severity == DIAG_ERROR) {
                code = cli_worse(code, CLI_FAILED);
            }
        }
    }
    diag_findings_fini(&all->findings);
    diag_input_fini(&all->input);
    free(all);
    return code;
}
