/* weft_check asserts an invariant of Weft's own code, in every build. Misbehaviour of peers, files
 * and NICs is never checked with it; it is reported by a weft_status. */
#ifndef WEFT_BASE_CHECK_H
#define WEFT_BASE_CHECK_H

/* Prints "file:line: check failed: text" to stderr and aborts. */
_Noreturn void weft_check_failed(const char *file, int line, const char *text);

#define weft_check(condition)                                                            \
    do {                                                                                 \
        if (__builtin_expect(!(condition), 0)) {                                         \
            weft_check_failed(__FILE__, __LINE__, #condition);                           \
        }                                                                                \
    } while (0)

/* Returns the structure that contains `member`, given the member's address. */
#define weft_container_of(pointer, type, member)                                         \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define WEFT_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#endif
