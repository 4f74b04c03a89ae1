/* NCCL_IB_HCA as its documentation has it, on the names of a DGX Spark. */
#include <check.h>
#include <string.h>

#include "base/suite_testing.h"
#include "plugin/hca.h"

static const struct {
    const char *list;
    const char *taken; /* of the five ports below, '1' each that is */
} rows[] = {
    {"rocep1s0f0", "10000"},
    {"roce", "11110"},
    {"=roce", "00000"},
    {"=rocep1s0f0,roceP2p1s0f0", "11000"},
    {"^rocep1s0f", "01011"},
    {"^=rocep1s0f0", "01111"},
    {"mlx5_1:2", "00001"},
    {"mlx5_1:1", "00000"},
    {"^mlx5_1:1", "11111"},
    {"^mlx5_1:2,rocep1s0f1:1", "11010"},
    {"=mlx5_1:2,=rocep1s0f1", "00001"}, /* one '=', for all names */
    {"rocep1s0f1,,mlx5_1", "00101"},
    {"^", "11111"},
    {"=", "11111"},
    {",", "11111"},
    {"Rocep", "00000"},
};

START_TEST(names_are_chosen_as_nccl_does)
{
    static const struct {
        const char *device;
        uint32_t port;
    } ports[] = {{"rocep1s0f0", 1},
                 {"roceP2p1s0f0", 1},
                 {"rocep1s0f1", 1},
                 {"roceP2p1s0f1", 1},
                 {"mlx5_1", 2}};
    char taken[8] = "";

    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
        taken[i] = hca_takes(rows[_i].list, ports[i].device, ports[i].port) ? '1' : '0';
    }
    ck_assert_str_eq(taken, rows[_i].taken);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hca");
    TCase *tcase = tcase_create("hca");

    tcase_add_loop_test(tcase, names_are_chosen_as_nccl_does, 0,
                        sizeof(rows) / sizeof(rows[0]));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
