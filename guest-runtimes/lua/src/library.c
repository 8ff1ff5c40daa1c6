// Functions in the global tables of Lua's libraries.
#include "guest.h"

// Replaces functions in a global table.
void library_put(lua_State *L, const char *table, const luaL_Reg *functions)
{
    lua_getglobal(L, table);
    luaL_setfuncs(L, functions, 0);
    lua_pop(L, 1);
}
