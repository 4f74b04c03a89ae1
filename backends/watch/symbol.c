#define _GNU_SOURCE
#include "backends/watch/symbol.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HIDDEN_VERSION 0x8000

struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *hash; /* DT_GNU_HASH */
    const ElfW(Half) * versions;
};

struct search {
    const char *library, *name;
    void *found;
};

/* glibc adds the base to these addresses where the section is writable. */
static const void *at(const struct dl_phdr_info *info, ElfW(Addr) address)
{
    return (const void *)(address < info->dlpi_addr ? info->dlpi_addr + address
                                                    : address);
}

static bool read_tables(const struct dl_phdr_info *info, struct tables *out)
{
    const ElfW(Dyn) *entry = NULL;

    *out = (struct tables){NULL, NULL, NULL, NULL};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            entry = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        const void *table = at(info, entry->d_un.d_ptr);

        switch (entry->d_tag) {
        case DT_SYMTAB:
            out->symbols = table;
            break;
        case DT_STRTAB:
            out->names = table;
            break;
        case DT_GNU_HASH:
            out->hash = table;
            break;
        case DT_VERSYM:
            out->versions = table;
            break;
        default:
            break;
        }
    }
    return out->symbols != NULL && out->names != NULL && out->hash != NULL;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name != '\0'; name++) {
        hash = hash * 33 + (unsigned char)*name;
    }
    return hash;
}

/* Returns the symbol's address within its library; 0 if there is none. */
static ElfW(Addr) find(const struct tables *tables, const char *name)
{
    uint32_t n_buckets = tables->hash[0], first = tables->hash[1];
    const uint32_t *buckets =
        tables->hash + 4 + tables->hash[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    const uint32_t *chain = buckets + n_buckets;
    uint32_t hash = hash_of(name);
    uint32_t i = n_buckets != 0 ? buckets[hash % n_buckets] : 0;

    for (; i >= first && i != 0; i++) {
        const ElfW(Sym) *symbol = &tables->symbols[i];

        if ((chain[i - first] | 1) == (hash | 1) && symbol->st_value != 0 &&
            strcmp(tables->names + symbol->st_name, name) == 0 &&
            (tables->versions == NULL || (tables->versions[i] & HIDDEN_VERSION) == 0)) {
            return symbol->st_value;
        }
        if ((chain[i - first] & 1) != 0) {
            break;
        }
    }
    return 0;
}

static int look_in(struct dl_phdr_info *info, size_t n_bytes, void *context)
{
    struct search *search = context;
    struct tables tables;
    ElfW(Addr) address = 0;

    (void)n_bytes;
    if (strstr(info->dlpi_name, search->library) != NULL && read_tables(info, &tables)) {
        address = find(&tables, search->name);
    }
    if (address != 0) {
        search->found = (void *)(info->dlpi_addr + address);
    }
    return address != 0;
}

void *watch_symbol(const char *library, const char *name)
{
    struct search search = {library, name, NULL};

    dl_iterate_phdr(look_in, &search);
    return search.found;
}

/* ---- this library ---- */

struct place {
    char *out;
    size_t n_bytes, n;
};

static int look_for_own(struct dl_phdr_info *info, size_t n_bytes, void *context)
{
    struct place *place = context;
    uintptr_t own = (uintptr_t)&look_for_own;
    const char *slash = strrchr(info->dlpi_name, '/');
    bool is_own = false;

    (void)n_bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr;

        is_own = is_own ||
                 (part->p_type == PT_LOAD && own >= from && own - from < part->p_memsz);
    }
    if (is_own && slash != NULL &&
        (size_t)(slash - info->dlpi_name) + 1 < place->n_bytes) {
        place->n = (size_t)(slash - info->dlpi_name) + 1;
        memcpy(place->out, info->dlpi_name, place->n);
    }
    return is_own;
}

size_t watch_folder(char *out, size_t n_bytes)
{
    struct place place = {out, n_bytes, 0};

    dl_iterate_phdr(look_for_own, &place);
    return place.n;
}
