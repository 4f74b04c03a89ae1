/* Tests which interfaces NCCL_SOCKET_IFNAME selects, and whether NCCL can use one of them. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "diag/interface.h"
#include "io/interface.h"

/* Checks that `setting` selects the interfaces `expected`, such as "lo enP7s7", of lo, eno1, eno12
 * and enP7s7. */
static void leaves(const char *setting, const char *expected)
{
    static const char *const names[] = {"lo", "eno1", "eno12", "enP7s7"};
    struct weft_text text = {0};

    weft_text_add(&text, "%s", "");
    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        if (io_interface_is_selected(setting, names[i])) {
            weft_text_add(&text, "%s%s", text.n > 0 ? " " : "", names[i]);
        }
    }
    ck_assert_msg(strcmp(text.bytes, expected) == 0, "%s leaves \"%s\"", setting,
                  text.bytes);
    weft_text_fini(&text);
}

START_TEST(names_are_beginnings_unless_they_are_to_be_whole)
{
    leaves("eno1", "eno1 eno12");
    leaves("en", "eno1 eno12 enP7s7");
    leaves("=eno1", "eno1");
    leaves("=en", "");
    leaves("eno123", "");
    leaves("enp7s7", "");
}
END_TEST

START_TEST(lists_and_what_is_to_be_left_out)
{
    leaves("lo,enP", "lo enP7s7");
    leaves("=lo,enP", "lo");
    leaves("=eno1,=lo", "eno1"); /* the second '=' is part of a name */
    leaves("^lo", "eno1 eno12 enP7s7");
    leaves("^lo,eno1", "enP7s7");
    leaves("^=lo,eno1", "eno12 enP7s7");
    leaves("lo:1,enP7s7:2", "lo enP7s7"); /* port numbers are ignored */
    leaves(",,lo,", "lo");
    leaves(",", "lo eno1 eno12 enP7s7");
    leaves("^,", "");
    leaves(" lo", ""); /* a blank is part of the name */
}
END_TEST

static const struct io_interface machine[] = {
    {.name = "lo", .is_running = true, .has_v4 = true},
    {.name = "eno1", .is_running = false, .has_v4 = true},
    {.name = "enP7s7", .is_running = true},
    {.name = "wlan0", .is_running = true, .has_v6 = true},
};

/* Checks the result of diag_interface_missing(), written as "named | others" if NCCL can use no
 * interface, or "" if it can use one. */
static void finds(const char *setting, const char *family, const char *expected)
{
    struct weft_text named = {0}, others = {0}, both = {0};
    bool is_missing = diag_interface_missing(machine, WEFT_LENGTH(machine), setting,
                                             family, &named, &others);

    weft_text_add(&both, "%s", "");
    if (is_missing) {
        weft_text_add(&both, "%s | %s", named.n > 0 ? named.bytes : "",
                      others.n > 0 ? others.bytes : "");
    }
    ck_assert_msg(strcmp(both.bytes, expected) == 0, "%s of %s: \"%s\"", setting,
                  family != NULL ? family : "any", both.bytes);
    weft_text_fini(&named);
    weft_text_fini(&others);
    weft_text_fini(&both);
}

START_TEST(an_interface_counts_that_is_up_and_has_an_address)
{
    finds("lo", NULL, "");
    finds("eno1,wlan0", NULL, "");
    finds("eno1", NULL, "eno1 (down) | lo, wlan0");
    finds("enP7s7", NULL, "enP7s7 (no address) | lo, wlan0");
    finds("eno1,enP", NULL, "eno1 (down), enP7s7 (no address) | lo, wlan0");
    finds("ib0", NULL, " | lo, wlan0");
    finds("^lo,wlan", NULL, "eno1 (down), enP7s7 (no address) | lo, wlan0");
}
END_TEST

START_TEST(an_address_counts_that_is_of_the_family)
{
    finds("wlan0", "AF_INET", "wlan0 (no address) | lo");
    finds("wlan0", "AF_INET6", "");
    finds("lo", "AF_INET6", "lo (no address) | wlan0");
    finds("wlan0", "inet", ""); /* NCCL ignores an unknown family */
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("interface");
    Suite *suite = suite_create("diag/interface");

    tcase_add_test(cases, names_are_beginnings_unless_they_are_to_be_whole);
    tcase_add_test(cases, lists_and_what_is_to_be_left_out);
    tcase_add_test(cases, an_interface_counts_that_is_up_and_has_an_address);
    tcase_add_test(cases, an_address_counts_that_is_of_the_family);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
