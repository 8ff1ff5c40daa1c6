// Features that WebAssembly lacks. A program that uses one gets an error that says so, and the host gets a report.
#include <errno.h>
#include <string.h>
#include <stdlib.h>

#include "guest.h"

static void report_missing_processes(void)
{
    codebox_guest_host_missing_feature_t feature = {.tag = CODEBOX_GUEST_HOST_MISSING_FEATURE_PROCESSES};
    codebox_guest_host_report_missing(&feature);
}

static void report_missing_module(const char *name, size_t length)
{
    codebox_guest_host_missing_feature_t feature = {.tag = CODEBOX_GUEST_HOST_MISSING_FEATURE_NATIVE_MODULE};
    if (!text_repaired(name, length, &feature.val.native_module))
        return;
    codebox_guest_host_report_missing(&feature);
    free(feature.val.native_module.ptr);
}

static int os_execute(lua_State *L)
{
    const char *command = luaL_optstring(L, 1, NULL);
    if (!command) {
        // Without a command, the call queries the availability of a shell.
        lua_pushboolean(L, false);
        return 1;
    }
    report_missing_processes();
    errno = ENOSYS;
    return luaL_fileresult(L, 0, "cannot start a process");
}

static int io_popen(lua_State *L)
{
    luaL_checkstring(L, 1);
    const char *mode = luaL_optstring(L, 2, "r");
    luaL_argcheck(L, (mode[0] == 'r' || mode[0] == 'w') && !mode[1], 2, "invalid mode");
    report_missing_processes();
    return luaL_error(L, "'popen' not supported: a guest cannot start processes");
}

static int loadlib(lua_State *L)
{
    size_t length;
    const char *path = luaL_checklstring(L, 1, &length);
    luaL_checkstring(L, 2);
    report_missing_module(path, length);
    luaL_pushfail(L);
    lua_pushliteral(L, "native code cannot be loaded: only modules in Lua can");
    lua_pushliteral(L, "absent");
    return 3;
}

// Last searcher of `require`. A module without a file in Lua would have to be native.
static int search_native(lua_State *L)
{
    size_t length;
    const char *name = luaL_checklstring(L, 1, &length);
    report_missing_module(name, length);
    lua_pushfstring(L, "no native module '%s': only modules in Lua can be loaded", name);
    return 1;
}

static const luaL_Reg OS[] = {{"execute", os_execute}, {NULL, NULL}};
static const luaL_Reg IO[] = {{"popen", io_popen}, {NULL, NULL}};
static const luaL_Reg PACKAGE[] = {{"loadlib", loadlib}, {NULL, NULL}};

void library_missing(lua_State *L)
{
    library_put(L, LUA_OSLIBNAME, OS);
    library_put(L, LUA_IOLIBNAME, IO);
    library_put(L, LUA_LOADLIBNAME, PACKAGE);
    lua_getglobal(L, LUA_LOADLIBNAME);
    lua_getfield(L, -1, "searchers");
    // Of the four searchers, the first two find preloaded modules and files in Lua.
    lua_pushcfunction(L, search_native);
    lua_rawseti(L, -2, 3);
    lua_pushnil(L);
    lua_rawseti(L, -2, 4);
    lua_pop(L, 2);
}
