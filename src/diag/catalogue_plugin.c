/* Findings about the settings under which NCCL would start. */
#include "base/check.h"
#include "diag/catalogue_entries.h"

static const struct diag_entry entries[] = {
    {
        .id = DIAG_PLUGIN_NOT_CHOSEN,
        .code = "plugin.not_chosen",
        .severity = DIAG_ERROR,
        .cause = "NCCL's settings choose another network than libnccl-net-mesh.so",
        .remedy = "set NCCL_NET_PLUGIN=mesh, and remove NCCL_NET and older settings from "
                  "scripts, "
                  "images and nccl.conf",
        .reference = "NCCL's environment variables: NCCL_NET_PLUGIN, NCCL_NET",
        .decide = "env | grep NCCL_; cat /etc/nccl.conf ~/.nccl.conf",
        .explanation = "Scripts for NCCL's own network on rings of DGX Sparks set "
                       "NCCL_NET_PLUGIN=none, and "
                       "NCCL then opens no plugin at all, whatever is installed, without "
                       "a word. Settings "
                       "stand in the environment, in ~/.nccl.conf and in /etc/nccl.conf, "
                       "also in those of a "
                       "container's image; the environment wins.",
    },
    {
        .id = DIAG_PLUGIN_NOT_FOUND,
        .code = "plugin.not_found",
        .severity = DIAG_ERROR,
        .cause = "NCCL is told to use libnccl-net-mesh.so, and would not find it",
        .remedy =
            "install the package libnccl-net-mesh, or put the object's directory into "
            "LD_LIBRARY_PATH of the job",
        .reference = "dlopen(3)",
        .decide = "weft plugin",
        .explanation = "NCCL opens libnccl-net-mesh.so by name, as dlopen finds it: "
                       "LD_LIBRARY_PATH, then "
                       "the cache of ldconfig. If it is not there NCCL goes on with its "
                       "own network, with a "
                       "line in the log at level INFO only.",
    },
    {
        .id = DIAG_PLUGIN_SETTING,
        .code = "plugin.setting",
        .severity = DIAG_WARNING,
        .cause = "a setting has a name of the plugin's, NCCL_MESH_*, that this plugin "
                 "does not "
                 "know",
        .remedy =
            "look the name up with `weft plugin`; remove it if it was meant for another "
            "plugin",
        .reference = "docs/plugin.md, Settings",
        .decide = "weft plugin",
        .explanation = "Other plugins for meshes read NCCL_MESH_* variables too "
                       "(NCCL_MESH_TIMEOUT_MS, "
                       "NCCL_MESH_FAST_FAIL, ...). What this one does not know it "
                       "ignores, as NCCL does with "
                       "its own: a mistyped name has no effect, and nobody says so.",
    },
};

const struct diag_entries diag_entries_plugin = {entries, WEFT_LENGTH(entries)};
