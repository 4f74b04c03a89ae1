/* The system, its paths and what NCCL asks of them, as text (docs/paths.md). */
#ifndef WEFT_TOPO_DUMP_H
#define WEFT_TOPO_DUMP_H

#include "base/text.h"
#include "topo/settings.h"

void topo_dump_system(const struct topo_system *system, struct weft_text *out);
void topo_dump_paths(const struct topo_system *system, struct weft_text *out);
/* "NVL(80)->GPU/0-bd000" for every hop, a blank before each. */
void topo_dump_hops(const struct topo_path *path, struct weft_text *out);
/* What NCCL logs of it with NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=GRAPH: bandwidths, the PCI tree of
 * every CPU, the paths of every GPU and NET. */
void topo_dump_info(const struct topo_system *system, struct weft_text *out);
/* The line of a TOPO_GDR event. */
void topo_dump_gdr(const struct topo_rules *rules, const struct topo_event *event,
                   struct weft_text *out);
void topo_dump_queries(const struct topo_view *view, struct weft_text *out);

#endif
