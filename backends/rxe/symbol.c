#define _GNU_SOURCE
#include "backends/rxe/symbol.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct file {
    const uint8_t *bytes;
    uint64_t n;
    Elf64_Ehdr header;
};

/* Copies `n` bytes at `at`, which need not be aligned. Returns false if the file is too short. */
static bool take(const struct file *file, uint64_t at, void *out, uint64_t n)
{
    if (at > file->n || n > file->n - at) {
        return false;
    }
    memcpy(out, file->bytes + at, n);
    return true;
}

/* Copies entry `i` of a table whose entries are `step` bytes apart. */
static bool take_entry(const struct file *file, uint64_t table, uint64_t i, uint64_t step,
                       void *out, uint64_t n)
{
    uint64_t at;

    return step >= n && !__builtin_mul_overflow(i, step, &at) &&
           !__builtin_add_overflow(at, table, &at) && take(file, at, out, n);
}

static bool is_ours(struct file *file)
{
    const unsigned char data =
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

    return take(file, 0, &file->header, sizeof(file->header)) &&
           memcmp(file->header.e_ident, ELFMAG, SELFMAG) == 0 &&
           file->header.e_ident[EI_CLASS] == ELFCLASS64 &&
           file->header.e_ident[EI_DATA] == data;
}

static bool find_address(const struct file *file, uint64_t offset, uint64_t *out)
{
    const Elf64_Ehdr *header = &file->header;
    Elf64_Phdr part;

    for (uint64_t i = 0; i < header->e_phnum; i++) {
        if (!take_entry(file, header->e_phoff, i, header->e_phentsize, &part,
                        sizeof(part))) {
            return false;
        }
        if (part.p_type == PT_LOAD && offset >= part.p_offset &&
            offset - part.p_offset < part.p_filesz) {
            *out = part.p_vaddr + (offset - part.p_offset);
            return true;
        }
    }
    return false;
}

static bool is_in(const Elf64_Sym *symbol, uint64_t address)
{
    return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
           address >= symbol->st_value && address - symbol->st_value < symbol->st_size;
}

static void take_name(const struct file *file, uint64_t at, struct symbol_place *out)
{
    size_t n = sizeof(out->name) - 1;

    if (at < file->n) {
        n = n < file->n - at ? n : (size_t)(file->n - at);
        memcpy(out->name, file->bytes + at, n);
        out->name[n] = '\0';
    }
}

/* Searches the symbols of one section for the function at `out->address`. */
static bool find_name(const struct file *file, const Elf64_Shdr *table,
                      struct symbol_place *out)
{
    Elf64_Shdr names;
    Elf64_Sym symbol;
    uint64_t at;

    if (!take_entry(file, file->header.e_shoff, table->sh_link, file->header.e_shentsize,
                    &names, sizeof(names))) {
        return false;
    }
    for (uint64_t i = 0; i < table->sh_size / sizeof(symbol); i++) {
        if (!take_entry(file, table->sh_offset, i, sizeof(symbol), &symbol,
                        sizeof(symbol))) {
            return false;
        }
        if (is_in(&symbol, out->address) &&
            !__builtin_add_overflow(names.sh_offset, symbol.st_name, &at)) {
            take_name(file, at, out);
            out->into_function = out->address - symbol.st_value;
            return true;
        }
    }
    return false;
}

/* Also searches the dynamic symbols, which a stripped file still has. */
static void find_symbol(const struct file *file, struct symbol_place *out)
{
    static const Elf64_Word kinds[] = {SHT_SYMTAB, SHT_DYNSYM};
    const Elf64_Ehdr *header = &file->header;
    Elf64_Shdr section;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (uint64_t i = 0; i < header->e_shnum; i++) {
            if (take_entry(file, header->e_shoff, i, header->e_shentsize, &section,
                           sizeof(section)) &&
                section.sh_type == kinds[k] && find_name(file, &section, out)) {
                return;
            }
        }
    }
}

bool symbol_find(const char *path, uint64_t offset, struct symbol_place *out)
{
    struct stat status;
    struct file file = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is = false;

    *out = (struct symbol_place){.address = 0};
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (bytes != MAP_FAILED) {
            file.bytes = bytes;
            file.n = (uint64_t)status.st_size;
            is = is_ours(&file) && find_address(&file, offset, &out->address);
            if (is) {
                find_symbol(&file, out);
            }
            munmap(bytes, (size_t)status.st_size);
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return is;
}
