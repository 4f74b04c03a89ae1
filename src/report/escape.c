#include "report/escape.h"

/* XML 1.0 allows no control characters but tab and line breaks (2.2, "Char"). */
static const char *entity_of(char byte, bool is_attribute)
{
    switch (byte) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return is_attribute ? "&quot;" : NULL;
    case '\n':
        return is_attribute ? "&#10;" : NULL;
    case '\t':
        return is_attribute ? "?" : NULL;
    default:
        return (unsigned char)byte < 0x20 ? "?" : NULL;
    }
}

void report_escape(const char *text, size_t n, bool is_attribute, struct weft_text *out)
{
    for (size_t i = 0; i < n; i++) {
        const char *entity = entity_of(text[i], is_attribute);

        if (entity != NULL) {
            weft_text_add(out, "%s", entity);
        } else {
            weft_text_add_bytes(out, &text[i], 1);
        }
    }
}
