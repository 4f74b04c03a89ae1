/* The conformance suite of the I/O interface over simulated NICs in real time, on loopback
 * addresses. */

#include "backends/soft/world_testing.h"
#include "base/suite_testing.h"
#include "io/conformance_testing.h"

/* Frees the suite's tasks before the world's loop. */
static void destroy(struct world *world)
{
    for (uint32_t i = 0; world != NULL && i < 2; i++) {
        for (int j = 0; j < N_TASKS; j++) {
            io_task_fini(&now_testing.task[i][j]);
        }
    }
    soft_testing_ops.destroy(world);
}

int main(void)
{
    struct world_ops ops = soft_testing_ops;
    ops.destroy = destroy;
    Suite *suite = suite_create("io conformance, soft");
    conformance_add(suite, &ops, WEFT_PROFILE_MLX5);
    return suite_run(suite);
}
