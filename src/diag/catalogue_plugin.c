/* Catalogue entries about the settings with which NCCL would start, GPUs, and program versions. */
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
        .explanation =
            "Scripts for NCCL's own network on rings of DGX Sparks set "
            "NCCL_NET_PLUGIN=none, and NCCL then opens no plugin at all, whatever is "
            "installed, and logs nothing. Settings stand in the environment, in "
            "~/.nccl.conf and in /etc/nccl.conf, also in those of a container's image; "
            "the environment wins.",
    },
    {
        .id = DIAG_PLUGIN_NOT_FOUND,
        .code = "plugin.not_found",
        .severity = DIAG_ERROR,
        .cause = "NCCL is configured to use libnccl-net-mesh.so, and would not find it",
        .remedy =
            "install the package libnccl-net-mesh, or put the object's directory into "
            "LD_LIBRARY_PATH of the job",
        .reference = "dlopen(3)",
        .decide = "weft plugin",
        .explanation =
            "NCCL opens libnccl-net-mesh.so by name, as dlopen finds it: "
            "LD_LIBRARY_PATH, then the cache of ldconfig. If it does not exist, NCCL "
            "uses its own network, with a line in the log at level INFO only.",
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
        .explanation =
            "Other plugins for meshes read NCCL_MESH_* variables too "
            "(NCCL_MESH_TIMEOUT_MS, NCCL_MESH_FAST_FAIL, ...). What this one does not "
            "know it ignores, with a warning in NCCL's log: a mistyped name has no "
            "other effect.",
    },
    {
        .id = DIAG_HOST_NO_GPU,
        .code = "host.no_gpu",
        .severity = DIAG_ERROR,
        .place = DIAG_AT_HOST,
        .cause =
            "the host was to work on a GPU (WEFT_GPU), and this process can use none",
        .remedy = "install NVIDIA's driver, pass the GPU into the container, check "
                  "CUDA_VISIBLE_DEVICES and what WEFT_GPU names; or work on host memory: "
                  "WEFT_GPU=host",
        .reference = "docs/gpu.md",
        .decide = "nvidia-smi -L; ls /dev/nvidia*",
        .explanation =
            "Asked for a GPU, weft never takes host memory instead: what was "
            "measured or checked would not be what was asked for. The evidence "
            "has the call of CUDA's driver that failed and its result: 46 is a "
            "GPU in exclusive mode that another process has, 100 is no device, "
            "803 a library that does not fit the kernel's driver, as after an "
            "update without a restart or in a container.",
    },
    {
        .id = DIAG_CONN_VERSION,
        .code = "conn.version",
        .severity = DIAG_ERROR,
        .cause = "the peer uses another version of the protocol",
        .remedy = "install the same version of weft, and of libnccl-net-mesh.so, on all "
                  "hosts and in all images of the job",
        .reference = "docs/wire.md",
        .decide = "weft --version, on both hosts and in both images",
        .explanation =
            "Handles and handshakes contain the version of the protocol, and another "
            "version is rejected before any other field is used. It is not the version "
            "of NCCL's interface: ranks whose NCCL looks up ncclNetPlugin_v8 and ranks "
            "whose NCCL looks up v12 work together.",
    },
};

const struct diag_entries diag_entries_plugin = {entries, WEFT_LENGTH(entries)};
