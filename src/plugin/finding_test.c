/* Tests that failures have the code of a finding in NCCL's log. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "plugin/engine.h"
#include "plugin/engine_testing.h"
#include "plugin/finding.h"

#define SECOND INT64_C(1000000000)

static struct harness harness;

static const char *finding_of(const struct weft_error *error)
{
    for (unsigned i = 0; i < error->n_values; i++) {
        if (error->values[i].name == WEFT_VALUE_FINDING) {
            return error->values[i].text;
        }
    }
    return "";
}

static void expect(weft_status status, enum weft_phase phase, int sys_errno,
                   const char *wanted, const char *line)
{
    struct weft_error error = {0};
    char text[400];

    weft_fail(&error, status, phase, "it failed");
    error.sys_errno = sys_errno;
    finding_name(NULL, &error);
    ck_assert_str_eq(finding_of(&error), wanted);
    finding_format(&error, text, sizeof(text));
    ck_assert_str_eq(text, line);
}

START_TEST(what_is_certain_is_named)
{
    expect(WEFT_ERR_ENVIRONMENT, WEFT_PHASE_START, 0, "host.no_device",
           "start: it failed [host.no_device: weft explain host.no_device]");
    expect(WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, 0, "route.no_facing_port",
           "route: it failed [route.no_facing_port: weft explain route.no_facing_port]");
    expect(WEFT_ERR_AUTH, WEFT_PHASE_AUTH, 0, "conn.auth_failed",
           "auth: it failed [conn.auth_failed: weft explain conn.auth_failed]");
}
END_TEST

START_TEST(what_is_not_is_told_as_it_is)
{
    expect(WEFT_ERR_LIMIT, WEFT_PHASE_IRECV, 0, "", "irecv: it failed");
}
END_TEST

/* The only cable goes down permanently while a send waits. */
START_TEST(a_cable_that_is_gone_has_its_name)
{
    const struct world_fault down = {
        .kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};
    struct engine_comm *out, *in;
    struct engine_request *send;
    struct engine_memory *memory;
    struct weft_error error = {0};
    static uint8_t data[4096];
    weft_ns until;
    uint32_t n = 0;
    size_t sizes[ENGINE_GROUP_MAX];

    harness_open(&harness, 2, 1);
    harness_connect(&harness, 0, 1, &out, &in);
    ck_assert_int_eq(harness_register(out, data, sizeof(data), &memory, &error), WEFT_OK);
    ck_assert_int_eq(engine_isend(out, data, sizeof(data), 1, memory, &send), WEFT_OK);
    ck_assert_int_eq(harness.world->ops->inject(harness.world, &down), 0);
    until = harness_now(&harness) + 120 * SECOND;
    while (engine_test(send, sizes, &n) == WEFT_AGAIN && harness_step(&harness, until)) {
    }
    engine_comm_error(out, &error);
    ck_assert_str_eq(finding_of(&error), "link.down");
    engine_deregister(out, memory);
    engine_close(out);
    engine_close(in);
    harness_close(&harness);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("plugin/finding");
    TCase *tcase = tcase_create("finding");

    tcase_add_test(tcase, what_is_certain_is_named);
    tcase_add_test(tcase, what_is_not_is_told_as_it_is);
    tcase_add_test(tcase, a_cable_that_is_gone_has_its_name);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
