#include "io/loop.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

static size_t n_words(const struct io_loop *loop)
{
    return ((size_t)loop->n_hosts + 63) / 64;
}

static bool test_bit(const uint64_t *bitmap, uint32_t bit)
{
    return (bitmap[bit / 64] >> (bit % 64) & 1) != 0;
}

static void set_bit(uint64_t *bitmap, uint32_t bit, bool value)
{
    uint64_t mask = (uint64_t)1 << (bit % 64);
    if (value) {
        bitmap[bit / 64] |= mask;
    } else {
        bitmap[bit / 64] &= ~mask;
    }
}

void io_loop_init(struct io_loop *loop, uint32_t n_hosts)
{
    *loop = (struct io_loop){.n_hosts = n_hosts};
    weft_heap_init(&loop->deadlines);
    loop->ready = weft_calloc((size_t)n_hosts + 1, sizeof *loop->ready);
    loop->is_ready = weft_calloc(n_words(loop) + 1, sizeof *loop->is_ready);
    loop->is_paused = weft_calloc(n_words(loop) + 1, sizeof *loop->is_paused);
}

void io_loop_fini(struct io_loop *loop)
{
    weft_heap_fini(&loop->deadlines);
    free(loop->ready);
    free(loop->is_ready);
    free(loop->is_paused);
    *loop = (struct io_loop){0};
}

void io_task_init(struct io_task *task, struct io_loop *loop, uint32_t host, int kind)
{
    weft_check(host < loop->n_hosts);
    *task = (struct io_task){
        .loop = loop, .due = WEFT_HEAP_NODE_INIT, .host = host, .kind = kind};
}

/* Sets the ready bit of `host` from its list and its pause. */
static void update_ready(struct io_loop *loop, uint32_t host)
{
    bool was = test_bit(loop->is_ready, host);
    bool is = loop->ready[host].first != NULL && !test_bit(loop->is_paused, host);
    if (was != is) {
        set_bit(loop->is_ready, host, is);
        loop->n_ready += is ? 1 : (uint32_t)-1;
    }
}

static void take_out(struct io_loop *loop, struct io_task *task)
{
    struct io_ready *list = &loop->ready[task->host];
    struct io_task *before = NULL;
    struct io_task *at = list->first;
    while (at != task) {
        weft_check(at != NULL);
        before = at;
        at = at->next;
    }
    if (before == NULL) {
        list->first = task->next;
    } else {
        before->next = task->next;
    }
    if (list->last == task) {
        list->last = before;
    }
    task->next = NULL;
    task->queued = false;
    update_ready(loop, task->host);
}

void io_task_fini(struct io_task *task)
{
    if (task->loop == NULL) {
        return;
    }
    if (task->queued) {
        take_out(task->loop, task);
    }
    weft_heap_remove(&task->loop->deadlines, &task->due);
    task->loop = NULL;
}

void io_task_wake(struct io_task *task)
{
    if (task == NULL || task->queued) {
        return;
    }
    weft_check(task->loop != NULL);
    struct io_ready *list = &task->loop->ready[task->host];
    task->queued = true;
    task->next = NULL;
    if (list->last == NULL) {
        list->first = task;
    } else {
        list->last->next = task;
    }
    list->last = task;
    update_ready(task->loop, task->host);
}

void io_task_deadline(struct io_task *task, weft_ns at)
{
    if (at == WEFT_NEVER) {
        weft_heap_remove(&task->loop->deadlines, &task->due);
    } else if (task->due.index == WEFT_HEAP_OUT || task->due.key != at) {
        weft_heap_set(&task->loop->deadlines, &task->due, at);
    }
}

void io_task_wake_by(struct io_task *task, weft_ns at)
{
    if (task->due.index == WEFT_HEAP_OUT || task->due.key > at) {
        io_task_deadline(task, at);
    }
}

void io_loop_pause(struct io_loop *loop, uint32_t host, bool paused)
{
    set_bit(loop->is_paused, host, paused);
    loop->n_pauses++;
    update_ready(loop, host);
}

bool io_loop_is_paused(const struct io_loop *loop, uint32_t host)
{
    return test_bit(loop->is_paused, host);
}

void io_loop_expire(struct io_loop *loop, weft_ns now)
{
    struct weft_heap_node *node;
    while ((node = weft_heap_peek(&loop->deadlines)) != NULL && node->key <= now) {
        weft_heap_remove(&loop->deadlines, node);
        io_task_wake(weft_container_of(node, struct io_task, due));
    }
}

weft_ns io_loop_next_deadline(const struct io_loop *loop)
{
    const struct weft_heap_node *node = weft_heap_peek(&loop->deadlines);
    return node == NULL ? WEFT_NEVER : node->key;
}

struct io_task *io_loop_pop(struct io_loop *loop)
{
    if (loop->n_ready == 0) {
        return NULL;
    }
    size_t word = 0;
    while (loop->is_ready[word] == 0) {
        word++;
    }
    uint32_t host = (uint32_t)word * 64 + (uint32_t)__builtin_ctzll(loop->is_ready[word]);
    struct io_task *task = loop->ready[host].first;
    take_out(loop, task);
    return task;
}
