/* Draws a scenario's mesh as text: a picture for a pair or a triangle, a list of cables
 * for everything else, and only how many of which kind where there are hundreds. */
#ifndef WEFT_REPORT_DRAW_H
#define WEFT_REPORT_DRAW_H

#include "base/text.h"
#include "scenario/scenario.h"

void draw_mesh(const struct scenario *scenario, struct weft_text *out);
/* The same mesh in Graphviz' language, one edge per cable. */
void draw_dot(const struct scenario *scenario, struct weft_text *out);
/* "100Gbps 1us mtu 9000", with what is unusual about the cable: "loss 0.1%", "down". */
void draw_link_facts(const struct scenario *scenario, const struct scenario_link *link,
                     char *out, size_t out_bytes);

#endif
