// Text: Lua's strings are bytes and may hold anything, the host's are UTF-8, and neither ends in a zero.
#include <stdlib.h>
#include <string.h>

#include "guest.h"

// The same text with a zero after it, or NULL when there is no room.
char *text_copy(const runtime_string_t *text)
{
    char *copy = malloc(text->len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text->ptr, text->len);
    copy[text->len] = 0;
    return copy;
}

// How many bytes the character at `at` takes, or 0 if what stands there is none.
static size_t character(const unsigned char *at, size_t left)
{
    unsigned char first = at[0];
    size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (size > left)
        return 0;
    for (size_t next = 1; next < size; next++)
        if ((at[next] & 0xc0) != 0x80)
            return 0;
    // Longer than need be, surrogates, and what is beyond the last character.
    if ((first == 0xe0 && at[1] < 0xa0) || (first == 0xed && at[1] > 0x9f) || (first == 0xf0 && at[1] < 0x90) ||
        (first == 0xf4 && at[1] > 0x8f))
        return 0;
    return size;
}

bool text_is_utf8(const char *bytes, size_t length)
{
    size_t size;
    for (size_t at = 0; at < length; at += size)
        if (!(size = character((const unsigned char *)bytes + at, length - at)))
            return false;
    return true;
}

// What the host is told of a text is cut here.
#define MOST (64 << 10)

// A copy of the text in which each byte that is not UTF-8 has become U+FFFD; its end is cut off if it is very long.
bool text_repaired(const char *bytes, size_t length, runtime_string_t *text)
{
    if (length > MOST)
        length = MOST;
    *text = (runtime_string_t){malloc(length * 3 + 1), 0};
    if (!text->ptr)
        return false;
    for (size_t at = 0; at < length;) {
        size_t size = character((const unsigned char *)bytes + at, length - at);
        memcpy(text->ptr + text->len, size ? bytes + at : "\xef\xbf\xbd", size ? size : 3);
        text->len += size ? size : 3;
        at += size ? size : 1;
    }
    return true;
}
