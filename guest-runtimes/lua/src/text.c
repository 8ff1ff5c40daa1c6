// Text conversion. Lua's strings are arbitrary bytes, the host's are UTF-8, and neither is zero-terminated.
#include <stdlib.h>
#include <string.h>

#include "guest.h"

// Returns a zero-terminated copy of the text, or NULL if memory is exhausted.
char *text_copy(const runtime_string_t *text)
{
    char *copy = malloc(text->len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text->ptr, text->len);
    copy[text->len] = 0;
    return copy;
}

// Returns the number of bytes of the character at `at`, or 0 if it is not valid UTF-8.
static size_t character(const unsigned char *at, size_t left)
{
    unsigned char first = at[0];
    size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (size > left)
        return 0;
    for (size_t next = 1; next < size; next++)
        if ((at[next] & 0xc0) != 0x80)
            return 0;
    // Rejects overlong forms, surrogates, and code points beyond the last one.
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

// Most bytes of a text that are sent to the host.
#define MOST (64 << 10)

// Copies the text, replaces each byte that is not UTF-8 by U+FFFD, and truncates a very long text.
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

// Returns an argument as a string of the host, which stays valid while the value is on the stack.
runtime_string_t text_argument(lua_State *L, int argument)
{
    size_t length;
    const char *bytes = luaL_checklstring(L, argument, &length);
    luaL_argcheck(L, text_is_utf8(bytes, length), argument, "not valid UTF-8");
    return (runtime_string_t){(uint8_t *)bytes, length};
}
