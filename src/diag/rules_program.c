/* Rules about wrong values that a program sends to its peer, on any network. */
#include <string.h>

#include "diag/private.h"

#define QPN_16_BITS_MAX 0xffff

/* Returns YES if the program on `host` sends only 16 bits of QP numbers. */
static enum diag_known sends_16_bits(const struct diag_host *host)
{
    return diag_has_policy(host, WEFT_POLICY_MESH_PLUGIN_2026_01);
}

static enum diag_known is_long(int64_t qpn)
{
    return qpn == IO_UNKNOWN ? DIAG_UNKNOWN : diag_known_of(qpn > QPN_16_BITS_MAX);
}

/* Returns YES if the peer's QP number exceeds 16 bits, according to the peer's own failure. This
 * end received only the truncated number. */
static enum diag_known peer_is_long(const struct diag_case *c)
{
    enum diag_known answer = DIAG_UNKNOWN;

    for (uint32_t i = 0; c->peer != NULL && i < c->peer->n_errors; i++) {
        const struct diag_error *error = &c->peer->errors[i];
        const struct weft_value *value =
            weft_error_value(&error->error, WEFT_VALUE_LOCAL_QPN);

        if (strcmp(error->peer, c->host->name) == 0 && value != NULL) {
            answer = is_long(value->number);
        }
    }
    return answer;
}

enum diag_known diag_is_qpn_truncated(const struct diag_case *c)
{
    enum diag_known here = sends_16_bits(c->host);
    enum diag_known there = sends_16_bits(c->peer);
    /* In a turned case the reporting end knows only the number that it received. */
    int64_t own = c->is_turned ? IO_UNKNOWN : diag_number(c, WEFT_VALUE_LOCAL_QPN);

    if (diag_way_works(c) || c->phase == WEFT_PHASE_DATA) {
        return DIAG_NO; /* the exchanged numbers were right */
    }
    return diag_or(diag_and(here, is_long(own)), diag_and(there, peer_is_long(c)));
}

/* Returns YES if the failure is one of the rendezvous, whose address was a loopback address. */
static enum diag_known is_at_loopback(const struct weft_error *error)
{
    const struct weft_value *value = weft_error_value(error, WEFT_VALUE_RENDEZVOUS);

    if (error->phase != WEFT_PHASE_NONE &&
        (error->phase != WEFT_PHASE_BOOT || error->status == WEFT_ERR_CLOSED)) {
        return DIAG_NO;
    }
    if (value == NULL) {
        return DIAG_UNKNOWN;
    }
    return diag_known_of(strncmp(value->text, "127.", 4) == 0 ||
                         strcmp(value->text, "::1") == 0);
}

/* Returns YES if either end used a loopback address, because only one of them might have a wrong
 * one. */
enum diag_known diag_is_loopback(const struct diag_case *c)
{
    enum diag_known answer = is_at_loopback(&c->failure->error);

    if (c->phase != WEFT_PHASE_BOOT) {
        return DIAG_NO;
    }
    for (uint32_t i = 0; c->peer != NULL && i < c->peer->n_errors; i++) {
        const struct diag_error *error = &c->peer->errors[i];

        enum diag_known is_us =
            error->peer[0] == '\0'
                ? DIAG_UNKNOWN
                : diag_known_of(strcmp(error->peer, c->host->name) == 0);

        answer = diag_or(answer, diag_and(is_us, is_at_loopback(&error->error)));
    }
    return answer;
}
