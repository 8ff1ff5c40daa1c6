// Bytes and text: conversion of strings to and from UTF-8 and Latin-1, and operations on long arrays that are slow in
// JavaScript.
#include <stdlib.h>
#include <string.h>

#include "shim.h"

uint8_t *bytes_of(JSContext *ctx, size_t *length, JSValueConst value)
{
    if (JS_IsArrayBuffer(value))
        return JS_GetArrayBuffer(ctx, length, value);
    size_t offset, element, whole;
    JSValue buffer = JS_GetTypedArrayBuffer(ctx, value, &offset, length, &element);
    if (JS_IsException(buffer))
        return NULL;
    uint8_t *bytes = JS_GetArrayBuffer(ctx, &whole, buffer);
    JS_FreeValue(ctx, buffer);
    return bytes ? bytes + offset : NULL;
}

JSValue bytes_new(JSContext *ctx, const void *bytes, size_t length)
{
    return JS_NewUint8ArrayCopy(ctx, bytes, length);
}

static void *resize(JSRuntime *rt, void *opaque, void *block, size_t size)
{
    if (size)
        return js_realloc_rt(rt, block, size);
    js_free_rt(rt, block);
    return NULL;
}

// Creates an array that takes ownership of `bytes`, which js_malloc allocated.
JSValue bytes_adopt(JSContext *ctx, uint8_t *bytes, size_t length)
{
    JSValue array = JS_NewUint8Array(ctx, bytes, length, resize, NULL, false);
    if (JS_IsException(array))
        js_free(ctx, bytes);
    return array;
}

// Returns the UTF-8 of a string. The engine encodes a lone surrogate in three bytes, which are replaced in place by the
// three bytes of U+FFFD. The replacement is safe: a text with a surrogate is never the engine's own copy of an ASCII
// string.
const char *text_of(JSContext *ctx, size_t *length, JSValueConst value)
{
    const char *text = JS_ToCStringLen(ctx, length, value);
    if (!text)
        return NULL;
    const char *end = text + *length;
    for (const char *at = text; (at = memchr(at, 0xed, end - at)); at += 3) {
        if ((uint8_t)at[1] >= 0xa0) {
            ((uint8_t *)at)[0] = 0xef;
            ((uint8_t *)at)[1] = 0xbf;
            ((uint8_t *)at)[2] = 0xbd;
        }
    }
    return text;
}

const uint8_t *bytes_or_text(JSContext *ctx, size_t *length, const char **text, JSValueConst value)
{
    *text = NULL;
    if (!JS_IsString(value))
        return bytes_of(ctx, length, value);
    *text = text_of(ctx, length, value);
    return (const uint8_t *)*text;
}

static JSValue utf8_encode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const char *text = text_of(ctx, &length, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    JSValue bytes = bytes_new(ctx, text, length);
    JS_FreeCString(ctx, text);
    return bytes;
}

static JSValue utf8_length(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, argv[0]);
    if (!text)
        return JS_EXCEPTION;
    JS_FreeCString(ctx, text);
    return JS_NewInt64(ctx, length);
}

// Decodes one character of UTF-8 as the Encoding Standard specifies. Returns -1 for an invalid sequence, whose length
// is that of its longest valid prefix.
static int32_t next(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *p = *at;
    uint8_t first = *p++;
    uint8_t low = 0x80, high = 0xbf;
    int more;
    int32_t code;
    if (first < 0x80) {
        *at = p;
        return first;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        more = 1;
        code = first & 0x1f;
    } else if (first >= 0xe0 && first <= 0xef) {
        more = 2;
        code = first & 0xf;
        if (first == 0xe0)
            low = 0xa0;
        if (first == 0xed)
            high = 0x9f;
    } else if (first >= 0xf0 && first <= 0xf4) {
        more = 3;
        code = first & 7;
        if (first == 0xf0)
            low = 0x90;
        if (first == 0xf4)
            high = 0x8f;
    } else {
        *at = p;
        return -1;
    }
    while (more--) {
        if (p == end || *p < low || *p > high) {
            *at = p;
            return -1;
        }
        code = code << 6 | (*p++ & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *at = p;
    return code;
}

static JSValue utf8_decode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const uint8_t *bytes = bytes_of(ctx, &length, argv[0]);
    if (!bytes)
        return JS_HasException(ctx) ? JS_EXCEPTION : JS_NewString(ctx, "");
    bool fatal = argc > 1 && JS_ToBool(ctx, argv[1]) > 0;
    const uint8_t *end = bytes + length;
    const uint8_t *at = bytes;
    while (at < end && *at < 0x80)
        at++;
    if (at == end)
        return JS_NewStringLen(ctx, (const char *)bytes, length);
    // The text never has more units than bytes.
    uint16_t *units = js_malloc(ctx, length * sizeof *units);
    if (!units)
        return JS_EXCEPTION;
    size_t count = 0;
    for (at = bytes; at < end;) {
        int32_t code = next(&at, end);
        if (code < 0 && fatal) {
            js_free(ctx, units);
            return JS_NULL;
        }
        if (code < 0)
            code = 0xfffd;
        if (code >= 0x10000) {
            units[count++] = 0xd800 + ((code - 0x10000) >> 10);
            code = 0xdc00 + (code & 0x3ff);
        }
        units[count++] = code;
    }
    JSValue text = JS_NewStringUTF16(ctx, units, count);
    js_free(ctx, units);
    return text;
}

static JSValue latin1_decode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const uint8_t *bytes = bytes_of(ctx, &length, argv[0]);
    if (!bytes)
        return JS_HasException(ctx) ? JS_EXCEPTION : JS_NewString(ctx, "");
    uint16_t *units = js_malloc(ctx, length * sizeof *units + 1);
    if (!units)
        return JS_EXCEPTION;
    for (size_t i = 0; i < length; i++)
        units[i] = bytes[i];
    JSValue text = JS_NewStringUTF16(ctx, units, length);
    js_free(ctx, units);
    return text;
}

static JSValue latin1_encode(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const uint16_t *units = JS_ToCStringLenUTF16(ctx, &length, argv[0]);
    if (!units)
        return JS_EXCEPTION;
    uint8_t *bytes = js_malloc(ctx, length + 1);
    if (!bytes) {
        JS_FreeCStringUTF16(ctx, units);
        return JS_EXCEPTION;
    }
    for (size_t i = 0; i < length; i++)
        bytes[i] = units[i];
    JS_FreeCStringUTF16(ctx, units);
    return bytes_adopt(ctx, bytes, length);
}

// Gets two byte strings from arguments, which may be empty arrays without an address.
static bool two_arguments(JSContext *ctx, JSValueConst *argv, const uint8_t **a, size_t *m, const uint8_t **b,
                          size_t *n)
{
    *a = bytes_of(ctx, m, argv[0]);
    if (!*a && JS_HasException(ctx))
        return false;
    *b = bytes_of(ctx, n, argv[1]);
    return *b || !JS_HasException(ctx);
}

static JSValue compare(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *a, *b;
    size_t m, n;
    if (!two_arguments(ctx, argv, &a, &m, &b, &n))
        return JS_EXCEPTION;
    int order = m && n ? memcmp(a, b, m < n ? m : n) : 0;
    if (order == 0)
        order = (m > n) - (m < n);
    return JS_NewInt32(ctx, (order > 0) - (order < 0));
}

static JSValue index_of(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *a, *b;
    size_t m, n;
    int64_t from = 0;
    if (!two_arguments(ctx, argv, &a, &m, &b, &n) || (argc > 2 && JS_ToInt64(ctx, &from, argv[2])))
        return JS_EXCEPTION;
    if (from < 0 || (uint64_t)from > m || n > m - from)
        return JS_NewInt32(ctx, -1);
    if (n == 0)
        return JS_NewInt64(ctx, from);
    const uint8_t *at = a + from;
    const uint8_t *last = a + (m - n);
    while (at <= last && (at = memchr(at, b[0], last - at + 1))) {
        if (!memcmp(at, b, n))
            return JS_NewInt64(ctx, at - a);
        at++;
    }
    return JS_NewInt32(ctx, -1);
}

static JSValue last_index_of(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const uint8_t *a, *b;
    size_t m, n;
    int64_t from = INT64_MAX;
    if (!two_arguments(ctx, argv, &a, &m, &b, &n) ||
        (argc > 2 && !JS_IsUndefined(argv[2]) && JS_ToInt64(ctx, &from, argv[2])))
        return JS_EXCEPTION;
    if (from < 0 || n > m)
        return JS_NewInt32(ctx, -1);
    int64_t at = from < (int64_t)(m - n) ? from : (int64_t)(m - n);
    while (at >= 0 && n && memcmp(a + at, b, n))
        at--;
    return JS_NewInt64(ctx, at);
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("utf8Encode", 1, utf8_encode),
    JS_CFUNC_DEF("utf8Length", 1, utf8_length),
    JS_CFUNC_DEF("utf8Decode", 2, utf8_decode),
    JS_CFUNC_DEF("latin1Decode", 1, latin1_decode),
    JS_CFUNC_DEF("latin1Encode", 1, latin1_encode),
    JS_CFUNC_DEF("compare", 2, compare),
    JS_CFUNC_DEF("indexOf", 3, index_of),
    JS_CFUNC_DEF("lastIndexOf", 3, last_index_of),
};

void add_bytes(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
