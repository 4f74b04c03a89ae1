/* `weft plugin`: prints where NCCL would find the plugin in this environment, and its settings with
 * what is wrong with them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "plugin/setting_list.h"

#define OBJECT "libnccl-net-mesh.so"

/* Loads the plugin as NCCL does. Returns true if it is found. */
static bool find_object(struct weft_text *text)
{
    void *object = dlopen(OBJECT, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map = NULL;
    const char *why = object == NULL ? dlerror() : NULL;

    if (object == NULL) {
        weft_text_add(text, "object    not found: %s\n", why == NULL ? OBJECT : why);
        return false;
    }
    if (dlinfo(object, RTLD_DI_LINKMAP, &map) == 0 && map != NULL) {
        weft_text_add(text, "object    %s\n", map->l_name);
    }
    dlclose(object);
    return true;
}

/* Returns true if NCCL_NET_PLUGIN selects the plugin. */
static bool is_chosen(struct weft_text *text)
{
    const char *value = getenv("NCCL_NET_PLUGIN");
    bool is_mesh = value != NULL && strstr(value, "mesh") != NULL;

    weft_text_add(text, "chosen    %s: NCCL_NET_PLUGIN is %s%s\n", is_mesh ? "yes" : "no",
                  value == NULL ? "not set" : value, is_mesh ? "" : "; set it to mesh");
    return is_mesh;
}

static struct weft_text *warned; /* while settings are checked */

static void warn(const char *text)
{
    weft_text_add(warned, "warning   %s\n", text);
}

static const char *get_setting(const char *name)
{
    return getenv(name);
}

/* Returns true if the plugin would start with these settings. */
static bool are_accepted(struct weft_text *text)
{
    struct weft_error error = {0};
    weft_status status;

    warned = text;
    status = plugin_settings_check(get_setting, environ, warn, &error);
    if (status != WEFT_OK) {
        weft_text_add(text, "refused   %s: the plugin does not start\n", error.message);
    }
    return status == WEFT_OK;
}

int cli_plugin(struct cli_options *options)
{
    struct weft_text text = {0};
    const struct plugin_setting *setting;
    bool is_found, chosen, accepted, ok;

    if (options->n_operands > 0) {
        fprintf(stderr, "usage: weft plugin [flags]\n");
        return CLI_USAGE;
    }
    is_found = find_object(&text);
    chosen = is_chosen(&text);
    accepted = are_accepted(&text);
    weft_text_add(&text, "\n");
    for (unsigned i = 0; (setting = plugin_setting_at(i)) != NULL; i++) {
        const char *value = getenv(setting->name);
        bool is_secret = strcmp(setting->name, "NCCL_MESH_SECRET") == 0;

        weft_text_add(&text, "%-22s %s\n%-22s %s\n", setting->name,
                      value == NULL || value[0] == '\0' ? "not set"
                      : is_secret                       ? "set"
                                                        : value,
                      "", setting->text);
        weft_text_add(&text, "%-22s default: %s\n", "", setting->usual);
    }
    ok = cli_print(text.bytes, text.n);
    weft_text_fini(&text);
    return ok && is_found && chosen && accepted ? CLI_OK : CLI_FAILED;
}
