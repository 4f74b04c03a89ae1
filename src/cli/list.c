/* weft list: lists the scenarios of a folder, one per line. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/registry.h"
#include "base/text.h"
#include "cli/cli.h"
#include "report/columns.h"

#define LIST_DEPTH_MAX 8

struct paths {
    char **names; /* Owned */
    size_t n, cap;
};

static void add_path(struct paths *paths, const char *path)
{
    if (paths->n == paths->cap) {
        paths->cap = paths->cap == 0 ? 32 : 2 * paths->cap;
        paths->names = weft_realloc(paths->names, paths->cap * sizeof(char *));
    }
    paths->names[paths->n++] = weft_strdup(path);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool refuse(const char *path)
{
    fprintf(stderr, "weft list: %s: %s\n", path, strerror(errno));
    return false;
}

static bool is_scenario(const char *name)
{
    size_t n = strlen(name);

    return n > 5 && strcmp(name + n - 5, ".yaml") == 0;
}

/* A folder that is being searched. */
struct folder {
    const struct folder *above; /* NULL for the first */
    dev_t device;
    ino_t inode;
    int depth;
};

static bool is_or_above(const struct folder *folder, const struct stat *status)
{
    for (; folder != NULL; folder = folder->above) {
        if (folder->device == status->st_dev && folder->inode == status->st_ino) {
            return true;
        }
    }
    return false;
}

static bool find_scenarios(const char *path, const struct folder *above,
                           struct paths *out);

/* Adds the file, or what is below the folder. Ignores a link to nothing, unless it has the name of
 * a scenario, a link to a folder above, and a pipe, which could wait forever for its writer. */
static bool find_entry(const char *path, const char *name, const struct folder *folder,
                       struct paths *out)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        return (errno == ENOENT && !is_scenario(name)) || refuse(path);
    }
    if (S_ISDIR(status.st_mode) && folder->depth < LIST_DEPTH_MAX) {
        return is_or_above(folder, &status) || find_scenarios(path, folder, out);
    }
    if (is_scenario(name) && S_ISREG(status.st_mode)) {
        add_path(out, path);
    }
    return true;
}

/* Finds every *.yaml in the folder `path` and below, at most LIST_DEPTH_MAX levels deep. Follows
 * links. Returns false if it has reported a path that cannot be read, and goes on with the
 * others. */
static bool find_scenarios(const char *path, const struct folder *above,
                           struct paths *out)
{
    struct folder folder = {.above = above,
                            .depth = above == NULL ? 0 : above->depth + 1};
    DIR *dir = opendir(path);
    const struct dirent *entry;
    struct stat status;
    bool ok = true;

    if (dir == NULL) {
        return refuse(path);
    }
    if (fstat(dirfd(dir), &status) == 0) {
        folder.device = status.st_dev;
        folder.inode = status.st_ino;
    }
    while (errno = 0, (entry = readdir(dir)) != NULL) {
        struct weft_text below = {NULL, 0, 0};

        if (entry->d_name[0] == '.') {
            continue;
        }
        weft_text_add(&below, "%s/%s", path, entry->d_name);
        ok = find_entry(below.bytes, entry->d_name, &folder, out) && ok;
        weft_text_fini(&below);
    }
    if (errno != 0) {
        ok = refuse(path);
    }
    closedir(dir);
    return ok;
}

/* Returns the names of the backends that support `scenario`. */
static json_t *backends_of(const struct scenario *scenario)
{
    json_t *names = json_array();
    struct scenario_world *world = NULL;
    const struct backend *backend;
    struct weft_error error = {0};
    const char *key = NULL;

    if (scenario_not_implemented(scenario, &key) ||
        scenario_to_world(scenario, &world) != WEFT_OK) {
        return names;
    }
    for (unsigned i = 0; (backend = backend_at(i)) != NULL; i++) {
        if (scenario_has_programs(scenario)
                ? strcmp(backend->name, "rxe") == 0 &&
                      backend_programs_can(&world->spec, true, &error) == WEFT_OK
                : backend_can_express(backend, &world->spec)) {
            json_array_append_new(names, json_string(backend->name));
        }
    }
    scenario_world_free(world);
    return names;
}

/* Adds a scenario to the table and to the document. Returns false if its path is not UTF-8, so that
 * the document cannot have it. */
static bool add_scenario(const char *path, const struct scenario *scenario,
                         struct columns *columns, json_t *list)
{
    json_t *names = backends_of(scenario);
    struct weft_text joined = {NULL, 0, 0};
    size_t line = strcspn(scenario->description, "\n");
    json_t *entry;
    const json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
    {
        weft_text_add(&joined, "%s%s", i == 0 ? "" : " ", json_string_value(name));
    }
    columns_row(columns);
    columns_cell(columns, "%s", path);
    columns_cell(columns, "%s", scenario->name);
    columns_cell(columns, "%s", joined.n > 0 ? joined.bytes : "-");
    columns_cell(columns, "%.*s%s", (int)line, scenario->description,
                 scenario->description[line] != '\0' &&
                         scenario->description[line + 1] != '\0'
                     ? " ..."
                     : "");
    entry = json_pack("{s:s, s:s, s:s, s:o}", "file", path, "name", scenario->name,
                      "description", scenario->description, "backends", names);
    weft_text_fini(&joined);
    return entry != NULL && json_array_append_new(list, entry) == 0;
}

int cli_list(struct cli_options *options)
{
    static const char *const heads[] = {"file", "name", "backends", "what it shows"};
    const char *folder = options->n_operands > 0 ? options->operands[0] : "scenarios";
    struct paths paths = {NULL, 0, 0};
    struct columns columns;
    struct weft_text text = {NULL, 0, 0};
    json_t *list = json_array();
    int code;

    if (options->n_operands > 1) {
        fprintf(stderr, "usage: weft list [flags] [DIR]\n");
        json_decref(list);
        return CLI_USAGE;
    }
    code = find_scenarios(folder, NULL, &paths) ? CLI_OK : CLI_USAGE;
    if (paths.n > 0) {
        qsort(paths.names, paths.n, sizeof(char *), by_name);
    }
    columns_init(&columns, heads, 4);
    for (size_t i = 0; i < paths.n; i++) {
        struct scenario *scenario = cli_load(options, paths.names[i]);

        if (scenario == NULL) {
            code = CLI_USAGE;
        } else if (!add_scenario(paths.names[i], scenario, &columns, list) &&
                   options->json != NULL) {
            fprintf(stderr, "weft list: %s: not UTF-8, so JSON cannot name it\n",
                    paths.names[i]);
            code = CLI_USAGE;
        }
        scenario_free(scenario);
        free(paths.names[i]);
    }
    free(paths.names);
    if (options->json != NULL) {
        json_t *whole = json_pack("{s:i, s:O}", "schema_version", 1, "scenarios", list);

        code = cli_write_json(options->json, whole) ? code : CLI_USAGE;
        json_decref(whole);
    } else if (code == CLI_OK || columns.n_cells > 4) {
        columns_print(&columns, "", &text);
        cli_print(text.bytes, text.n);
    }
    weft_text_fini(&text);
    columns_fini(&columns);
    json_decref(list);
    return code;
}
