/* Timers of a world, and gates that hold calls back until a time. */
#include "backends/fault/private.h"

void fault_timer_set(struct fault_world *world, struct fault_timer *timer, weft_ns at)
{
    weft_heap_set(&world->timers, &timer->due, at);
}

void fault_timer_stop(struct fault_world *world, struct fault_timer *timer)
{
    weft_heap_remove(&world->timers, &timer->due);
}

weft_ns fault_next_timer(const struct fault_world *world)
{
    const struct weft_heap_node *node = weft_heap_peek(&world->timers);

    return node == NULL ? WEFT_NEVER : node->key;
}

void fault_fire_due(struct fault_world *world, weft_ns now)
{
    struct weft_heap_node *node;

    while ((node = weft_heap_peek(&world->timers)) != NULL && node->key <= now) {
        struct fault_timer *timer = weft_container_of(node, struct fault_timer, due);

        weft_heap_remove(&world->timers, node);
        timer->fire(timer);
    }
}

static void open_gate(struct fault_timer *timer)
{
    struct fault_gate *gate = weft_container_of(timer, struct fault_gate, timer);

    io_task_wake(gate->task);
}

void fault_gate_init(struct fault_gate *gate, struct fault_env *env, struct io_task *task)
{
    *gate = (struct fault_gate){.env = env, .task = task};
    gate->timer.due = (struct weft_heap_node)WEFT_HEAP_NODE_INIT;
    gate->timer.fire = open_gate;
}

bool fault_gate_is_shut(struct fault_gate *gate, const struct fault_verdict *verdict)
{
    weft_ns now = io_now(gate->env->inner);

    if (now < gate->until) {
        return true;
    }
    if (verdict->by_ns == 0) {
        return false;
    }
    gate->until = now + verdict->by_ns;
    fault_timer_set(gate->env->world, &gate->timer, gate->until);
    return true;
}

void fault_gate_fini(struct fault_gate *gate)
{
    fault_timer_stop(gate->env->world, &gate->timer);
}
