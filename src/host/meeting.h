/* All-gathers between the members of a job while none of them runs: before the job, of facts about
 * each, and after it, of results. Waits by letting the world's time pass, so nothing else can run
 * in this process meanwhile. */
#ifndef WEFT_HOST_MEETING_H
#define WEFT_HOST_MEETING_H

#include "base/text.h"
#include "boot/boot.h"
#include "io/world.h"

struct meeting;

/* Opens a meeting, which meeting_close frees. `world` has one member, `env`; both must outlive the
 * meeting. */
weft_status meeting_open(struct world *world, struct io_env *env,
                         const struct boot_config *config, struct meeting **out,
                         struct weft_error *error) WEFT_MUST_CHECK;
/* Performs one all-gather and waits for its end. `*out_all` (unless NULL) holds n_members * n_bytes
 * until the next; with `to_first` it is NULL on members that did not get the result. */
weft_status meeting_gather(struct meeting *meeting, const void *mine, size_t n_bytes,
                           bool to_first, const uint8_t **out_all,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* Gathers texts of any length up to 16 MiB: out[n_members], which the caller passes empty and
 * frees. The text of an absent member stays empty. `*out_gathered_ns` is the time, by each member's
 * own clock, at which all knew the lengths, nearly the same moment for all. */
weft_status meeting_gather_texts(struct meeting *meeting, const struct weft_text *mine,
                                 bool to_first, struct weft_text *out,
                                 weft_ns *out_gathered_ns,
                                 struct weft_error *error) WEFT_MUST_CHECK;
/* Returns the lowest member that is not absent, as known to this one; it judges the run. */
uint32_t meeting_first(const struct meeting *meeting);
/* Reports that the process of `member` ended. */
void meeting_ended(struct meeting *meeting, uint32_t member);
/* Waits, for at most 5 s, until rank 0 has closed this meeting. Call it before another meeting, or
 * a job, at the same address. */
void meeting_part(struct meeting *meeting);
/* NULL is ignored. */
void meeting_close(struct meeting *meeting);

#endif
