// Random numbers seeded with the job's entropy: for string hashes, names of temporary files, and `math.random`.
#include <string.h>

#include "guest.h"

static uint64_t state[4];

static uint64_t rotated(uint64_t word, int by)
{
    return word << by | word >> (64 - by);
}

// Returns the next number of xoshiro256**, the generator that Lua uses.
uint64_t random_next(void)
{
    uint64_t result = rotated(state[1] * 5, 7) * 9, shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 45);
    return result;
}

void random_begin(const uint8_t *bytes, size_t length)
{
    // The state of the generator must not be all zeros.
    memcpy(state, "codebox: lua, and its randomness", sizeof state);
    for (size_t at = 0; at < length; at++)
        ((uint8_t *)state)[at % sizeof state] ^= bytes[at];
    for (int turn = 0; turn < 16; turn++)
        random_next();
}

// math.randomseed. Without arguments, Lua would use the time and an address, which may be the same in two jobs.
static int randomseed(lua_State *L)
{
    if (lua_isnone(L, 1)) {
        lua_pushinteger(L, (lua_Integer)random_next());
        lua_pushinteger(L, (lua_Integer)random_next());
    }
    int given = lua_gettop(L);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, given, LUA_MULTRET);
    return lua_gettop(L);
}

void library_random(lua_State *L)
{
    lua_getglobal(L, LUA_MATHLIBNAME);
    lua_getfield(L, -1, "randomseed");
    lua_pushcclosure(L, randomseed, 1);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "randomseed");
    lua_call(L, 0, 0);
    lua_pop(L, 1);
}
