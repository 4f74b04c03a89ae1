/* A node without a scenario: what its machine and the others' are makes one. */
#ifndef WEFT_CLI_SITE_H
#define WEFT_CLI_SITE_H

#include "cli/member.h"

/* Appends the file's text, the same on all ranks; else after a message. */
weft_status cli_site_find(const struct cli_options *options,
                          const struct cli_member *member, struct weft_text *out);

#endif
