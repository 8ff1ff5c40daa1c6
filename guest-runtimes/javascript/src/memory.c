// The engine's allocator: the C library's, with a reserve so that a program that is out of memory can still report it.
#include <stdlib.h>
#include <string.h>

#include "shim.h"

// Reserved blocks, by the purpose for which each is released. They are part of the image, so they cost no time.
enum { RESERVE_GC, RESERVE_ERROR, RESERVE_FATAL, RESERVE_COUNT };
static const size_t SIZES[RESERVE_COUNT] = {256 << 10, 64 << 10, 512 << 10};
static void *spares[RESERVE_COUNT];

// Free memory of an image: a program that needs no more does not make the memory grow.
#define HEADROOM (256 << 10)
// Free blocks of at least this size stay available.
#define LARGE_HOLE (64 << 10)

// Bytes in use, and their limit unless it is 0. The host has a limit of its own, at which the memory stops growing.
static size_t used, limit;
// Bytes freed since a reserved block was released.
static size_t freed;

void reserve_fill(void)
{
    for (int i = 0; i < RESERVE_COUNT; i++)
        if (!spares[i])
            spares[i] = malloc(SIZES[i]);
}

// Leaves only large free blocks, so that later allocations lie together. Small ones, which would scatter them, are
// allocated for good. All free memory is zeroed, so that the image is small.
void memory_settle(void)
{
    struct hole {
        struct hole *next;
    } *holes = NULL, *next;
    reserve_fill();
    for (int i = 0; i < RESERVE_COUNT; i++)
        if (spares[i])
            memset(spares[i], 0, SIZES[i]);
    void *end = (void *)(__builtin_wasm_memory_size(0) << 16);
    for (size_t size = HEADROOM; size >= 16; size = size > 256 ? size / 2 : size - 8) {
        // Allocates all free blocks of this size. The allocator uses the best fit, so two blocks beyond the former end
        // mean that none is left.
        for (int above = 0; above < 2;) {
            struct hole *hole = malloc(size);
            if (!hole)
                break;
            memset(hole, 0, size);
            above += (void *)hole >= end;
            if (size < LARGE_HOLE && (void *)hole < end)
                continue;
            hole->next = holes;
            holes = hole;
        }
    }
    for (; holes; holes = next) {
        next = holes->next;
        holes->next = NULL;
        free(holes);
    }
}

static bool reserve_release_block(int which)
{
    bool was_there = spares[which] != NULL;
    free(spares[which]);
    spares[which] = NULL;
    freed = 0;
    return was_there;
}

// Releases the whole reserve, before an error that ends the program is shown.
void reserve_release(void)
{
    for (int i = 0; i < RESERVE_COUNT; i++)
        reserve_release_block(i);
}

// Releases a part of the reserve after a failed allocation. The first failure is served from the reserve, and makes the
// engine collect garbage at its next object. The second one is an error, which needs some memory itself.
static bool release_after_failure(void)
{
    if (reserve_release_block(RESERVE_GC)) {
        engine_collect_soon(ctx);
        return true;
    }
    reserve_release_block(RESERVE_ERROR);
    return false;
}

// Restores the reserve after enough memory was freed, for a program that survived.
static void reserve_restore(size_t size)
{
    freed += size;
    if (freed > 1 << 20) {
        freed = 0;
        reserve_fill();
    }
}

// Block that stores its own size. The engine adds up the sizes of its blocks on allocation and release, but the size
// that this C library reports for a block changes during its lifetime.
struct block {
    _Alignas(8) size_t size;
    _Alignas(8) unsigned char payload[];
};

// Largest allocation. The C library treats the number of bytes by which the memory grows as signed, and traps if it is
// negative.
#define MAX_ALLOCATION (((size_t)1 << 31) - ((size_t)1 << 20))

#define BLOCK_OF(pointer) ((struct block *)((unsigned char *)(pointer) - offsetof(struct block, payload)))

static struct block *attempt(struct block *old, size_t size)
{
    size_t before = old ? old->size : 0;
    // Under a limit, the reserve counts as used until its block is released.
    size_t held = (spares[RESERVE_ERROR] ? SIZES[RESERVE_ERROR] : 0) + (spares[RESERVE_FATAL] ? SIZES[RESERVE_FATAL] : 0);
    if (size > MAX_ALLOCATION || (limit && used - before + size + held > limit))
        return NULL;
    struct block *block = realloc(old, sizeof(struct block) + size);
    if (!block)
        return NULL;
    used += size - before;
    block->size = size;
    return block;
}

static void *get(struct block *old, size_t size)
{
    size = (size + 7) & ~(size_t)7;
    struct block *block = attempt(old, size);
    if (!block && release_after_failure())
        block = attempt(old, size);
    return block ? block->payload : NULL;
}

static void *engine_malloc(void *opaque, size_t size)
{
    return get(NULL, size);
}

static void *engine_calloc(void *opaque, size_t count, size_t size)
{
    // The engine has checked that the product does not overflow.
    void *payload = get(NULL, count * size);
    return payload ? memset(payload, 0, count * size) : NULL;
}

static void *engine_realloc(void *opaque, void *payload, size_t size)
{
    return get(BLOCK_OF(payload), size);
}

static void engine_free(void *opaque, void *payload)
{
    if (!payload)
        return;
    size_t size = BLOCK_OF(payload)->size;
    free(BLOCK_OF(payload));
    used -= size;
    if (!spares[RESERVE_ERROR])
        reserve_restore(size);
}

static size_t engine_size(const void *payload)
{
    return BLOCK_OF(payload)->size;
}

const JSMallocFunctions memory_functions = {engine_calloc, engine_malloc, engine_free, engine_realloc, engine_size};

static JSValue memory(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSValue result = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, result, "used", JS_NewInt64(ctx, engine_used(ctx)));
    JS_SetPropertyStr(ctx, result, "total", JS_NewInt64(ctx, (int64_t)__builtin_wasm_memory_size(0) << 16));
    JS_SetPropertyStr(ctx, result, "limit", JS_NewInt64(ctx, limit));
    return result;
}

static JSValue set_limit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int64_t bytes;
    if (JS_ToInt64(ctx, &bytes, argv[0]))
        return JS_EXCEPTION;
    limit = bytes < 0 || bytes > (int64_t)SIZE_MAX ? 0 : bytes;
    return JS_UNDEFINED;
}

static JSValue release_reserve(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    reserve_release();
    return JS_UNDEFINED;
}

static JSValue collect(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JS_RunGC(JS_GetRuntime(ctx));
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("memory", 0, memory),
    JS_CFUNC_DEF("setMemoryLimit", 1, set_limit),
    JS_CFUNC_DEF("releaseReserve", 0, release_reserve),
    JS_CFUNC_DEF("gc", 0, collect),
};

void add_memory(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
