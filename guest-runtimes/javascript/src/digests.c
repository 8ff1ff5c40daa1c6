// Digests, and keys derived with them. The algorithms are in digests.zig.
#include <string.h>

#include "shim.h"

size_t digest_size(uint32_t algorithm);
void digest_begin(uint32_t algorithm, uint8_t *state);
void digest_update(uint32_t algorithm, uint8_t *state, const uint8_t *bytes, size_t length);
size_t digest_end(uint32_t algorithm, const uint8_t *state, uint8_t *out);
bool digest_pbkdf2(uint32_t algorithm, const uint8_t *password, size_t password_length, const uint8_t *salt,
                   size_t salt_length, uint32_t rounds, uint8_t *out, size_t out_length);
bool digest_scrypt(uint8_t *memory, size_t memory_length, const uint8_t *password, size_t password_length,
                   const uint8_t *salt, size_t salt_length, uint32_t log_cost, uint32_t block_size,
                   uint32_t parallelization, uint8_t *out, size_t out_length);

// Greatest length of a digest.
#define DIGEST_MAX 64

// Returns the state of an algorithm, or NULL if the array is none.
static uint8_t *state_of(JSContext *ctx, JSValueConst *argv, uint32_t *algorithm)
{
    size_t length;
    if (JS_ToUint32(ctx, algorithm, argv[0]))
        return NULL;
    uint8_t *state = bytes_of(ctx, &length, argv[1]);
    if (!state)
        return NULL;
    if (length == 0 || length != digest_size(*algorithm)) {
        JS_ThrowTypeError(ctx, "not the state of a digest");
        return NULL;
    }
    return state;
}

static JSValue begin(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint32_t algorithm;
    uint8_t state[1024];
    if (JS_ToUint32(ctx, &algorithm, argv[0]))
        return JS_EXCEPTION;
    size_t size = digest_size(algorithm);
    if (size == 0 || size > sizeof(state))
        return JS_ThrowTypeError(ctx, "unknown digest");
    digest_begin(algorithm, state);
    return bytes_new(ctx, state, size);
}

static JSValue update(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint32_t algorithm;
    size_t length;
    uint8_t *state = state_of(ctx, argv, &algorithm);
    const uint8_t *bytes = state ? bytes_of(ctx, &length, argv[2]) : NULL;
    if (!bytes)
        return state && !JS_HasException(ctx) ? JS_UNDEFINED : JS_EXCEPTION;
    digest_update(algorithm, state, bytes, length);
    return JS_UNDEFINED;
}

static JSValue end(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint32_t algorithm;
    uint8_t out[DIGEST_MAX];
    uint8_t *state = state_of(ctx, argv, &algorithm);
    if (!state)
        return JS_EXCEPTION;
    return bytes_new(ctx, out, digest_end(algorithm, state, out));
}

// pbkdf2(algorithm, password, salt, rounds, length): the key, or undefined for parameters that it does not take.
static JSValue pbkdf2(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint32_t algorithm, rounds, length;
    size_t password_length, salt_length;
    if (JS_ToUint32(ctx, &algorithm, argv[0]) || JS_ToUint32(ctx, &rounds, argv[3]) || JS_ToUint32(ctx, &length, argv[4]))
        return JS_EXCEPTION;
    const uint8_t *password = bytes_of(ctx, &password_length, argv[1]);
    const uint8_t *salt = bytes_of(ctx, &salt_length, argv[2]);
    if (!password || !salt || length == 0)
        return JS_HasException(ctx) ? JS_EXCEPTION : JS_UNDEFINED;
    uint8_t *out = js_malloc(ctx, length);
    if (!out)
        return JS_EXCEPTION;
    if (!digest_pbkdf2(algorithm, password, password_length, salt, salt_length, rounds, out, length)) {
        js_free(ctx, out);
        return JS_UNDEFINED;
    }
    return bytes_adopt(ctx, out, length);
}

// scrypt(password, salt, logCost, blockSize, parallelization, length): the key, or undefined for parameters that it does not take.
static JSValue scrypt(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint32_t log_cost, block_size, parallelization, length;
    size_t password_length, salt_length;
    if (JS_ToUint32(ctx, &log_cost, argv[2]) || JS_ToUint32(ctx, &block_size, argv[3]) ||
        JS_ToUint32(ctx, &parallelization, argv[4]) || JS_ToUint32(ctx, &length, argv[5]))
        return JS_EXCEPTION;
    const uint8_t *password = bytes_of(ctx, &password_length, argv[0]);
    const uint8_t *salt = bytes_of(ctx, &salt_length, argv[1]);
    if (!password || !salt || length == 0 || log_cost > 30)
        return JS_HasException(ctx) ? JS_EXCEPTION : JS_UNDEFINED;
    // The blocks, a block and its copy, those of all lanes, and their alignment.
    uint64_t size = 128ull * block_size * ((1ull << log_cost) + parallelization + 2) + 256;
    // The library computes with 30 bits.
    if (size > UINT32_MAX || 128ull * block_size * parallelization >= 1u << 30)
        return JS_UNDEFINED;
    uint8_t *memory = js_malloc(ctx, size), *out = memory ? js_malloc(ctx, length) : NULL;
    if (!out) {
        js_free(ctx, memory);
        return JS_EXCEPTION;
    }
    bool is_derived = digest_scrypt(memory, size, password, password_length, salt, salt_length, log_cost, block_size,
                                    parallelization, out, length);
    js_free(ctx, memory);
    if (!is_derived) {
        js_free(ctx, out);
        return JS_UNDEFINED;
    }
    return bytes_adopt(ctx, out, length);
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("digestBegin", 1, begin),
    JS_CFUNC_DEF("digestUpdate", 3, update),
    JS_CFUNC_DEF("digestEnd", 2, end),
    JS_CFUNC_DEF("pbkdf2", 5, pbkdf2),
    JS_CFUNC_DEF("scrypt", 6, scrypt),
};

void add_digests(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
