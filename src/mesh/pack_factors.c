/* Disjoint cycles through all vertices of larger meshes.
 *
 * If every vertex has just 2k edges (rings, tori, hypercubes, full meshes of odd size), all of
 * them are needed. They are divided into k sets of cycles, each with two edges at every vertex
 * (Petersen 1891: an Euler tour gives every edge a direction, and matchings of "leaves" with
 * "enters" take one edge out of and one into every vertex). Then squares whose edges alternate
 * between two colours exchange them as long as that reduces the number of cycles, until every
 * colour is one cycle. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/text.h"
#include "mesh/pack.h"

#define PASSES_SMALL 400
#define PASSES_LARGE 30
#define SMALL_VERTICES 1024

struct factors {
    const struct pack *pack;
    uint32_t n, k;
    /* Owned [k * n * 2]: the two edges of a colour at a vertex, see edge_at */
    uint32_t *edges;
    uint32_t *cycle_of; /* Owned [k * n] */
    uint32_t *n_cycles; /* Owned [k] */
    /* Owned [n_edges]: vertex that the tour enters by the edge; PACK_NONE if not used */
    uint32_t *target;
    struct weft_rng rng;
};

static uint32_t *edge_at(struct factors *f, uint32_t colour, uint32_t v, uint32_t which)
{
    return &f->edges[((size_t)colour * f->n + v) * 2 + which];
}

static uint32_t beyond(const struct factors *f, uint32_t edge, uint32_t v)
{
    return pack_other(&f->pack->edges[edge], v);
}

/* ---- the first division ---- */

/* Gives every edge a direction so that as many leave a vertex as enter it. Walks until it is
 * stuck, which is possible only where it began. */
static void direct_edges(struct factors *f, uint64_t rate_bps)
{
    const struct pack *pack = f->pack;
    uint32_t *at = weft_calloc((size_t)f->n + 1, sizeof(*at));
    memcpy(at, pack->first, f->n * sizeof(*at));
    for (uint32_t e = 0; e < pack->n_edges; e++) {
        f->target[e] = PACK_NONE;
    }
    for (uint32_t start = 0; start < f->n; start++) {
        for (uint32_t v = start; at[v] < pack->first[v + 1];) {
            uint32_t e = pack->incident[at[v]++];
            if (f->target[e] == PACK_NONE && pack->edges[e].rate_bps >= rate_bps) {
                f->target[e] = beyond(f, e, v);
                v = f->target[e];
            }
        }
    }
    free(at);
}

struct matching {
    struct factors *f;
    uint32_t colour;
    uint32_t *leaves; /* Owned [n]: edge by which v is left, or PACK_NONE */
    uint32_t *enters; /* Owned [n]: the edge by which v is entered */
    uint32_t *came;   /* Owned [n]: edge by which the search entered v */
    uint32_t *queue;  /* Owned [n] */
    bool *is_taken;   /* Owned [n_edges]: taken by this or an earlier colour */
};

/* Matches `v` with a vertex to leave to, moving other vertices to other edges if needed. */
static void match(struct matching *m, uint32_t v)
{
    struct factors *f = m->f;
    const struct pack *pack = f->pack;
    uint32_t n_queued = 1;
    uint32_t end = PACK_NONE;
    for (uint32_t w = 0; w < f->n; w++) {
        m->came[w] = PACK_NONE;
    }
    m->queue[0] = v;
    for (uint32_t i = 0; i < n_queued && end == PACK_NONE; i++) {
        uint32_t from = m->queue[i];
        for (uint32_t j = pack->first[from]; j < pack->first[from + 1]; j++) {
            uint32_t e = pack->incident[j];
            uint32_t to = beyond(f, e, from);
            if (m->is_taken[e] || f->target[e] != to || m->came[to] != PACK_NONE) {
                continue;
            }
            m->came[to] = e;
            if (m->enters[to] == PACK_NONE) {
                end = to;
                break;
            }
            m->queue[n_queued++] = beyond(f, m->enters[to], to);
        }
    }
    weft_check(end != PACK_NONE); /* a regular bipartite graph has a perfect matching */
    while (end != PACK_NONE) {
        uint32_t e = m->came[end];
        uint32_t from = beyond(f, e, end);
        uint32_t before = m->leaves[from];
        m->enters[end] = e;
        m->leaves[from] = e;
        end = before == PACK_NONE ? PACK_NONE : beyond(f, before, from);
    }
}

static void colour_edges(struct factors *f)
{
    struct matching m = {
        .f = f,
        .leaves = weft_calloc(f->n, sizeof(uint32_t)),
        .enters = weft_calloc(f->n, sizeof(uint32_t)),
        .came = weft_calloc(f->n, sizeof(uint32_t)),
        .queue = weft_calloc(f->n, sizeof(uint32_t)),
        .is_taken = weft_calloc((size_t)f->pack->n_edges + 1, sizeof(bool)),
    };
    for (uint32_t colour = 0; colour < f->k; colour++) {
        for (uint32_t v = 0; v < f->n; v++) {
            m.leaves[v] = PACK_NONE;
            m.enters[v] = PACK_NONE;
        }
        for (uint32_t v = 0; v < f->n; v++) {
            match(&m, v);
        }
        for (uint32_t v = 0; v < f->n; v++) {
            *edge_at(f, colour, v, 0) = m.leaves[v];
            *edge_at(f, colour, v, 1) = m.enters[v];
            m.is_taken[m.leaves[v]] = true;
        }
    }
    free(m.leaves);
    free(m.enters);
    free(m.came);
    free(m.queue);
    free(m.is_taken);
}

/* ---- cycles of a colour ---- */

static uint32_t step_on(struct factors *f, uint32_t colour, uint32_t v, uint32_t *edge)
{
    uint32_t next = *edge_at(f, colour, v, 0);
    *edge = next != *edge ? next : *edge_at(f, colour, v, 1);
    return beyond(f, *edge, v);
}

static uint32_t count_cycles(struct factors *f, uint32_t colour)
{
    uint32_t *cycle_of = f->cycle_of + (size_t)colour * f->n;
    uint32_t n = 0;
    for (uint32_t v = 0; v < f->n; v++) {
        cycle_of[v] = PACK_NONE;
    }
    for (uint32_t start = 0; start < f->n; start++) {
        if (cycle_of[start] != PACK_NONE) {
            continue;
        }
        uint32_t edge = *edge_at(f, colour, start, 1);
        for (uint32_t v = start; cycle_of[v] == PACK_NONE;) {
            cycle_of[v] = n;
            v = step_on(f, colour, v, &edge);
        }
        n++;
    }
    f->n_cycles[colour] = n;
    return n;
}

/* ---- squares ---- */

static bool has_edge(struct factors *f, uint32_t colour, uint32_t v, uint32_t to,
                     uint32_t *out)
{
    for (uint32_t which = 0; which < 2; which++) {
        uint32_t e = *edge_at(f, colour, v, which);
        if (beyond(f, e, v) == to) {
            *out = e;
            return true;
        }
    }
    return false;
}

static void replace(struct factors *f, uint32_t colour, uint32_t v, uint32_t old,
                    uint32_t new)
{
    *edge_at(f, colour, v, *edge_at(f, colour, v, 0) == old ? 0 : 1) = new;
}

struct square {
    uint32_t a, b;           /* colours */
    uint32_t u, v, w, x;     /* u-v and w-x have colour a, v-w and x-u colour b */
    uint32_t uv, vw, wx, xu; /* edges */
};

static void exchange(struct factors *f, const struct square *s)
{
    replace(f, s->a, s->u, s->uv, s->xu);
    replace(f, s->a, s->v, s->uv, s->vw);
    replace(f, s->a, s->w, s->wx, s->vw);
    replace(f, s->a, s->x, s->wx, s->xu);
    replace(f, s->b, s->u, s->xu, s->uv);
    replace(f, s->b, s->v, s->vw, s->uv);
    replace(f, s->b, s->w, s->vw, s->wx);
    replace(f, s->b, s->x, s->xu, s->wx);
}

/* Exchanges the square's colours if that reduces the number of cycles, or sometimes if it
 * keeps it. */
static void consider(struct factors *f, const struct square *s, uint32_t pass)
{
    bool may_wander = f->n <= SMALL_VERTICES && pass > 0;
    const uint32_t *a = f->cycle_of + (size_t)s->a * f->n;
    const uint32_t *b = f->cycle_of + (size_t)s->b * f->n;
    bool joins_a = a[s->u] != a[s->w];
    bool joins_b = b[s->v] != b[s->x];
    /* Joining two cycles in both colours always helps; the first pass does only that. */
    if (!(joins_a && joins_b) && (pass == 0 || (!joins_a && !joins_b && !may_wander))) {
        return;
    }
    uint32_t before = f->n_cycles[s->a] + f->n_cycles[s->b];
    exchange(f, s);
    uint32_t after = count_cycles(f, s->a) + count_cycles(f, s->b);
    if (after < before ||
        (after == before && may_wander && weft_rng_below(&f->rng, 2) == 0)) {
        return;
    }
    struct square back = {.a = s->a,
                          .b = s->b,
                          .u = s->v,
                          .v = s->w,
                          .w = s->x,
                          .x = s->u,
                          .uv = s->vw,
                          .vw = s->wx,
                          .wx = s->xu,
                          .xu = s->uv};
    exchange(f, &back);
    (void)count_cycles(f, s->a);
    (void)count_cycles(f, s->b);
}

static void look_around(struct factors *f, struct square *s, uint32_t pass)
{
    for (uint32_t i = 0; i < 8; i++) {
        s->uv = *edge_at(f, s->a, s->u, i & 1);
        s->v = beyond(f, s->uv, s->u);
        s->vw = *edge_at(f, s->b, s->v, i >> 1 & 1);
        s->w = beyond(f, s->vw, s->v);
        s->wx = *edge_at(f, s->a, s->w, i >> 2 & 1);
        s->x = beyond(f, s->wx, s->w);
        if (s->w != s->u && s->x != s->v && s->x != s->u &&
            has_edge(f, s->b, s->x, s->u, &s->xu)) {
            consider(f, s, pass);
        }
    }
}

static bool is_done(const struct factors *f)
{
    for (uint32_t colour = 0; colour < f->k; colour++) {
        if (f->n_cycles[colour] > 1) {
            return false;
        }
    }
    return true;
}

static bool join_cycles(struct factors *f)
{
    uint32_t n_passes = f->n <= SMALL_VERTICES ? PASSES_SMALL : PASSES_LARGE;
    for (uint32_t pass = 0; pass < n_passes && !is_done(f); pass++) {
        for (uint32_t u = 0; u < f->n && !is_done(f); u++) {
            for (uint32_t pair = 0; pair < f->k * f->k; pair++) {
                struct square square = {.a = pair / f->k, .b = pair % f->k, .u = u};
                if (square.a != square.b) {
                    look_around(f, &square, pass);
                }
            }
        }
    }
    return is_done(f);
}

/* ---- all cycles ---- */

static void read_cycles(struct factors *f, uint32_t *out)
{
    for (uint32_t colour = 0; colour < f->k; colour++) {
        uint32_t edge = *edge_at(f, colour, 0, 1);
        uint32_t v = 0;
        for (uint32_t i = 0; i < f->n; i++) {
            out[(size_t)colour * f->n + i] = v;
            v = step_on(f, colour, v, &edge);
        }
    }
}

bool pack_cycles_divide(const struct pack *pack, uint64_t rate_bps, uint32_t k,
                        uint32_t *out)
{
    struct factors f = {
        .pack = pack,
        .n = pack->n,
        .k = k,
        .edges = weft_calloc((size_t)k * pack->n * 2, sizeof(uint32_t)),
        .cycle_of = weft_calloc((size_t)k * pack->n, sizeof(uint32_t)),
        .n_cycles = weft_calloc(k, sizeof(uint32_t)),
        .target = weft_calloc((size_t)pack->n_edges + 1, sizeof(uint32_t)),
    };
    weft_rng_init(&f.rng, 1, "mesh/cycles");
    direct_edges(&f, rate_bps);
    colour_edges(&f);
    for (uint32_t colour = 0; colour < k; colour++) {
        (void)count_cycles(&f, colour);
    }
    bool found = join_cycles(&f);
    if (found) {
        read_cycles(&f, out);
    }
    free(f.edges);
    free(f.cycle_of);
    free(f.n_cycles);
    free(f.target);
    return found;
}
