#include "plugin/settings.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Sorted by name. */
static const struct plugin_setting settings[] = {
    {"NCCL_MESH_BACKEND", "verbs",
     "`verbs`: RDMA devices by libibverbs; `soft`: simulated NICs over UDP on netdevs; "
     "`sim`: a whole mesh simulated in this process, NCCL_MESH_SIMULATED"},
    {"NCCL_MESH_DEBUG", "0", "1: log at NCCL's level INFO what is otherwise left out"},
    {"NCCL_MESH_DEVICES", "all",
     "netdevs of backend `soft`, separated by commas; with `verbs` WEFT_DEVICES"},
    {"NCCL_MESH_DUMP", "none",
     "file (`.PID` is added) for the state of all connections and requests, when a "
     "signal asks "
     "for it and when a connection fails"},
    {"NCCL_MESH_DUMP_SIGNAL", "USR2",
     "`USR1`, `USR2`, a number, or 0 for none: asks for NCCL_MESH_DUMP's file"},
    {"NCCL_MESH_GID_INDEX", "unset",
     "ignored with a warning: GIDs are chosen by subnet and type, for each cable"},
    {"NCCL_MESH_LOOPBACK", "none",
     "`HOST: A-B B-C ...`: this process is that host of a mesh with these cables, on "
     "loopback "
     "addresses of this machine (backend `soft`); NCCL_HOSTID has to differ, too"},
    {"NCCL_MESH_MANAGEMENT", "the first netdev without an RDMA port",
     "netdev that reaches every host, for handshakes; otherwise the first that "
     "NCCL_SOCKET_IFNAME selects"},
    {"NCCL_MESH_PATIENCE", "1",
     "factor of all limits after which something fails, 1 to 1000, for slow machines"},
    {"NCCL_MESH_QPS", "2", "queue pairs for each rail of a connection, 1 to 4"},
    {"NCCL_MESH_RELAY", "1",
     "1: forwards for hosts without a cable in common, in the plugin's thread; 0: not"},
    {"NCCL_MESH_RETRY_COUNT", "7",
     "transport retries, 1 to 7; NCCL_IB_RETRY_CNT otherwise"},
    {"NCCL_MESH_SECRET", "none",
     "64 hexadecimal digits, the same for all processes: a job key for handshakes"},
    {"NCCL_MESH_SIMULATED", "0-1 1-2 0-2",
     "`A-B B-C ...`: cables of the mesh of backend `sim`; devices are the ports of all "
     "its hosts, by turns"},
    {"NCCL_MESH_TIMEOUT", "14, 16 where a NIC is software",
     "ACK timeout code, 4.096 us x 2^N, 1 to 22; NCCL_IB_TIMEOUT otherwise"},
};

const struct plugin_setting *plugin_setting_at(unsigned index)
{
    return index < sizeof(settings) / sizeof(settings[0]) ? &settings[index] : NULL;
}

static void complain(void (*warn)(const char *text), const char *name, const char *value,
                     const char *why)
{
    char text[300];

    weft_format(text, sizeof(text), "%s=%s: %s", name, value, why);
    warn(text);
}

/* Returns the value of a variable; NULL if it is unset or empty. */
static const char *look(const char *(*get)(const char *name), const char *name)
{
    const char *value = get(name);

    return value == NULL || value[0] == '\0' ? NULL : value;
}

/* Copies the value of a variable to `room`. Returns `room`, or NULL if the variable is unset or
 * empty, or does not fit. */
static const char *keep(const char *(*get)(const char *name),
                        void (*warn)(const char *text), const char *name, char *room,
                        size_t n_room)
{
    const char *value = look(get, name);
    char text[100];

    if (value == NULL) {
        return NULL;
    }
    if (strlen(value) >= n_room) {
        weft_format(text, sizeof(text), "%s: longer than %zu bytes; it is ignored", name,
                    n_room - 1);
        warn(text);
        return NULL;
    }
    weft_format(room, n_room, "%s", value);
    return room;
}

/* Returns a whole number from `least` to `most`; `otherwise` if the variable is unset or
 * invalid. */
static long number(const char *(*get)(const char *name), void (*warn)(const char *text),
                   const char *name, long least, long most, long otherwise)
{
    const char *value = look(get, name);
    char why[80], *end = NULL;
    long result;

    if (value == NULL) {
        return otherwise;
    }
    result = strtol(value, &end, 0); /* accepts hexadecimal, as NCCL does */
    if (*end != '\0' || result < least || result > most) {
        weft_format(why, sizeof(why), "not a number from %ld to %ld; it is ignored",
                    least, most);
        complain(warn, name, value, why);
        return otherwise;
    }
    return result;
}

/* Fails if the value is invalid, because without it the process would trust every peer. */
static weft_status read_secret(const char *(*get)(const char *name),
                               struct conn_config *conn, struct weft_error *error)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *value = look(get, "NCCL_MESH_SECRET");
    uint8_t secret[CONN_SECRET_BYTES] = {0};

    if (value == NULL) {
        return WEFT_OK;
    }
    if (strlen(value) != 2 * sizeof(secret) ||
        strspn(value, digits) != 2 * sizeof(secret)) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_START,
                         "NCCL_MESH_SECRET is not 64 hexadecimal digits");
    }
    for (size_t i = 0; i < 2 * sizeof(secret); i++) {
        const char *at = strchr(digits, value[i]);

        secret[i / 2] = (uint8_t)(secret[i / 2] << 4 | ((at - digits) & 15));
    }
    conn->has_secret = true;
    memcpy(conn->secret, secret, sizeof(secret));
    return WEFT_OK;
}

/* Reads settings of NCCL's own network. NCCL_IB_TC applies to all connections; without it,
 * communicators may have their own. */
static void read_nccl_ib(const char *(*get)(const char *name),
                         void (*warn)(const char *text), struct plugin_settings *out,
                         struct engine_config *config)
{
    long traffic_class = number(get, warn, "NCCL_IB_TC", 0, 255, -1);
    struct conn_config *conn = &config->conn;

    config->hca = keep(get, warn, "NCCL_IB_HCA", out->hca, sizeof(out->hca));
    if (traffic_class >= 0) {
        conn->traffic_class = (uint8_t)traffic_class;
        config->class_is_fixed = true;
    }
    conn->timeout = (uint8_t)number(get, warn, "NCCL_IB_TIMEOUT", 1, 22, conn->timeout);
    conn->retry_cnt =
        (uint8_t)number(get, warn, "NCCL_IB_RETRY_CNT", 1, 7, conn->retry_cnt);
}

/* Warns of settings that have no meaning here, because the user expects an effect. */
static void warn_of_others(const char *(*get)(const char *name),
                           void (*warn)(const char *text))
{
    static const struct {
        const char *name, *why;
    } others[] = {
        {"NCCL_IB_GID_INDEX", "GIDs are chosen by subnet and type, for each cable"},
        {"NCCL_MESH_GID_INDEX", "GIDs are chosen by subnet and type, for each cable"},
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *value = look(get, others[i].name);

        if (value != NULL) {
            complain(warn, others[i].name, value, others[i].why);
        }
    }
}

static void read_dump(const char *(*get)(const char *name),
                      void (*warn)(const char *text), struct plugin_settings *out)
{
    const char *name = look(get, "NCCL_MESH_DUMP_SIGNAL");

    out->dump_signal = SIGUSR2;
    (void)keep(get, warn, "NCCL_MESH_DUMP", out->dump, sizeof(out->dump));
    if (name != NULL && (strcmp(name, "USR1") == 0 || strcmp(name, "SIGUSR1") == 0)) {
        out->dump_signal = SIGUSR1;
    } else if (name != NULL && strcmp(name, "USR2") != 0 &&
               strcmp(name, "SIGUSR2") != 0) {
        out->dump_signal =
            (int)number(get, warn, "NCCL_MESH_DUMP_SIGNAL", 0, 64, SIGUSR2);
    }
}

/* NCCL ignores a NCCL_SOCKET_IFNAME of one character. */
static void read_management(const char *(*get)(const char *name),
                            void (*warn)(const char *text), struct plugin_settings *out)
{
    const char *theirs = look(get, "NCCL_SOCKET_IFNAME");

    out->plain.management =
        keep(get, warn, "NCCL_MESH_MANAGEMENT", out->management, sizeof(out->management));
    if (out->plain.management == NULL && theirs != NULL && theirs[1] != '\0') {
        out->plain.interfaces = keep(get, warn, "NCCL_SOCKET_IFNAME", out->interfaces,
                                     sizeof(out->interfaces));
    }
}

static void read_backend(const char *(*get)(const char *name),
                         void (*warn)(const char *text), struct plugin_settings *out)
{
    const char *backend = look(get, "NCCL_MESH_BACKEND");

    if (backend != NULL && strcmp(backend, "sim") == 0) {
        const char *mesh = keep(get, warn, "NCCL_MESH_SIMULATED", out->simulated,
                                sizeof(out->simulated));

        out->plain.simulated = mesh != NULL ? mesh : "0-1 1-2 0-2";
    } else if (backend != NULL && strcmp(backend, "soft") == 0) {
        out->plain.is_soft = true;
    } else if (backend != NULL && strcmp(backend, "verbs") != 0) {
        complain(warn, "NCCL_MESH_BACKEND", backend,
                 "neither verbs nor soft nor sim; it is verbs");
    }
}

weft_status plugin_settings_read(const char *(*get)(const char *name),
                                 void (*warn)(const char *text),
                                 struct plugin_settings *out,
                                 struct engine_config *config, struct weft_error *error)
{
    struct conn_config *conn = &config->conn;

    memset(out, 0, sizeof(*out));
    read_backend(get, warn, out);
    out->plain.netdevs =
        keep(get, warn, "NCCL_MESH_DEVICES", out->netdevs, sizeof(out->netdevs));
    out->plain.loopback =
        keep(get, warn, "NCCL_MESH_LOOPBACK", out->loopback, sizeof(out->loopback));
    out->plain.is_soft = out->plain.is_soft || out->plain.loopback != NULL;
    read_management(get, warn, out);
    read_dump(get, warn, out);
    out->is_debug = number(get, warn, "NCCL_MESH_DEBUG", 0, 9, 0) > 0;
    config->relays = number(get, warn, "NCCL_MESH_RELAY", 0, 1, 1) != 0;
    read_nccl_ib(get, warn, out, config);
    conn->timeout = (uint8_t)number(get, warn, "NCCL_MESH_TIMEOUT", 1, 22, conn->timeout);
    conn->retry_cnt =
        (uint8_t)number(get, warn, "NCCL_MESH_RETRY_COUNT", 1, 7, conn->retry_cnt);
    engine_config_stretch(config, (uint32_t)number(get, warn, "NCCL_MESH_PATIENCE", 1,
                                                   TIMER_PATIENCE_MAX, 1));
    engine_config_outlast_retries(config);
    conn->qps_per_rail =
        (uint32_t)number(get, warn, "NCCL_MESH_QPS", 1, 4, (long)conn->qps_per_rail);
    warn_of_others(get, warn);
    return read_secret(get, conn, error);
}

static bool is_read(const char *name, size_t n_name)
{
    static const char *const of_nccl[] = {"NCCL_IB_HCA", "NCCL_IB_GID_INDEX",
                                          "NCCL_IB_TC", "NCCL_IB_TIMEOUT",
                                          "NCCL_IB_RETRY_CNT"};
    const struct plugin_setting *setting;

    for (size_t i = 0; i < sizeof(of_nccl) / sizeof(of_nccl[0]); i++) {
        if (strlen(of_nccl[i]) == n_name && memcmp(of_nccl[i], name, n_name) == 0) {
            return true;
        }
    }
    for (unsigned i = 0; (setting = plugin_setting_at(i)) != NULL; i++) {
        if (strlen(setting->name) == n_name && memcmp(setting->name, name, n_name) == 0) {
            return true;
        }
    }
    return false;
}

void plugin_settings_unread(char *const *environment, void (*warn)(const char *text))
{
    static const char ours[] = "NCCL_MESH_", theirs[] = "NCCL_IB_";
    char text[200];

    for (; *environment != NULL; environment++) {
        const char *name = *environment;
        size_t n_name = strcspn(name, "=");
        bool is_ours = strncmp(name, ours, sizeof(ours) - 1) == 0;

        if ((!is_ours && strncmp(name, theirs, sizeof(theirs) - 1) != 0) ||
            name[n_name] == '\0' || name[n_name + 1] == '\0' || is_read(name, n_name)) {
            continue;
        }
        weft_format(text, sizeof(text), "%.*s: %s; it is ignored",
                    n_name < 100 ? (int)n_name : 100, name,
                    is_ours ? "no setting of this plugin (`weft plugin` lists them)"
                            : "of NCCL's own network, which this plugin replaces");
        warn(text);
    }
}

weft_status plugin_settings_check(const char *(*get)(const char *name),
                                  char *const *environment,
                                  void (*warn)(const char *text),
                                  struct weft_error *error)
{
    struct plugin_settings ignored;
    struct engine_config config;
    weft_status status;

    engine_config_default(&config);
    status = plugin_settings_read(get, warn, &ignored, &config, error);
    plugin_settings_unread(environment, warn);
    return status;
}
