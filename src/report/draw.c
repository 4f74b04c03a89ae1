#include "report/draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/units.h"
#include "report/canvas.h"

/* Maximum number of cables that are listed rather than counted. */
#define LISTED_LINKS_MAX 256

static const struct world_port *end_port(const struct scenario *scenario,
                                         const struct world_cable *link, int end)
{
    const struct world_end *at = &link->ends[end];

    return at->is_switch ? NULL : &scenario->hosts[at->node].ports[at->port];
}

/* Size of a bond's name (IFNAMSIZ) and an address with prefix length. */
#define DRAW_ADDRESS_BYTES (16 + 1 + IO_IP_TEXT_BYTES + 4)
/* Size of a port's name, which has at most 31 bytes (docs/scenario.md), and such an address. */
#define DRAW_LABEL_BYTES (32 + 1 + DRAW_ADDRESS_BYTES)

static const char *end_node(const struct scenario *scenario,
                            const struct world_cable *link, int end)
{
    const struct world_end *at = &link->ends[end];

    return at->is_switch ? scenario->switches[at->node].name
                         : scenario->hosts[at->node].name;
}

/* Returns the bond that contains a port of a host, or NULL. */
static const struct world_bond *bond_of(const struct world_host *host,
                                        const struct world_port *port)
{
    for (uint32_t i = 0; i < host->n_bonds; i++) {
        for (uint32_t k = 0; k < host->bonds[i].n_ports; k++) {
            if (&host->ports[host->bonds[i].ports[k]] == port) {
                return &host->bonds[i];
            }
        }
    }
    return NULL;
}

/* Writes the first address of a port or, if it has none, of its bond. */
static void address_label(const struct world_host *host, const struct world_port *port,
                          char *out, size_t out_bytes)
{
    const struct world_bond *bond = port->n_addresses == 0 ? bond_of(host, port) : NULL;
    const struct io_prefix *prefix = port->n_addresses > 0 ? &port->addresses[0]
                                     : bond != NULL && bond->n_addresses > 0
                                         ? &bond->addresses[0]
                                         : NULL;
    char address[IO_IP_TEXT_BYTES];

    if (prefix == NULL) {
        weft_format(out, out_bytes, "(no address)");
    } else {
        weft_format(out, out_bytes, "%s%s%s/%u", bond != NULL ? bond->name : "",
                    bond != NULL ? " " : "",
                    io_ip_format(&prefix->ip, address, sizeof(address)),
                    prefix->prefix_len);
    }
}

/* Writes the label of a link's end: "p0 192.168.101.1/24", with a bond "p0 bond0 192.168.101.1/24",
 * at a switch "port 3". */
static void end_label(const struct scenario *scenario, const struct world_cable *link,
                      int end, char *out, size_t out_bytes)
{
    const struct world_port *port = end_port(scenario, link, end);
    char address[DRAW_ADDRESS_BYTES];

    if (port == NULL) {
        weft_format(out, out_bytes, "port %u", link->ends[end].port);
        return;
    }
    address_label(&scenario->hosts[link->ends[end].node], port, address, sizeof(address));
    weft_format(out, out_bytes, "%s %s", port->name, address);
}

static uint32_t link_mtu(const struct scenario *scenario, const struct world_cable *link,
                         int end)
{
    const struct world_port *port = end_port(scenario, link, end);

    return port == NULL ? 0 : port->mtu_bytes;
}

static void add_share(char *out, size_t out_bytes, const char *name, uint32_t share_ppb)
{
    size_t n = strlen(out);

    if (share_ppb > 0) {
        weft_format(out + n, out_bytes - n, " %s %g%%", name, (double)share_ppb / 1e7);
    }
}

void draw_link_facts(const struct scenario *scenario, const struct world_cable *link,
                     char *out, size_t out_bytes)
{
    char rate[24];
    char delay[24];
    uint32_t mtu[2] = {link_mtu(scenario, link, 0), link_mtu(scenario, link, 1)};
    size_t n;

    weft_format_rate(link->rate_bps, rate, sizeof(rate));
    weft_format_time(link->delay_ps / 1000, delay, sizeof(delay));
    if ((mtu[0] | mtu[1]) == 0) { /* switches have none */
        weft_format(out, out_bytes, "%s %s", rate, delay);
    } else if (mtu[0] == mtu[1] || mtu[0] == 0 || mtu[1] == 0) {
        weft_format(out, out_bytes, "%s %s mtu %u", rate, delay, mtu[0] | mtu[1]);
    } else {
        weft_format(out, out_bytes, "%s %s mtu %u/%u", rate, delay, mtu[0], mtu[1]);
    }
    n = strlen(out);
    if (link->path_limit_bytes != 0) {
        weft_format(out + n, out_bytes - n, " path limit %u", link->path_limit_bytes);
    }
    add_share(out, out_bytes, "loss", link->impairment.loss_ppb);
    add_share(out, out_bytes, "corrupt", link->impairment.corrupt_ppb);
    add_share(out, out_bytes, "duplicate", link->impairment.duplicate_ppb);
    add_share(out, out_bytes, "reorder", link->impairment.reorder_ppb);
    add_share(out, out_bytes, "ecn", link->impairment.ecn_ppb);
    if (!link->up) {
        n = strlen(out);
        weft_format(out + n, out_bytes - n, " DOWN");
    }
}

static int max_int(int a, int b)
{
    return a > b ? a : b;
}

static void draw_pair(const struct scenario *scenario, struct weft_text *out)
{
    const struct world_cable *link = &scenario->cables[0];
    char labels[2][DRAW_LABEL_BYTES];
    char facts[128];
    int box = 4 + max_int(canvas_columns(end_node(scenario, link, 0)),
                          canvas_columns(end_node(scenario, link, 1)));
    int cable;
    struct canvas canvas;

    end_label(scenario, link, 0, labels[0], sizeof(labels[0]));
    end_label(scenario, link, 1, labels[1], sizeof(labels[1]));
    draw_link_facts(scenario, link, facts, sizeof(facts));
    cable = max_int(canvas_columns(labels[0]) + canvas_columns(labels[1]) + 6,
                    canvas_columns(facts) + 4);
    canvas_init(&canvas, 4 + 2 * box + cable, 3);
    canvas_box(&canvas, 2, 0, box, 3, end_node(scenario, link, 0));
    canvas_box(&canvas, 2 + box + cable, 0, box, 3, end_node(scenario, link, 1));
    canvas_hline(&canvas, 2 + box, 1 + box + cable, 1, link->up ? 0x2500 : 0x2504);
    canvas_cell(&canvas, 1 + box, 1, 0x251c);
    canvas_cell(&canvas, 2 + box + cable, 1, 0x2524);
    canvas_text(&canvas, 3 + box, 0, labels[0]);
    canvas_text_right(&canvas, box + cable, 0, labels[1]);
    canvas_text_centre(&canvas, 2 + box + cable / 2, 2, facts);
    canvas_print(&canvas, out);
    canvas_fini(&canvas);
}

/* Returns the first link between hosts a and b, or NULL. Sets *out_end to the end at a. */
static const struct world_cable *link_between(const struct scenario *scenario, uint32_t a,
                                              uint32_t b, int *out_end)
{
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        const struct world_cable *link = &scenario->cables[i];

        for (int end = 0; end < 2; end++) {
            if (!link->ends[0].is_switch && !link->ends[1].is_switch &&
                link->ends[end].node == a && link->ends[1 - end].node == b) {
                *out_end = end;
                return link;
            }
        }
    }
    return NULL;
}

struct triangle_side {
    const struct world_cable *link;
    char near[DRAW_LABEL_BYTES]; /* label at the side's host with the lower index */
    char far[DRAW_LABEL_BYTES];
    char facts[128];
};

static bool find_side(const struct scenario *scenario, uint32_t a, uint32_t b,
                      struct triangle_side *out)
{
    int end = 0;

    out->link = link_between(scenario, a, b, &end);
    if (out->link == NULL) {
        return false;
    }
    end_label(scenario, out->link, end, out->near, sizeof(out->near));
    end_label(scenario, out->link, 1 - end, out->far, sizeof(out->far));
    draw_link_facts(scenario, out->link, out->facts, sizeof(out->facts));
    return true;
}

static void draw_leg(struct canvas *canvas, const struct triangle_side *side, int x,
                     int y, bool is_left)
{
    void (*put)(struct canvas *, int, int, const char *) =
        is_left ? canvas_text_right : canvas_text;
    int label_x = is_left ? x - 2 : x + 2;

    canvas_cell(canvas, x, y - 1, 0x252c);
    canvas_vline(canvas, x, y, y + 4, side->link->up ? 0x2502 : 0x2506);
    canvas_cell(canvas, x, y + 5, 0x2534);
    put(canvas, label_x, y, side->near);
    put(canvas, label_x, y + 2, side->facts);
    put(canvas, label_x, y + 4, side->far);
}

/* Draws one host above and two below, with both ends of each cable labelled. */
static void draw_triangle(const struct scenario *scenario,
                          const struct triangle_side *sides, struct weft_text *out)
{
    const struct world_host *hosts = scenario->hosts;
    int margin =
        max_int(canvas_columns(sides[0].facts), canvas_columns(sides[0].near)) + 4;
    int right =
        max_int(canvas_columns(sides[1].facts), canvas_columns(sides[1].near)) + 4;
    int base = max_int(canvas_columns(sides[2].near) + canvas_columns(sides[2].far) + 6,
                       canvas_columns(sides[2].facts) + 2);
    int box = 4 + max_int(canvas_columns(hosts[0].name),
                          max_int(canvas_columns(hosts[1].name),
                                  canvas_columns(hosts[2].name)));
    int half = box / 2;
    int left_x = max_int(margin, box);
    int right_x = left_x + base + 3;
    int top_w = right_x - left_x + 5;
    struct canvas canvas;

    canvas_init(&canvas, right_x + max_int(right, box) + half + 4, 13);
    canvas_box(&canvas, left_x - 2, 0, top_w, 3, hosts[0].name);
    draw_leg(&canvas, &sides[0], left_x, 3, true);
    draw_leg(&canvas, &sides[1], right_x, 3, false);
    canvas_box(&canvas, left_x - box + 2, 8, box, 3, hosts[1].name);
    canvas_box(&canvas, right_x - 1, 8, box, 3, hosts[2].name);
    canvas_cell(&canvas, left_x, 8, 0x2534);
    canvas_cell(&canvas, right_x, 8, 0x2534);
    canvas_hline(&canvas, left_x + 2, right_x - 2, 9,
                 sides[2].link->up ? 0x2500 : 0x2504);
    canvas_cell(&canvas, left_x + 1, 9, 0x251c);
    canvas_cell(&canvas, right_x - 1, 9, 0x2524);
    canvas_text(&canvas, left_x + 3, 10, sides[2].near);
    canvas_text_right(&canvas, right_x - 3, 10, sides[2].far);
    canvas_text_centre(&canvas, (left_x + right_x) / 2, 11, sides[2].facts);
    canvas_print(&canvas, out);
    canvas_fini(&canvas);
}

static void draw_list(const struct scenario *scenario, struct weft_text *out)
{
    size_t width[2] = {0, 0};
    size_t node_width = 0;

    for (uint32_t i = 0; i < scenario->n_links; i++) {
        for (int end = 0; end < 2; end++) {
            char label[DRAW_LABEL_BYTES];
            const char *node = end_node(scenario, &scenario->cables[i], end);

            end_label(scenario, &scenario->cables[i], end, label, sizeof(label));
            width[end] = strlen(label) > width[end] ? strlen(label) : width[end];
            node_width = strlen(node) > node_width ? strlen(node) : node_width;
        }
    }
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        const struct world_cable *link = &scenario->cables[i];
        char near[DRAW_LABEL_BYTES];
        char far[DRAW_LABEL_BYTES];
        char facts[128];

        end_label(scenario, link, 0, near, sizeof(near));
        end_label(scenario, link, 1, far, sizeof(far));
        draw_link_facts(scenario, link, facts, sizeof(facts));
        weft_text_add(out, "  %-*s  %-*s %s  %-*s  %-*s  %s\n", (int)node_width,
                      end_node(scenario, link, 0), (int)width[0], near,
                      link->up ? "──" : "┄┄", (int)node_width,
                      end_node(scenario, link, 1), (int)width[1], far, facts);
    }
}

static int compare_facts(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Appends how many cables there are with each set of facts. */
static void draw_summary(const struct scenario *scenario, struct weft_text *out)
{
    const size_t each = 128;
    char *facts = weft_calloc(scenario->n_links, each);
    uint32_t n = 0;

    for (uint32_t i = 0; i < scenario->n_links; i++) {
        draw_link_facts(scenario, &scenario->cables[i], facts + i * each, each);
    }
    qsort(facts, scenario->n_links, each, compare_facts);
    weft_text_add(out, "  %u hosts, %u switches, %u cables\n", scenario->n_hosts,
                  scenario->n_switches, scenario->n_links);
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        n++;
        if (i + 1 == scenario->n_links ||
            strcmp(facts + i * each, facts + (i + 1) * each) != 0) {
            weft_text_add(out, "  %7u x %s\n", n, facts + i * each);
            n = 0;
        }
    }
    free(facts);
}

void draw_mesh(const struct scenario *scenario, struct weft_text *out)
{
    struct triangle_side sides[3];

    if (scenario->n_hosts == 2 && scenario->n_links == 1 && scenario->n_switches == 0) {
        draw_pair(scenario, out);
    } else if (scenario->n_hosts == 3 && scenario->n_links == 3 &&
               find_side(scenario, 0, 1, &sides[0]) &&
               find_side(scenario, 0, 2, &sides[1]) &&
               find_side(scenario, 1, 2, &sides[2])) {
        draw_triangle(scenario, sides, out);
    } else if (scenario->n_links > LISTED_LINKS_MAX) {
        draw_summary(scenario, out);
    } else {
        draw_list(scenario, out);
    }
}

void draw_dot(const struct scenario *scenario, struct weft_text *out)
{
    weft_text_add(out, "graph \"%s\" {\n", scenario->name);
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        weft_text_add(out, "  \"%s\" [shape=box];\n", scenario->hosts[i].name);
    }
    for (uint32_t i = 0; i < scenario->n_switches; i++) {
        weft_text_add(out, "  \"%s\" [shape=ellipse];\n", scenario->switches[i].name);
    }
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        const struct world_cable *link = &scenario->cables[i];
        char near[DRAW_LABEL_BYTES];
        char far[DRAW_LABEL_BYTES];
        char facts[128];

        end_label(scenario, link, 0, near, sizeof(near));
        end_label(scenario, link, 1, far, sizeof(far));
        draw_link_facts(scenario, link, facts, sizeof(facts));
        weft_text_add(out,
                      "  \"%s\" -- \"%s\" [taillabel=\"%s\", headlabel=\"%s\", "
                      "label=\"%s\"%s];\n",
                      end_node(scenario, link, 0), end_node(scenario, link, 1), near, far,
                      facts, link->up ? "" : ", style=dashed");
    }
    weft_text_add(out, "}\n");
}
