#include <string.h>

#include "run/private.h"

/* Returns true if the line is a frame event. Frames have an event type of their own, so that the
 * hash can exclude them and is the same with and without them. */
static bool is_frame(const char *line, size_t n_bytes)
{
    unsigned n_blanks = 0;

    for (size_t i = 0; i < n_bytes; i++) {
        n_blanks += line[i] == ' ';
        if (n_blanks == 3) {
            return n_bytes - i > 7 && memcmp(line + i, " frame ", 7) == 0;
        }
    }
    return false;
}

static void take(void *context, const char *line, size_t n_bytes)
{
    struct run_story *story = context;

    if (story->parts != NULL) {
        run_story_add(story, 0, 0, line, n_bytes);
        return;
    }
    if (story->trace.level < WEFT_TRACE_PACKET || !is_frame(line, n_bytes)) {
        crypto_hash_sha256_update(&story->hash, (const unsigned char *)line, n_bytes);
    }
    if (story->sink != NULL) {
        story->sink(story->context, line, n_bytes);
    }
}

void run_story_init(struct run_story *story, const struct run_options *options)
{
    enum weft_trace_level level = options->trace_level;

    /* The hash always covers the whole event log. */
    level = level < WEFT_TRACE_STORY ? WEFT_TRACE_STORY : level;
    crypto_hash_sha256_init(&story->hash);
    story->sink = options->trace_level == WEFT_TRACE_OFF ? NULL : options->events;
    story->context = options->events_context;
    weft_trace_init(&story->trace, level, options->no_story ? NULL : take, story);
}

void run_story_hash(const struct run_story *story, char out[65])
{
    crypto_hash_sha256_state state = story->hash;
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256_final(&state, digest);
    sodium_bin2hex(out, 65, digest, sizeof(digest));
}

void run_story_end(struct run_story *story)
{
    story->trace.sink = NULL;
}
