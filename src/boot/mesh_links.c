/* The graph of the mesh, from each member's record of its links. A link counts only if both ends
 * report it. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "boot/mesh.h"

_Static_assert(MESH_PEERS_MAX <= RECORD_ENTRIES_MAX,
               "a record has every link that carries");

/* ---- this process's own record ---- */

static int compare(const struct record_entry *a, const struct record_entry *b)
{
    if (a->member != b->member) {
        return a->member < b->member ? -1 : 1;
    }
    return a->port != b->port ? (int)a->port - b->port : (int)a->peer_port - b->peer_port;
}

/* Inserts an entry in order, or adds its flags to an equal entry. Ignores it if the record is
 * full. */
static void insert(struct record_links *links, const struct record_entry *entry)
{
    uint32_t at = 0;

    while (at < links->n_entries && compare(&links->entries[at], entry) < 0) {
        at++;
    }
    if (at < links->n_entries && compare(&links->entries[at], entry) == 0) {
        links->entries[at].flags |= entry->flags;
        return;
    }
    if (links->n_entries == RECORD_ENTRIES_MAX) {
        return;
    }
    memmove(&links->entries[at + 1], &links->entries[at],
            (links->n_entries - at) * sizeof(*links->entries));
    links->entries[at] = *entry;
    links->n_entries++;
}

static void insert_heard(const struct boot *boot, const struct mesh_peer *peer,
                         struct record_links *links)
{
    for (uint32_t i = 0; i < peer->n_candidates; i++) {
        const struct mesh_candidate *candidate = &peer->candidates[i];
        struct record_entry entry = {.member = peer->member,
                                     .port = candidate->port,
                                     .peer_port = candidate->peer_port};

        /* A neighbour listed in a file is no proof of a link. */
        if (candidate->heard_ns != WEFT_NEVER &&
            mesh_candidate_is_fresh(boot, candidate)) {
            insert(links, &entry);
        }
    }
}

static void insert_carrying(const struct mesh_peer *peer, struct record_links *links)
{
    struct record_entry entry = {.member = peer->member,
                                 .port = peer->port,
                                 .peer_port = peer->peer_port,
                                 .flags = RECORD_CARRIES};

    if (peer->state == MESH_UP) {
        insert(links, &entry);
    }
}

void mesh_links_update(struct boot *boot)
{
    struct mesh_member *self = mesh_self(boot);
    struct record_links links = {.n_entries = 0};
    size_t n_bytes;

    /* The links that carry a stream come first, because the record can have no room for all, and a
     * member without such a link is cut off. */
    for (uint32_t i = 0; i < 2 * boot->n_members; i++) {
        const struct mesh_member *member = &boot->mesh->members[i % boot->n_members];

        if (member->peer == NULL || member->gone != MESH_HERE) {
            continue;
        }
        if (i < boot->n_members) {
            insert_carrying(member->peer, &links);
        } else {
            insert_heard(boot, member->peer, &links);
        }
    }
    n_bytes = links.n_entries * sizeof(*links.entries);
    if (self->sequence > 0 && links.n_entries == self->n_entries &&
        memcmp(links.entries, self->entries, n_bytes) == 0) {
        return;
    }
    self->sequence++;
    self->n_entries = links.n_entries;
    self->entries = weft_realloc(self->entries, n_bytes + 1);
    memcpy(self->entries, links.entries, n_bytes);
    boot->mesh->graph_is_stale = true;
}

/* ---- the records of all ---- */

/* Returns the entry of `member` for the same link as `entry` of member `of`, or NULL. */
static const struct record_entry *other_end(const struct mesh_member *member, uint32_t of,
                                            const struct record_entry *entry)
{
    for (uint32_t i = 0; i < member->n_entries; i++) {
        const struct record_entry *other = &member->entries[i];

        if (other->member == of && other->port == entry->peer_port &&
            other->peer_port == entry->port) {
            return other;
        }
    }
    return NULL;
}

static bool carries(const struct mesh *mesh, uint32_t of,
                    const struct record_entry *entry)
{
    const struct mesh_member *far = &mesh->members[entry->member];
    const struct record_entry *other = other_end(far, of, entry);

    return other != NULL && (entry->flags & other->flags & RECORD_CARRIES) != 0;
}

void mesh_graph_update(struct boot *boot)
{
    struct mesh *mesh = boot->mesh;
    uint32_t n = 0, *queue;
    bool *was_reached;

    if (!mesh->graph_is_stale) {
        return;
    }
    mesh->graph_is_stale = false;
    mesh->changes++;
    queue = weft_calloc(boot->n_members, sizeof(*queue));
    was_reached = weft_calloc(boot->n_members, sizeof(*was_reached));
    for (uint32_t m = 0; m < boot->n_members; m++) {
        was_reached[m] = mesh->members[m].is_reached;
        mesh->members[m].is_reached = m == boot->config.rank;
    }
    queue[n++] = boot->config.rank;
    for (uint32_t at = 0; at < n; at++) {
        const struct mesh_member *member = &mesh->members[queue[at]];

        for (uint32_t i = 0; i < member->n_entries; i++) {
            uint32_t next = member->entries[i].member;

            if (!mesh->members[next].is_reached &&
                carries(mesh, queue[at], &member->entries[i])) {
                mesh->members[next].is_reached = true;
                queue[n++] = next;
            }
        }
    }
    for (uint32_t m = 0; m < boot->n_members; m++) {
        if (mesh->members[m].is_reached != was_reached[m]) {
            mesh->members[m].since_ns = io_now(boot->env);
        }
    }
    free(was_reached);
    free(queue);
}

uint32_t boot_links(const struct boot *boot, struct boot_link *out, uint32_t n_max)
{
    const struct mesh *mesh = boot->mesh;
    uint32_t n = 0;

    for (uint32_t a = 0; mesh != NULL && a < boot->n_members; a++) {
        for (uint32_t i = 0; i < mesh->members[a].n_entries; i++) {
            const struct record_entry *entry = &mesh->members[a].entries[i];

            const struct mesh_member *far = &mesh->members[entry->member];
            bool is_news = mesh->members[a].is_reached || far->is_reached;

            if (entry->member < a || !is_news || other_end(far, a, entry) == NULL) {
                continue;
            }
            if (n < n_max) {
                out[n] = (struct boot_link){.a = a,
                                            .b = entry->member,
                                            .a_port = entry->port,
                                            .b_port = entry->peer_port,
                                            .carries = carries(mesh, a, entry)};
            }
            n++;
        }
    }
    return n;
}

uint64_t boot_links_changes(const struct boot *boot)
{
    return boot->mesh == NULL ? 0 : boot->mesh->changes;
}

bool boot_reaches(const struct boot *boot, uint32_t member)
{
    return boot->mesh != NULL && member < boot->n_members &&
           boot->mesh->members[member].is_reached;
}
