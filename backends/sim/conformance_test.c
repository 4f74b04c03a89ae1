#include <stdlib.h>

#include "backends/sim/backend.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/conformance_testing.h"

int main(void)
{
    static const enum weft_profile profiles[] = {
        WEFT_PROFILE_MLX5, WEFT_PROFILE_HNS_HIP08, WEFT_PROFILE_HNS_HIP09,
        WEFT_PROFILE_RXE};
    int status = EXIT_SUCCESS;
    for (size_t i = 0; i < WEFT_LENGTH(profiles); i++) {
        Suite *suite = suite_create("io conformance, sim");
        conformance_add(suite, &backend_sim, profiles[i]);
        if (suite_run(suite) != EXIT_SUCCESS) {
            status = EXIT_FAILURE;
        }
    }
    return status;
}
