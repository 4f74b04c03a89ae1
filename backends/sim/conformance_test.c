#include <stdlib.h>

#include "backends/sim/backend.h"
#include "base/check.h"
#include "io/conformance_testing.h"

int main(void)
{
    static const char *const profiles[] = {"mlx5", "hns-hip08", "hns-hip09", "rxe"};
    int n_failed = 0;
    for (size_t i = 0; i < WEFT_LENGTH(profiles); i++) {
        Suite *suite = suite_create("io conformance, sim");
        conformance_add(suite, &backend_sim, profiles[i]);
        SRunner *runner = srunner_create(suite);
        srunner_run_all(runner, CK_ENV);
        n_failed += srunner_ntests_failed(runner);
        srunner_free(runner);
    }
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
