/* One host of a small mesh, all of whose hosts are processes of this machine: addresses, cables and
 * the management network are aliases on the loopback interface (soft/loopback.h). */
#ifndef WEFT_BACKENDS_PLAIN_LOOPBACK_H
#define WEFT_BACKENDS_PLAIN_LOOPBACK_H

#include "io/world.h"

struct plain_loopback;

/* `mesh` is "1: 0-1 1-2 0-2": this process is host 1 of those that the pairs name, and each pair
 * has a cable. Link i of the text is 192.168.(101 + i).0/24, .1 at its first end; port pK leads to
 * host K, a second cable to it is pK.1. All processes have to give the same pairs.
 * WEFT_ERR_INPUT says what is wrong with it. */
weft_status plain_loopback_create(const char *mesh, struct weft_log *log,
                                  struct plain_loopback **out,
                                  struct weft_error *error) WEFT_MUST_CHECK;
/* The same without a host of its own: all hosts of "0-1 1-2 0-2". */
weft_status plain_loopback_create_all(const char *cables, struct weft_log *log,
                                      struct plain_loopback **out,
                                      struct weft_error *error) WEFT_MUST_CHECK;
/* Belongs to it. */
const struct world_spec *plain_loopback_spec(const struct plain_loopback *loopback,
                                             uint32_t *out_host);
void plain_loopback_destroy(struct plain_loopback *loopback); /* NULL is ignored. */

#endif
