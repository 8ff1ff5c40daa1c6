// The engine's allocator: the C library's, with a reserve so that a program that is out of memory can still report it.
#include <stdlib.h>
#include <string.h>

#include "shim.h"

// Reserved blocks, by the purpose for which each is released. They are part of the image, so they cost no time.
enum { TO_GO_ON, FOR_THE_ERROR, FOR_LAST_WORDS, SPARES };
static const size_t SIZES[SPARES] = {256 << 10, 64 << 10, 512 << 10};
static void *spares[SPARES];

// Free memory of an image: a program that needs no more does not make the memory grow.
#define HEADROOM (256 << 10)
// Free blocks of at least this size stay available.
#define LARGE_HOLE (64 << 10)

// Bytes in use, and their limit unless it is 0. The host has a limit of its own, at which the memory stops growing.
static size_t used, most;
// Bytes freed since a reserved block was released.
static size_t freed;

void memory_hold_back(void)
{
    for (int i = 0; i < SPARES; i++)
        if (!spares[i])
            spares[i] = malloc(SIZES[i]);
}

// Leaves only large free blocks, so that later allocations lie together. Small ones, which would scatter them, are
// allocated for good. All free memory is zeroed, so that the image is small.
void memory_settle(void)
{
    struct hole {
        struct hole *next;
    } *good = NULL, *next;
    memory_hold_back();
    for (int i = 0; i < SPARES; i++)
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
            hole->next = good;
            good = hole;
        }
    }
    for (; good; good = next) {
        next = good->next;
        good->next = NULL;
        free(good);
    }
}

static bool let_go(int which)
{
    bool was_there = spares[which] != NULL;
    free(spares[which]);
    spares[which] = NULL;
    freed = 0;
    return was_there;
}

// Releases the whole reserve, before an error that ends the program is shown.
void memory_let_go(void)
{
    for (int i = 0; i < SPARES; i++)
        let_go(i);
}

// Releases a part of the reserve after a failed allocation. The first failure is served from the reserve, and makes the
// engine collect garbage at its next object. The second one is an error, which needs some memory itself.
static bool last_resort(void)
{
    if (let_go(TO_GO_ON)) {
        engine_collect_soon(ctx);
        return true;
    }
    let_go(FOR_THE_ERROR);
    return false;
}

// Restores the reserve after enough memory was freed, for a program that survived.
static void regain(size_t size)
{
    freed += size;
    if (freed > 1 << 20) {
        freed = 0;
        memory_hold_back();
    }
}

// Block that stores its own size. The engine adds up the sizes of its blocks on allocation and release, but the size
// that this C library reports for a block changes during its lifetime.
struct block {
    _Alignas(8) size_t size;
    _Alignas(8) unsigned char room[];
};

// Largest allocation. The C library treats the number of bytes by which the memory grows as signed, and traps if it is
// negative.
#define MOST_AT_ONCE (((size_t)1 << 31) - ((size_t)1 << 20))

#define BLOCK_OF(room) ((struct block *)((unsigned char *)(room) - offsetof(struct block, room)))

static struct block *attempt(struct block *old, size_t size)
{
    size_t before = old ? old->size : 0;
    // Under a limit, the reserve counts as used until its block is released.
    size_t held = (spares[FOR_THE_ERROR] ? SIZES[FOR_THE_ERROR] : 0) + (spares[FOR_LAST_WORDS] ? SIZES[FOR_LAST_WORDS] : 0);
    if (size > MOST_AT_ONCE || (most && used - before + size + held > most))
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
    if (!block && last_resort())
        block = attempt(old, size);
    return block ? block->room : NULL;
}

static void *engine_malloc(void *opaque, size_t size)
{
    return get(NULL, size);
}

static void *engine_calloc(void *opaque, size_t count, size_t size)
{
    // The engine has checked that the product does not overflow.
    void *room = get(NULL, count * size);
    return room ? memset(room, 0, count * size) : NULL;
}

static void *engine_realloc(void *opaque, void *room, size_t size)
{
    return get(BLOCK_OF(room), size);
}

static void engine_free(void *opaque, void *room)
{
    if (!room)
        return;
    size_t size = BLOCK_OF(room)->size;
    free(BLOCK_OF(room));
    used -= size;
    if (!spares[FOR_THE_ERROR])
        regain(size);
}

static size_t engine_size(const void *room)
{
    return BLOCK_OF(room)->size;
}

const JSMallocFunctions memory_functions = {engine_calloc, engine_malloc, engine_free, engine_realloc, engine_size};

static JSValue memory(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSValue result = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, result, "used", JS_NewInt64(ctx, engine_used(ctx)));
    JS_SetPropertyStr(ctx, result, "total", JS_NewInt64(ctx, (int64_t)__builtin_wasm_memory_size(0) << 16));
    JS_SetPropertyStr(ctx, result, "limit", JS_NewInt64(ctx, most));
    return result;
}

static JSValue set_limit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int64_t limit;
    if (JS_ToInt64(ctx, &limit, argv[0]))
        return JS_EXCEPTION;
    most = limit < 0 || limit > (int64_t)SIZE_MAX ? 0 : limit;
    return JS_UNDEFINED;
}

static JSValue make_room(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    memory_let_go();
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
    JS_CFUNC_DEF("makeRoom", 0, make_room),
    JS_CFUNC_DEF("gc", 0, collect),
};

void add_memory(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
