#include "plugin/finding.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "conn/conn.h"
#include "diag/diag.h"
#include "host/observe.h"

enum { PORTS_MAX = 16 };

static void observe(const struct rdma *rdma, const struct weft_error *error,
                    struct diag_host *out)
{
    struct rdma_port_facts *facts = weft_calloc(PORTS_MAX, sizeof(*facts));

    weft_format(out->name, sizeof(out->name), "here");
    weft_format(out->policy, sizeof(out->policy), "weft");
    out->was_observed = true;
    out->gid_index = DIAG_NO_GID_INDEX;
    out->merges_nics = DIAG_NO;
    out->memlock_bytes = IO_UNKNOWN;
    if (rdma != NULL) {
        out->memlock_bytes = rdma->env->ops->hostinfo(rdma->env)->memlock_bytes;
        out->n_ports = conn_local_facts(rdma, facts, PORTS_MAX);
    }
    out->ports = observe_ports(facts, out->n_ports);
    out->errors = weft_calloc(1, sizeof(*out->errors));
    out->errors[out->n_errors++].error = *error;
    free(facts);
}

/* Returns true if the port named by the error has no carrier now. */
static bool is_port_down(const struct weft_error *error, const struct diag_host *host)
{
    for (unsigned i = 0; i < error->n_values; i++) {
        for (uint32_t k = 0; k < host->n_ports; k++) {
            if (error->values[i].name == WEFT_VALUE_LOCAL_PORT &&
                strcmp(error->values[i].text, host->ports[k].name) == 0) {
                return host->ports[k].is_up == DIAG_NO;
            }
        }
    }
    return false;
}

/* Returns the invalid field of a handle or message, as this end read it; "" if none. */
static const char *wrong_field(const struct weft_error *error)
{
    const struct weft_value *field = weft_error_value(error, WEFT_VALUE_FIELD);

    return field == NULL ? "" : field->text;
}

/* Returns a finding that this process is sure of, although one end alone cannot exclude all
 * others. NULL if there is none. */
static const struct diag_entry *certain(const struct weft_error *error,
                                        const struct diag_host *host)
{
    const char *field = wrong_field(error);

    /* A handle contains all addresses of its host. */
    if (error->status == WEFT_ERR_ROUTE && error->phase == WEFT_PHASE_ROUTE) {
        return diag_entry(DIAG_ROUTE_NO_FACING_PORT);
    }
    if (strcmp(field, "version") == 0) {
        return diag_entry(DIAG_CONN_VERSION);
    }
    /* The plugin has a single policy, so an unexpected policy field is malformed, not a
     * configuration mismatch. */
    if (field[0] != '\0' &&
        (error->status == WEFT_ERR_PROTOCOL || error->status == WEFT_ERR_INPUT)) {
        return diag_entry(DIAG_CONN_MALFORMED);
    }
    return is_port_down(error, host) ? diag_entry(DIAG_LINK_DOWN) : NULL;
}

void finding_name(const struct rdma *rdma, struct weft_error *error)
{
    struct diag_input input = {.hosts = weft_calloc(1, sizeof(*input.hosts)),
                               .n_hosts = 1};
    struct diag_findings findings = {NULL, 0};
    const struct diag_entry *sure;
    char text[64] = "";
    size_t n = 0;

    observe(rdma, error, &input.hosts[0]);
    diag(&input, &findings);
    if (error->n_values == WEFT_ERROR_VALUES_MAX) {
        error->n_values--; /* values are sorted by importance */
    }
    sure = certain(error, &input.hosts[0]);
    if (sure != NULL) {
        weft_error_text(error, WEFT_VALUE_FINDING, sure->code);
    } else if (findings.n > 0 && findings.items[0].entry->id != DIAG_UNDETERMINED) {
        weft_error_text(error, WEFT_VALUE_FINDING, findings.items[0].entry->code);
    } else if (findings.n > 0) {
        for (uint32_t i = 0; i < findings.items[0].n_candidates; i++) {
            const char *code = findings.items[0].candidates[i]->code;

            if (n + strlen(code) + 2 < sizeof(text)) {
                weft_format(text + n, sizeof(text) - n, "%s%s", n > 0 ? " " : "", code);
                n += strlen(text + n);
            }
        }
        if (n > 0) {
            weft_error_text(error, WEFT_VALUE_FINDING, text);
        }
    }
    diag_findings_fini(&findings);
    diag_input_fini(&input);
}

void finding_format(const struct weft_error *error, char *out, size_t out_bytes)
{
    char text[300];

    weft_error_format(error, text, sizeof(text));
    weft_format(out, out_bytes, "%s", text);
    for (unsigned i = 0; i < error->n_values; i++) {
        const struct weft_value *value = &error->values[i];

        if (value->name == WEFT_VALUE_FINDING) {
            size_t n = strcspn(value->text, " ");

            weft_format(out, out_bytes, "%s [%s%s: weft explain %.*s]", text,
                        value->text[n] == '\0' ? "" : "one of ", value->text, (int)n,
                        value->text);
        }
    }
}

void finding_word(const struct weft_error *error, char *out, size_t out_bytes)
{
    struct weft_error named = *error;

    finding_name(NULL, &named);
    finding_format(&named, out, out_bytes);
}
