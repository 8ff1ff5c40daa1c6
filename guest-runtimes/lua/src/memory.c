// Lua's allocator: the C library's, with a limit below the host's, so that a program gets "not enough memory" while the
// rest of the guest still has some.
#include <stdlib.h>

#include "guest.h"

// Bytes reserved for the C library's streams and for strings that are passed to the host.
#define RESERVE (256 << 10)

// Bytes that Lua's blocks use, and their limit.
static size_t used, most = SIZE_MAX;

// Returns the number of bytes that a block takes of the C library's memory.
static size_t footprint(size_t size)
{
    return size ? (size + 4 + 15) & ~(size_t)15 : 0;
}

void memory_begin(const uint64_t *limit)
{
    // All memory in use now stays in use: the stack, constants, the job itself.
    uint64_t fixed = ((uint64_t)__builtin_wasm_memory_size(0) << 16) + RESERVE;
    if (limit && *limit < SIZE_MAX)
        most = *limit > fixed ? *limit - fixed : 0;
}

static void *allocate(void *opaque, void *block, size_t old_size, size_t size)
{
    // For a new block, Lua passes the type of the object instead of a size.
    size_t before = block ? footprint(old_size) : 0, after = footprint(size);
    if (size == 0) {
        free(block);
        used -= before;
        return NULL;
    }
    // Lua requires that making a block smaller never fails.
    if (after > before && (size > SIZE_MAX / 2 || used - before > most || after > most - (used - before)))
        return NULL;
    void *moved = realloc(block, size);
    if (moved)
        used += after - before;
    return moved || after > before ? moved : block;
}

// Becomes the allocator of a state that has just been created.
void memory_adopt(lua_State *L)
{
    used = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + lua_gc(L, LUA_GCCOUNTB);
    lua_setallocf(L, allocate, NULL);
}
