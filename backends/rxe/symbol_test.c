/* Finds instructions in this program's own file and in broken files. */
#define _GNU_SOURCE
#include "backends/rxe/symbol.h"

#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suite_testing.h"

static void to_be_found(void)
{
    ck_assert(true);
}

/* Returns the file offset of the code at this address, from /proc/self/maps. */
static uint64_t offset_of(uintptr_t address)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4352];
    uint64_t begin, end, offset, found = 0;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 &&
            address >= begin && address < end) {
            found = address - begin + offset;
        }
    }
    fclose(maps);
    ck_assert_uint_ne(found, 0);
    return found;
}

START_TEST(a_function_is_named)
{
    uint64_t offset = offset_of((uintptr_t)to_be_found);
    struct symbol_place place;

    for (uint64_t i = 0; i < 3; i++) {
        ck_assert(symbol_find("/proc/self/exe", offset + i, &place));
        ck_assert_str_eq(place.name, "to_be_found");
        ck_assert_uint_eq(place.into_function, i);
    }
    ck_assert(!symbol_find("/proc/self/exe", UINT64_MAX, &place));
}
END_TEST

START_TEST(what_is_no_program_has_no_place)
{
    static const char *const paths[] = {"/etc/passwd", "/", "/dev/null", "/none", ""};
    struct symbol_place place;

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        ck_assert(!symbol_find(paths[i], 64, &place));
    }
}
END_TEST

/* A program with one segment, one symbol table with a function, and a string table. */
struct small {
    Elf64_Ehdr header;
    Elf64_Phdr part;
    Elf64_Shdr sections[2];
    Elf64_Sym symbol;
    char names[16];
};

static struct small small_program(void)
{
    struct small s = {
        .header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                   .e_phoff = offsetof(struct small, part),
                   .e_phentsize = sizeof(Elf64_Phdr),
                   .e_phnum = 1,
                   .e_shoff = offsetof(struct small, sections),
                   .e_shentsize = sizeof(Elf64_Shdr),
                   .e_shnum = 2},
        .part = {.p_type = PT_LOAD,
                 .p_vaddr = 0x400000,
                 .p_filesz = sizeof(struct small)},
        .sections = {{.sh_type = SHT_DYNSYM,
                      .sh_offset = offsetof(struct small, symbol),
                      .sh_size = sizeof(Elf64_Sym),
                      .sh_link = 1},
                     {.sh_type = SHT_STRTAB,
                      .sh_offset = offsetof(struct small, names),
                      .sh_size = sizeof(s.names)}},
        .symbol = {.st_name = 1,
                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                   .st_shndx = 1,
                   .st_value = 0x400010,
                   .st_size = 8},
        .names = "\0spin"};

    return s;
}

static bool find_in(const struct small *s, size_t n, uint64_t offset,
                    struct symbol_place *out)
{
    char path[] = "/tmp/weft-symbol-XXXXXX";
    int fd = mkstemp(path);
    bool is;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, s, n), (ssize_t)n);
    is = symbol_find(path, offset, out);
    close(fd);
    unlink(path);
    return is;
}

START_TEST(a_place_is_in_a_function_or_beside)
{
    static const struct {
        uint64_t offset;
        const char *name;
    } cases[] = {{0xf, ""}, {0x10, "spin"}, {0x17, "spin"}, {0x18, ""}};
    struct small s = small_program();
    struct symbol_place place;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert(find_in(&s, sizeof(s), cases[i].offset, &place));
        ck_assert_uint_eq(place.address, 0x400000 + cases[i].offset);
        ck_assert_str_eq(place.name, cases[i].name);
    }
    ck_assert(!find_in(&s, sizeof(s), sizeof(s), &place));
}
END_TEST

/* Truncates the file at every length, and sets every word to its maximum: nothing outside the
 * file is read. */
START_TEST(a_broken_program_is_survived)
{
    const struct small whole = small_program();
    struct symbol_place place;

    for (size_t n = 0; n < sizeof(whole); n++) {
        if (find_in(&whole, n, 0x12, &place)) {
            ck_assert(place.name[0] == '\0' ||
                      strncmp("spin", place.name, strlen(place.name)) == 0);
        }
    }
    for (size_t at = 0; at + 8 <= sizeof(whole); at += 4) {
        for (size_t n = 4; n <= 8; n += 4) {
            struct small s = whole;

            memset((char *)&s + at, 0xff, n);
            (void)find_in(&s, sizeof(s), 0x12, &place);
            ck_assert_uint_lt(strlen(place.name), SYMBOL_NAME_BYTES);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rxe, symbol");
    TCase *tcase = tcase_create("symbol");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, a_function_is_named);
    tcase_add_test(tcase, what_is_no_program_has_no_place);
    tcase_add_test(tcase, a_place_is_in_a_function_or_beside);
    tcase_add_test(tcase, a_broken_program_is_survived);
    return suite_run(suite);
}
