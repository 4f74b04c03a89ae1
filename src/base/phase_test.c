#include "base/phase.h"

#include <check.h>

#include "base/error.h"
#include "base/suite_testing.h"

START_TEST(each_phase_is_found_by_its_name)
{
    for (int p = WEFT_PHASE_NONE; p <= WEFT_PHASE_CAPTURE; p++) {
        ck_assert_int_eq(weft_phase_find(weft_phase_name((enum weft_phase)p)), p);
    }
}
END_TEST

static const struct {
    const char *text;
    enum weft_phase phase;
} texts[] = {
    {"", WEFT_PHASE_NONE},
    {"rtr", WEFT_PHASE_RTR},
    {"rtr.1", WEFT_PHASE_RTR},
    {"relay.memory.3", WEFT_PHASE_RELAY},
    {"rt", WEFT_PHASE_UNKNOWN},
    {"rtrx", WEFT_PHASE_UNKNOWN},
    {"RTR", WEFT_PHASE_UNKNOWN},
    {"create", WEFT_PHASE_CREATE},
    {"create_cq", WEFT_PHASE_CREATE_CQ},
};

START_TEST(a_detail_is_not_part_of_the_name)
{
    ck_assert_int_eq(weft_phase_find(texts[_i].text), texts[_i].phase);
}
END_TEST

START_TEST(a_phase_keeps_its_detail)
{
    struct weft_error error = {0};
    char text[WEFT_PHASE_TEXT_BYTES];

    ck_assert_str_eq(weft_error_phase_text(&error, text), "");
    weft_fail(&error, WEFT_ERR_LIMIT, WEFT_PHASE_RELAY, "no more");
    ck_assert_str_eq(weft_error_phase_text(&error, text), "relay");
    weft_error_set_phase(&error, "relay.memory.3");
    ck_assert_int_eq(error.phase, WEFT_PHASE_RELAY);
    ck_assert_str_eq(weft_error_phase_text(&error, text), "relay.memory.3");
    weft_error_set_phase(&error, "rtr");
    ck_assert_str_eq(weft_error_phase_text(&error, text), "rtr");
}
END_TEST

START_TEST(the_peers_phase_is_the_first)
{
    struct weft_error error = {0};

    ck_assert_int_eq(weft_error_first_phase(&error), WEFT_PHASE_NONE);
    weft_fail(&error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "the peer failed");
    ck_assert_int_eq(weft_error_peer_phase(&error), WEFT_PHASE_NONE);
    ck_assert_int_eq(weft_error_first_phase(&error), WEFT_PHASE_PEER);
    weft_error_text(&error, WEFT_VALUE_PEER_PHASE, "rtr.1");
    ck_assert_int_eq(weft_error_peer_phase(&error), WEFT_PHASE_RTR);
    ck_assert_int_eq(weft_error_first_phase(&error), WEFT_PHASE_RTR);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base/phase");
    TCase *tcase = tcase_create("phase");

    tcase_add_test(tcase, each_phase_is_found_by_its_name);
    tcase_add_loop_test(tcase, a_detail_is_not_part_of_the_name, 0,
                        (int)(sizeof(texts) / sizeof(texts[0])));
    tcase_add_test(tcase, a_phase_keeps_its_detail);
    tcase_add_test(tcase, the_peers_phase_is_the_first);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
