/* Names and ports of hosts, for starting jobs. */
#ifndef WEFT_BACKENDS_LINUX_NAMES_H
#define WEFT_BACKENDS_LINUX_NAMES_H

#include "base/error.h"
#include "io/addr.h"

/* Resolves `name` to the first address that getaddrinfo(3) returns; can block. Fails with
 * WEFT_ERR_INPUT if there is none. */
weft_status linux_resolve(const char *name, struct io_ip *out, struct weft_error *error);
/* Copies gethostname(2), terminated. Leaves `out` unchanged on failure. */
void linux_host_name(char *out, size_t n_bytes);
/* Returns a TCP port that is free at the moment; 0 if there is none. */
uint16_t linux_free_port(void);

#endif
