/* Draws a scenario's mesh as text: a picture of a pair or a triangle, otherwise a list of cables.
 * With more than 256 cables, prints only the number of each kind. */
#ifndef WEFT_REPORT_DRAW_H
#define WEFT_REPORT_DRAW_H

#include "base/text.h"
#include "scenario/scenario.h"

void draw_mesh(const struct scenario *scenario, struct weft_text *out);
/* Appends the mesh in Graphviz' language, one edge per cable. */
void draw_dot(const struct scenario *scenario, struct weft_text *out);
/* Writes a cable's facts, such as "100Gbps 1us mtu 9000", followed by its impairments: "loss 0.1%",
 * "DOWN". */
void draw_link_facts(const struct scenario *scenario, const struct world_cable *link,
                     char *out, size_t out_bytes);

#endif
