// Runs a piece of code as `lua` does.
#include <string.h>

#include "guest.h"

// Parameters of a run, and its exit status.
struct call {
    const struct program *program;
    enum arguments arguments;
    int status;
};

void program_skip_prefix(struct program *program)
{
    static const char MARK[] = "\xef\xbb\xbf";
    if (program->length >= 3 && memcmp(program->text, MARK, 3) == 0) {
        program->text += 3;
        program->length -= 3;
    }
    if (program->length == 0 || program->text[0] != '#')
        return;
    // The line break stays, so that the lines below keep their numbers.
    const char *end = memchr(program->text, '\n', program->length);
    size_t skipped = end ? (size_t)(end - program->text) : program->length;
    program->text += skipped;
    program->length -= skipped;
}

static int push_arguments(lua_State *L)
{
    if (lua_getglobal(L, "arg") != LUA_TTABLE)
        luaL_error(L, "'arg' is not a table");
    int count = (int)luaL_len(L, -1);
    luaL_checkstack(L, count + 3, "too many arguments to script");
    int at = 1;
    for (; at <= count; at++)
        lua_rawgeti(L, -at, at);
    lua_remove(L, -at);
    return count;
}

// Loads and runs the program. As in `lua`, a C function with two arguments is below the program on the stack:
// tracebacks end in the same line, and the stack overflows at the same depth.
static int protected(lua_State *L)
{
    const struct program *program = lua_touserdata(L, 1);
    struct call *call = lua_touserdata(L, 2);
    lua_pushcfunction(L, failure_handler);
    int handler = lua_gettop(L);
    int result = luaL_loadbufferx(L, program->text, program->length, program->chunk, NULL);
    bool compiling = result != LUA_OK;
    if (result == LUA_OK) {
        int count = call->arguments == WITH_ARGUMENTS ? push_arguments(L) : 0;
        result = lua_pcall(L, count, LUA_MULTRET, handler);
    }
    if (result != LUA_OK)
        failure_report(L, result, compiling);
    call->status = result != LUA_OK;
    return 0;
}

static void enter(void *argument)
{
    struct call *call = argument;
    lua_State *L = state_get();
    // These calls do not allocate: a state has space for a few values, and such a function is only an address.
    lua_pushcfunction(L, protected);
    lua_pushlightuserdata(L, (void *)call->program);
    lua_pushlightuserdata(L, call);
    int result = lua_pcall(L, 2, 0, 0);
    if (result == LUA_OK)
        return;
    failure_report(L, result, false);
    call->status = 1;
}

int program_run(const struct program *program, enum arguments arguments)
{
    struct call call = {program, arguments, 0};
    failure_begin(program->chunk);
    state_enter(enter, &call, &call.status);
    return call.status;
}
