#include "backends/fault/bed_testing.h"

#include <check.h>
#include <errno.h>

#include "backends/sim/backend.h"

struct mesh_test mesh;
struct world *world;
struct io_env *ends[2];
struct io_task tasks[2];

struct world *wrap(struct world *inner, const struct world_spec *spec)
{
    const struct fault_config config = {.is_always = true};

    return fault_world_wrap(inner, spec, &config);
}

void open_world(void)
{
    mesh_test_init(&mesh, 2);
    open_mesh();
}

void open_mesh(void)
{
    struct weft_error error = {0};

    ck_assert_int_eq(backend_sim.create(&mesh.spec, &world, &error), WEFT_OK);
    world = wrap(world, &mesh.spec);
    for (uint32_t i = 0; i < 2; i++) {
        ends[i] = world->ops->host_env(world, i, 0);
        io_task_init(&tasks[i], world->ops->loop(world), ends[i]->host, 1);
    }
}

void close_world(void)
{
    io_task_fini(&tasks[0]);
    io_task_fini(&tasks[1]);
    world->ops->destroy(world);
    coll_mesh_fini(&mesh.coll_mesh);
}

struct world_fault fault_of(enum world_fault_kind kind, enum world_call call)
{
    return (struct world_fault){.kind = kind, .call = call, .nth = 1, .error = ENOMEM};
}

void inject(const struct world_fault *fault)
{
    ck_assert_int_eq(world->ops->inject(world, fault), 0);
}

bool is_woken(const struct io_task *task, weft_ns for_ns)
{
    weft_ns until = world->ops->now(world) + for_ns;
    struct io_task *ready;

    for (;;) {
        while ((ready = io_loop_pop(world->ops->loop(world))) != NULL) {
            if (ready == task) {
                return true;
            }
        }
        if (world->ops->step(world, until) == WEFT_AGAIN) {
            return io_loop_pop(world->ops->loop(world)) == task;
        }
    }
}

void forget_wakes(void)
{
    while (io_loop_pop(world->ops->loop(world)) != NULL) {
    }
}
