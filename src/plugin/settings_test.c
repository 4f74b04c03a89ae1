/* Tests what the plugin reads from the environment: the secret, the management network, the
 * patience, and values that are too long. */
#define _GNU_SOURCE
#include "plugin/settings.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "plugin/relayd.h"

#define D16 "0123456789abcDEF"
#define D64 D16 D16 D16 D16

/* The environment of the current test. */
static struct {
    const char *name, *value;
} environment[2];

static const char *get(const char *name)
{
    for (size_t i = 0; i < WEFT_LENGTH(environment); i++) {
        if (environment[i].name != NULL && strcmp(environment[i].name, name) == 0) {
            return environment[i].value;
        }
    }
    return NULL;
}

static void no_warning(const char *text)
{
    ck_abort_msg("%s", text);
}

static weft_status read_all(struct plugin_settings *settings,
                            struct engine_config *config, struct weft_error *error)
{
    *error = (struct weft_error){0};
    engine_config_default(config);
    return plugin_settings_read(get, no_warning, settings, config, error);
}

static const struct {
    const char *value;
    bool is_valid, is_used;
} secrets[] = {
    {NULL, true, false},
    {"", true, false}, /* as if unset */
    {D64, true, true},
    {D16, false, false},
    {D64 "0", false, false},
    {D16 D16 D16 "0123456789abcDE", false, false},
    {D16 D16 D16 "0123456789abcDEG", false, false},
    {" " D16 D16 D16 "0123456789abcDE", false, false},
    {D64 "\n", false, false},
};

static bool is_never_over(void)
{
    return false;
}

static void no_line(const char *line)
{
    ck_abort_msg("%s", line);
}

/* With an invalid secret neither the plugin nor `weft relayd` starts, because they would trust
 * every peer without one. The error does not contain the value. */
START_TEST(a_secret_that_is_none_is_refused)
{
    struct plugin_settings settings;
    struct engine_config config;
    struct weft_error error;
    struct weft_log log = {0};
    weft_status status;

    environment[0].name = "NCCL_MESH_SECRET";
    environment[0].value = secrets[_i].value;
    status = read_all(&settings, &config, &error);
    ck_assert_int_eq(status, secrets[_i].is_valid ? WEFT_OK : WEFT_ERR_INPUT);
    ck_assert_int_eq(config.conn.has_secret, secrets[_i].is_used);
    if (secrets[_i].is_used) {
        ck_assert_uint_eq(config.conn.secret[0], 0x01);
        ck_assert_uint_eq(config.conn.secret[31], 0xef);
    }
    if (!secrets[_i].is_valid) {
        ck_assert_str_eq(error.message, "NCCL_MESH_SECRET is not 64 hexadecimal digits");
        error = (struct weft_error){0};
        ck_assert_int_eq(plugin_relayd(get, &log, is_never_over, no_line, &error),
                         WEFT_ERR_INPUT);
    }
}
END_TEST

static const struct {
    const char *ours, *theirs;
    const char *management, *interfaces; /* what the backend gets; NULL if nothing */
} networks[] = {
    {NULL, NULL, NULL, NULL},
    {"eth1", NULL, "eth1", NULL},
    {"eth1", "eth0", "eth1", NULL},
    {NULL, "eth", NULL, "eth"},
    {NULL, "=eth0,eth2", NULL, "=eth0,eth2"},
    {NULL, "^docker,lo", NULL, "^docker,lo"},
    {NULL, "e", NULL, NULL}, /* NCCL ignores a value of one character */
};

START_TEST(the_management_network_is_named_or_selected)
{
    struct plugin_settings settings;
    struct engine_config config;
    struct weft_error error;

    environment[0].name = "NCCL_MESH_MANAGEMENT";
    environment[0].value = networks[_i].ours;
    environment[1].name = "NCCL_SOCKET_IFNAME";
    environment[1].value = networks[_i].theirs;
    ck_assert_int_eq(read_all(&settings, &config, &error), WEFT_OK);
    ck_assert_pstr_eq(settings.plain.management, networks[_i].management);
    ck_assert_pstr_eq(settings.plain.interfaces, networks[_i].interfaces);
}
END_TEST

/* Names of variables, and the greatest number of bytes that is used. */
static const struct {
    const char *name;
    size_t n_max;
} rooms[] = {
    {"NCCL_MESH_DEVICES", 255},   {"NCCL_MESH_DUMP", 199},
    {"NCCL_MESH_LOOPBACK", 1023}, {"NCCL_MESH_SIMULATED", 1023},
    {"NCCL_MESH_MANAGEMENT", 63}, {"NCCL_SOCKET_IFNAME", 255},
    {"NCCL_IB_HCA", 511},
};

static char last_warning[100];

static void keep_warning(const char *text)
{
    weft_format(last_warning, sizeof(last_warning), "%s", text);
}

/* A part of a value would select other netdevs, or make another mesh. */
START_TEST(a_value_that_is_too_long_is_ignored)
{
    size_t n_max = rooms[_i / 2].n_max, n = n_max + (size_t)(_i % 2);
    struct plugin_settings settings;
    struct engine_config config;
    struct weft_error error = {0};
    char value[1025], expected[100];

    memset(value, 'x', n);
    value[n] = '\0';
    last_warning[0] = '\0';
    environment[0].name = rooms[_i / 2].name;
    environment[0].value = value;
    environment[1].name = "NCCL_MESH_BACKEND";
    environment[1].value = "sim";
    engine_config_default(&config);
    ck_assert_int_eq(plugin_settings_read(get, keep_warning, &settings, &config, &error),
                     WEFT_OK);
    weft_format(expected, sizeof(expected), "%s: longer than %zu bytes; it is ignored",
                rooms[_i / 2].name, n_max);
    ck_assert_str_eq(last_warning, n > n_max ? expected : "");
    ck_assert_int_eq(memmem(&settings, sizeof(settings), "xxx", 3) == NULL, n > n_max);
}
END_TEST

/* NCCL_MESH_PATIENCE multiplies every limit, but no ACK timeout. The time without a lane still
 * covers the retries of a queue pair. */
START_TEST(patience_multiplies_every_limit)
{
    static const char *const values[] = {NULL, "3", "1000"};
    static const uint32_t factors[] = {1, 3, 1000};
    struct plugin_settings settings;
    struct engine_config config, usual;
    struct weft_error error;

    environment[1].name = NULL;
    environment[0].name = "NCCL_MESH_PATIENCE";
    environment[0].value = values[_i];
    engine_config_default(&usual);
    ck_assert_int_eq(read_all(&settings, &config, &error), WEFT_OK);
    ck_assert_uint_eq(config.conn.patience, factors[_i]);
    ck_assert_int_eq(config.flow.failover_ns, factors[_i] * usual.flow.failover_ns);
    ck_assert_int_eq(config.close_ns, factors[_i] * usual.close_ns);
    ck_assert_int_eq(config.route_ns, factors[_i] * usual.route_ns);
    ck_assert_int_eq(config.conn.total_ns, factors[_i] * usual.conn.total_ns);
    ck_assert_int_eq(config.conn.probe_ns, factors[_i] * usual.conn.probe_ns);
    ck_assert_int_eq(config.conn.authenticate_ns,
                     factors[_i] * usual.conn.authenticate_ns);
    ck_assert_int_eq(config.conn.patience_ns, factors[_i] * usual.conn.patience_ns);
    ck_assert_uint_eq(config.conn.timeout, usual.conn.timeout);
    ck_assert_int_eq(config.flow.hysteresis_ns, usual.flow.hysteresis_ns);
    environment[1].name = "NCCL_IB_TIMEOUT";
    environment[1].value = "22"; /* 8 tries of 17 s */
    ck_assert_int_eq(read_all(&settings, &config, &error), WEFT_OK);
    ck_assert_int_gt(config.flow.failover_ns, INT64_C(137000000000));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin/settings");
    TCase *tcase = tcase_create("settings");

    tcase_add_loop_test(tcase, a_secret_that_is_none_is_refused, 0, WEFT_LENGTH(secrets));
    tcase_add_loop_test(tcase, the_management_network_is_named_or_selected, 0,
                        WEFT_LENGTH(networks));
    tcase_add_loop_test(tcase, a_value_that_is_too_long_is_ignored, 0,
                        2 * WEFT_LENGTH(rooms));

    tcase_add_loop_test(tcase, patience_multiplies_every_limit, 0, 3);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
