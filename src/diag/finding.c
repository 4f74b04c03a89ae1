/* Makes findings, with place and evidence, and collects them. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

void diag_name_place(struct diag_finding *out, const char *host, const char *port,
                     const char *peer)
{
    weft_format(out->host, sizeof(out->host), "%s", host);
    weft_format(out->port, sizeof(out->port), "%s", port);
    weft_format(out->peer, sizeof(out->peer), "%s", peer);
}

static struct diag_value *evidence_add(struct diag_finding *out, const char *name)
{
    struct diag_value *value;

    for (uint32_t i = 0; i < out->n_evidence; i++) {
        if (strcmp(out->evidence[i].name, name) == 0) {
            return NULL;
        }
    }
    if (out->n_evidence == DIAG_EVIDENCE_MAX) {
        return NULL;
    }
    value = &out->evidence[out->n_evidence++];
    *value = (struct diag_value){0};
    weft_format(value->name, sizeof(value->name), "%s", name);
    return value;
}

void diag_evidence_text(struct diag_finding *out, const char *name, const char *text)
{
    struct diag_value *value = evidence_add(out, name);

    if (value != NULL) {
        value->kind = WEFT_KIND_TEXT;
        weft_format(value->text, sizeof(value->text), "%s", text);
    }
}

void diag_evidence_int(struct diag_finding *out, const char *name, int64_t number)
{
    struct diag_value *value;

    if (number == IO_UNKNOWN) {
        diag_evidence_text(out, name, "unknown");
        return;
    }
    value = evidence_add(out, name);
    if (value != NULL) {
        value->kind = WEFT_KIND_INT;
        value->number = number;
    }
}

/* ---- collecting ---- */

void diag_findings_fini(struct diag_findings *findings)
{
    free(findings->items);
    *findings = (struct diag_findings){NULL, 0};
}

void diag_where(const struct diag_finding *finding, char *out, size_t out_bytes)
{
    weft_format(out, out_bytes, "%s%s%s%s%s", finding->host,
                finding->port[0] != '\0' ? ":" : "", finding->port,
                finding->peer[0] != '\0' ? " -> " : "", finding->peer);
}

/* Returns true if both findings name the same two processes or, unless `a` concerns processes, the
 * same two machines. */
static bool same_ends(const struct diag_finding *a, const struct diag_finding *b)
{
    bool is_about_process = a->entry->place == DIAG_AT_PEER;
    bool is_inside = diag_is_same_machine(a->host, a->peer);

    if (is_about_process || is_inside) {
        return (strcmp(a->host, b->host) == 0 && strcmp(a->peer, b->peer) == 0) ||
               (strcmp(a->host, b->peer) == 0 && strcmp(a->peer, b->host) == 0);
    }
    return (diag_is_same_machine(a->host, b->host) &&
            diag_is_same_machine(a->peer, b->peer)) ||
           (diag_is_same_machine(a->host, b->peer) &&
            diag_is_same_machine(a->peer, b->host));
}

/* Returns true if the cause is already reported, because a fault of a cable or peer is visible on
 * several hosts. A dead or silent peer, or a host without a file descriptor, is reported once,
 * whichever host noticed it. */
static bool is_said(const struct diag_findings *out, const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < out->n; i++) {
        const struct diag_finding *other = &out->items[i];

        if (other->entry != finding->entry) {
            continue;
        }
        if (same_ends(other, finding) || (finding->entry->id == DIAG_HOST_FD_LIMIT &&
                                          strcmp(other->host, finding->host) == 0)) {
            return true;
        }
        if ((finding->entry->id == DIAG_PEER_DEAD ||
             finding->entry->id == DIAG_PEER_SILENT) &&
            strcmp(other->peer, finding->peer) == 0) {
            return true;
        }
    }
    return false;
}

void diag_add(struct diag_findings *out, const struct diag_finding *finding)
{
    out->items = weft_realloc(out->items, (out->n + 1) * sizeof(*out->items));
    out->items[out->n++] = *finding;
}

void diag_say(struct diag_findings *out, const struct diag_finding *finding)
{
    if (!is_said(out, finding)) {
        diag_add(out, finding);
    }
}

bool diag_is_about(const struct diag_findings *out, enum diag_code code,
                   const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < out->n; i++) {
        if (out->items[i].entry->id == code && same_ends(&out->items[i], finding)) {
            return true;
        }
    }
    return false;
}

void diag_sort(struct diag_findings *out)
{
    /* Insertion sort is stable, and there are few findings. */
    for (uint32_t i = 1; i < out->n; i++) {
        struct diag_finding moving = out->items[i];
        uint32_t at = i;

        for (; at > 0 && out->items[at - 1].severity > moving.severity; at--) {
            out->items[at] = out->items[at - 1];
        }
        out->items[at] = moving;
    }
}
