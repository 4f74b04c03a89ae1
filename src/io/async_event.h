/* Async events of devices whose library or model has them as ibv_get_async_event(3) does. */
#ifndef WEFT_IO_ASYNC_EVENT_H
#define WEFT_IO_ASYNC_EVENT_H

#include "io/verbs.h"

/* Returns the event with the member of `element` that is valid for its type. Of types newer than
 * these headers, which do not concern our objects, and of those of SRQs, it has the type only. */
struct io_async_event io_async_event_of(const struct ibv_async_event *event);

#endif
