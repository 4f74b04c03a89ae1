/* Extracts the failure of an external program from the records of libweft-watch.so, where its
 * output does not say. Pure. */
#ifndef WEFT_RUN_PROGRAM_WATCHED_H
#define WEFT_RUN_PROGRAM_WATCHED_H

#include <stdint.h>

#include "run/program_words.h"

/* Returns true if a call of the program failed that programs do not survive, or a request of it
 * ended in error, according to `records` (see below). */
bool program_watched_has_failed(const char *records, uint32_t id);

/* Adds to `words` what `records` say about processes of program `id`. They are lines "ID NS HOST
 * PID PROGRAM CALL KEY=VALUE..." (backends/watch/records.h), in the order in which they were
 * written. Others are ignored. What `words` already contain is kept. */
void program_watched_read(const char *records, uint32_t id, struct program_words *words);

/* A queue pair of a watched process, as the last calls left it. */
struct program_qp {
    uint32_t program; /* its number */
    char device[PROGRAM_NAME_BYTES];
    int64_t number;
    int64_t state;                   /* enum ibv_qp_state */
    int64_t peer_number;             /* -1 if it is not connected */
    char peer_gid[IO_IP_TEXT_BYTES]; /* "" if it is not connected, or by a LID */
};

/* Returns the queue pairs that processes of a host made and did not destroy, owned [n], in the
 * order of their first records. Those of a process that has ended are among them. */
struct program_qp *program_watched_qps(const char *records, uint32_t *n);

#endif
