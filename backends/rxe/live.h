/* A guest that stays: how its machine starts programs in it while its clock stands still
 * (docs/adr/0012-a-guest-that-stays.md). The machine's side is here and in live.c, the guest's in
 * live_inside.c. Files of the guest's folder, K from 0:
 *
 *   said.K   "NOW RUNNING", and a line "ID CODE" for each program that ended, and fault that came
 *   door.K   the guest opens it for writing, and stands still until the machine gives up its
 *            lease
 *   ask.K    words, each ended by a NUL: "exec" ID HOST DELAY CWD SIZE N argv[N] M variables[M],
 *            "input" ID PROGRAM DIGITS, "size" PROGRAM SIZE, "signal" ID PROGRAM NUMBER,
 *            "hangup" PROGRAM, "fault" ID DIGITS, "clear" ID, "capture" ID PATH, "look" ID; SIZE is
 *            that of a terminal, ROWS x 65536 + COLUMNS, or 0 for none
 *   out.ID err.ID in.ID   of a program; out.ID also of a look
 */
#ifndef WEFT_BACKENDS_RXE_LIVE_H
#define WEFT_BACKENDS_RXE_LIVE_H

#include <poll.h>

#include "backends/rxe/guest.h"
#include "io/lab.h"

/* Runs `argv`, which is to call rxe_live_inside, in a guest until `hooks` end it (WEFT_OK), or a
 * signal does (WEFT_ERR_CLOSED). WEFT_ERR_ENVIRONMENT: no guest, or it ended by itself. */
weft_status rxe_live_run(const struct rxe_guest_options *options, char *const *argv,
                         const struct world_lab_hooks *hooks,
                         struct weft_error *error) WEFT_MUST_CHECK;
/* The same in parts: the tender is for rxe_guest_run. The options and hooks outlive the lab. */
struct world_lab *rxe_live_create(const struct rxe_guest_options *options,
                                  const struct world_lab_hooks *hooks);
struct rxe_guest_tender rxe_live_tender(struct world_lab *lab);
void rxe_live_destroy(struct world_lab *lab);

/* Starts a program at the next door, its delay later. Those that are started before the next look
 * at doors start at the same door. Returns 0, or an errno; *out_id, from 0 in the order of calls,
 * names it from then on. */
int rxe_live_start(struct world_lab *lab, const struct world_lab_program *program,
                   uint32_t *out_id);
/* Sends a signal to the program's process group, at the next door. `ended` of the hooks hears of
 * its number when it was there, with 0, or ESRCH: the program was over. */
uint32_t rxe_live_signal(struct world_lab *lab, uint32_t id, int number);
/* Bytes that were typed at its terminal, at the next door; `ended` as of a signal. */
uint32_t rxe_live_type(struct world_lab *lab, uint32_t id, const char *bytes, size_t n);
/* The size of its terminal from the next door on. */
void rxe_live_resize(struct world_lab *lab, uint32_t id, uint16_t rows, uint16_t columns);
/* The client that started it is gone: SIGHUP, and SIGKILL 2 s later, by the guest's clock. */
void rxe_live_hang_up(struct world_lab *lab, uint32_t id);
/* A fault of the mesh at the next door, whatever its time says; or the end of all of them. `ended`
 * of the hooks hears of its number, with 0 or an errno. */
uint32_t rxe_live_fault(struct world_lab *lab, const struct world_fault *fault);
uint32_t rxe_live_clear(struct world_lab *lab);
/* Every frame of every port from now on into that file, or (NULL) no more; as above. */
uint32_t rxe_live_capture(struct world_lab *lab, const char *path);
/* Looks at all hosts at the next door; `ended` as above. Then the file "out.ID" has lines of JSON:
 * of each host and of what is outside all of them before the first program started that runs, or
 * ran last; of what is outside now; and of each host and of what is outside a moment later. */
uint32_t rxe_live_look(struct world_lab *lab);
/* Removes the files of a program that is over, or of a look. */
void rxe_live_forget(struct world_lab *lab, uint32_t id);
/* By the guest's clock, as of its last door. */
weft_ns rxe_live_now(const struct world_lab *lab);

/* In the guest: builds the mesh, and starts what is asked for until the guest ends. */
weft_status rxe_live_inside(const struct world_spec *spec,
                            const struct world_lab_services *services,
                            struct weft_error *error) WEFT_MUST_CHECK;

#endif
