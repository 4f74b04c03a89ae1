/* A guest that stays up, in which its machine starts programs while the guest's clock is stopped
 * (docs/adr/0012-a-guest-that-stays.md). The machine's side is here and in live.c, the guest's in
 * live_inside.c. Files of the guest's folder, K from 0:
 *
 *   said.K   "NOW RUNNING", and a line "ID CODE" for each program that ended or fault that began
 *   door.K   the guest opens it for writing, and is stopped until the machine releases its lease
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

/* Runs `argv`, which must call rxe_live_inside(), in a guest until `hooks` end it. Fails with
 * WEFT_ERR_CLOSED if a signal ends it, and with WEFT_ERR_ENVIRONMENT if there is no guest or it
 * ends by itself. */
weft_status rxe_live_run(const struct rxe_guest_options *options, char *const *argv,
                         const struct world_lab_hooks *hooks,
                         struct weft_error *error) WEFT_MUST_CHECK;
/* Do the same in parts: the tender is for rxe_guest_run(). The options and hooks must outlive the
 * lab. */
struct world_lab *rxe_live_create(const struct rxe_guest_options *options,
                                  const struct world_lab_hooks *hooks);
struct rxe_guest_tender rxe_live_tender(struct world_lab *lab);
void rxe_live_destroy(struct world_lab *lab);

/* Starts a program at the next door, after its delay. Programs that are started before the next
 * look at doors start at the same door. Returns 0, or an errno. `*out_id`, from 0 in the order of
 * calls, identifies the program from then on. */
int rxe_live_start(struct world_lab *lab, const struct world_lab_program *program,
                   uint32_t *out_id);
/* Sends a signal to the program's process group at the next door. Returns the number with which the
 * hook `ended` is called once it was sent: with code 0, or ESRCH if the program was over. */
uint32_t rxe_live_signal(struct world_lab *lab, uint32_t id, int number);
/* Types bytes at the program's terminal at the next door. Calls `ended` as rxe_live_signal()
 * does. */
uint32_t rxe_live_type(struct world_lab *lab, uint32_t id, const char *bytes, size_t n);
/* Sets the size of the program's terminal from the next door on. */
void rxe_live_resize(struct world_lab *lab, uint32_t id, uint16_t rows, uint16_t columns);
/* Sends the program SIGHUP, because the client that started it is gone, and SIGKILL 2 s later by
 * the guest's clock. */
void rxe_live_hang_up(struct world_lab *lab, uint32_t id);
/* Begin a fault of the mesh at the next door, ignoring its time, or end all faults. Call `ended`
 * with the number that they return and 0 or an errno. */
uint32_t rxe_live_fault(struct world_lab *lab, const struct world_fault *fault);
uint32_t rxe_live_clear(struct world_lab *lab);
/* Captures every frame of every port to `path` from now on, or ends the capture if it is NULL.
 * Calls `ended` as rxe_live_fault() does. */
uint32_t rxe_live_capture(struct world_lab *lab, const char *path);
/* Inspects all hosts at the next door, and calls `ended` as rxe_live_fault() does. The file
 * "out.ID" then has lines of JSON: for each host, and for what is outside all of them, before the
 * first program started that runs or ran last; for what is outside now; and for each host and what
 * is outside a moment later. */
uint32_t rxe_live_look(struct world_lab *lab);
/* Removes the files of a program that is over, or of an inspection. */
void rxe_live_forget(struct world_lab *lab, uint32_t id);
/* Returns the time of the guest's clock at its last door. */
weft_ns rxe_live_now(const struct world_lab *lab);

/* Builds the mesh inside the guest, and serves the machine's requests until the guest ends. */
weft_status rxe_live_inside(const struct world_spec *spec,
                            const struct world_lab_services *services,
                            struct weft_error *error) WEFT_MUST_CHECK;

#endif
