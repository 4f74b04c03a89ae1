/* Names of hosts, for those who start a job by them. */
#ifndef WEFT_BACKENDS_LINUX_NAMES_H
#define WEFT_BACKENDS_LINUX_NAMES_H

#include "base/error.h"
#include "io/addr.h"

/* The first address that the system's resolver knows, getaddrinfo(3); may take its time.
 * WEFT_ERR_INPUT: none. */
weft_status linux_resolve(const char *name, struct io_ip *out, struct weft_error *error);
/* gethostname(2), always terminated; left alone if there is none. */
void linux_host_name(char *out, size_t n_bytes);
/* A TCP port that nobody has now; 0: none. */
uint16_t linux_free_port(void);

#endif
