// The table `codebox`, with the tools of the host.
#include "guest.h"

// codebox.call(tool, json): returns the tool's answer, which is JSON as well.
static int call(lua_State *L)
{
    runtime_string_t tool = text_argument(L, 1), input = text_argument(L, 2), answer;
    codebox_guest_host_call_error_t error;
    luaL_where(L, 1);
    if (codebox_guest_host_call(&tool, &input, &answer, &error)) {
        lua_pushlstring(L, (const char *)answer.ptr, answer.len);
        runtime_string_free(&answer);
        return 1;
    }
    if (error.tag == CODEBOX_GUEST_HOST_CALL_ERROR_FAULT)
        lua_pushlstring(L, (const char *)error.val.fault.ptr, error.val.fault.len);
    else
        lua_pushfstring(L, "tool '%s' is not granted", lua_tostring(L, 1));
    codebox_guest_host_call_error_free(&error);
    lua_concat(L, 2);
    return lua_error(L);
}

static const luaL_Reg FUNCTIONS[] = {{"call", call}, {NULL, NULL}};

void library_tools(lua_State *L)
{
    luaL_newlib(L, FUNCTIONS);
    // Also added to the loaded modules, where Lua looks up function names for its messages.
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "codebox");
    lua_pop(L, 1);
    lua_setglobal(L, "codebox");
}
