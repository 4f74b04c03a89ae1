/* The system, its paths and what NCCL asks of them, as text (docs/paths.md). */
#ifndef WEFT_TOPO_DUMP_H
#define WEFT_TOPO_DUMP_H

#include "base/text.h"
#include "topo/settings.h"

void topo_dump_system(const struct topo_system *system, struct weft_text *out);
void topo_dump_paths(const struct topo_system *system, struct weft_text *out);
/* "NVL(80)->GPU/0-bd000" for every hop, a blank before each. */
void topo_dump_hops(const struct topo_path *path, struct weft_text *out);
void topo_dump_queries(const struct topo_view *view, struct weft_text *out);

#endif
