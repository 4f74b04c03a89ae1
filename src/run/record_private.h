/* Shared by the decoders of a record. */
#ifndef WEFT_RUN_RECORD_PRIVATE_H
#define WEFT_RUN_RECORD_PRIVATE_H

#include <string.h>

#include "base/text.h"
#include "run/record.h"

/* Decoding state. json_unpack() checks types; the decoders check values. */
struct record_decoder {
    struct host *host;
    weft_ns origin_ns;
    const char *problem; /* first error, or NULL */
};

static inline void record_bad(struct record_decoder *decoder, const char *problem)
{
    decoder->problem = decoder->problem != NULL ? decoder->problem : problem;
}

static inline void record_text(char *out, size_t n_bytes, const char *text)
{
    weft_format(out, n_bytes, "%s", text);
}

bool record_gid(const char *text, union ibv_gid *out);

/* record_links.c: connections with their paths, and completions of their queue pairs. */
void record_connections(struct record_decoder *decoder, json_t *from);
void record_completions(struct record_decoder *decoder, json_t *from);

#endif
