/* All-gathers of the members of a job while none of them runs: before there is a job, of what
 * each of them is, and after it, of what each of them did. Waits by letting the world's time
 * pass, so nothing else may run in this process meanwhile. */
#ifndef WEFT_HOST_MEETING_H
#define WEFT_HOST_MEETING_H

#include "base/text.h"
#include "boot/boot.h"
#include "io/world.h"

struct meeting;

/* `world` has one member, `env`; both outlive the meeting. */
weft_status meeting_open(struct world *world, struct io_env *env,
                         const struct boot_config *config, struct meeting **out,
                         struct weft_error *error) WEFT_MUST_CHECK;
/* One gather of boot's, up to its end. `*out_all` (NULL: not wanted) holds n_members * n_bytes
 * until the next; of one `to_first` it may be NULL on others than meeting_first. */
weft_status meeting_gather(struct meeting *meeting, const void *mine, size_t n_bytes,
                           bool to_first, const uint8_t **out_all,
                           struct weft_error *error) WEFT_MUST_CHECK;
/* The same of bytes of any length: out[n_members], each empty at first and the caller's; of a
 * member that is absent it stays so. `*out_told_ns` is when all knew how long they are: nearly
 * the same moment for all, by each one's clock. */
weft_status meeting_gather_texts(struct meeting *meeting, const struct weft_text *mine,
                                 bool to_first, struct weft_text *out,
                                 weft_ns *out_told_ns,
                                 struct weft_error *error) WEFT_MUST_CHECK;
/* Who judges: the lowest member that is not absent, as this one knows. */
uint32_t meeting_first(const struct meeting *meeting);
/* `member` is known to be no more. */
void meeting_ended(struct meeting *meeting, uint32_t member);
/* Before another meeting, or a job, at the same place: waits until rank 0 has closed this one,
 * for a bounded time. */
void meeting_part(struct meeting *meeting);
/* NULL is ignored. */
void meeting_close(struct meeting *meeting);

#endif
