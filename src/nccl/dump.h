/* Writes the system, its paths and the answers to NCCL's queries as text (docs/paths.md). */
#ifndef WEFT_NCCL_DUMP_H
#define WEFT_NCCL_DUMP_H

#include "base/text.h"
#include "nccl/settings.h"

void topo_dump_system(const struct topo_system *system, struct weft_text *out);
void topo_dump_paths(const struct topo_system *system, struct weft_text *out);
/* Appends "NVL(80)->GPU/0-bd000" for every hop, each after a blank. */
void topo_dump_hops(const struct topo_path *path, struct weft_text *out);
/* Appends what NCCL logs of the system with NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=GRAPH:
 * bandwidths, the PCI tree of every CPU, the paths of every GPU and NET. */
void topo_dump_info(const struct topo_system *system, struct weft_text *out);
/* Appends the line that NCCL logs for a TOPO_GDR event. */
void topo_dump_gdr(const struct topo_rules *rules, const struct topo_event *event,
                   struct weft_text *out);
void topo_dump_queries(const struct topo_view *view, struct weft_text *out);

#endif
