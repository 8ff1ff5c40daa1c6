// The Lua state of the guest, and `os.exit`, which leaves it from any depth.
#include <setjmp.h>
#include <stdlib.h>

#include "guest.h"
#include "lgc.h"
#include "lstate.h"

static lua_State *the_state;

// Jump target of `os.exit`, and its arguments.
static jmp_buf top;
static int exit_status;
static bool exit_closes;

// Set if the last code that ran ended by `os.exit`, after which `lua` would not run finalizers.
static bool left;

// os.exit([code [, close]]). The jump bypasses every pcall and every coroutine.
static int os_exit(lua_State *L)
{
    if (lua_isboolean(L, 1))
        exit_status = lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE;
    else
        exit_status = (int)luaL_optinteger(L, 1, EXIT_SUCCESS) & 0xff;
    exit_closes = lua_toboolean(L, 2);
    longjmp(top, 1);
}

void library_exit(lua_State *L)
{
    static const luaL_Reg FUNCTIONS[] = {{"exit", os_exit}, {NULL, NULL}};
    library_put(L, LUA_OSLIBNAME, FUNCTIONS);
}

static int prepare(lua_State *L)
{
    luaL_openlibs(L);
    library_exit(L);
    library_missing(L);
    library_random(L);
    library_socket(L);
    library_system(L);
    library_tools(L);
    lua_gc(L, LUA_GCRESTART);
    // The same mode as in `lua`.
    lua_gc(L, LUA_GCGEN, 0, 0);
    return 0;
}

bool state_open(void)
{
    lua_State *L = luaL_newstate();
    if (!L)
        return false;
    memory_adopt(L);
    lua_gc(L, LUA_GCSTOP);
    lua_pushcfunction(L, prepare);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
        lua_close(L);
        return false;
    }
    the_state = L;
    return true;
}

// Returns the state, or NULL before it is opened and after it was closed.
lua_State *state_get(void)
{
    return the_state;
}

// Resets the state after the jump, since none of its calls is running.
static void forget_calls(lua_State *L, l_uint32 calls)
{
    L->errorJmp = NULL;
    L->nCcalls = calls;
    L->allowhook = 1;
    G(L)->gcstp &= ~GCSTPGC;
}

static void do_close(void *unused)
{
    lua_State *L = the_state;
    the_state = NULL;
    lua_close(L);
}

// Runs `body`, which uses the state from its base. If `body` ends by `os.exit`, `status` is set to the exit status.
enum ended state_enter(void (*body)(void *), void *argument, int *status)
{
    lua_State *L = the_state;
    l_uint32 calls = L->nCcalls;
    left = false;
    if (!setjmp(top)) {
        body(argument);
        return ENDED_BY_ITSELF;
    }
    *status = exit_status;
    left = true;
    // A finalizer may call `os.exit` while the state closes. The rest of the state then stays as it is.
    if (!the_state)
        return ENDED_BY_EXIT;
    forget_calls(L, calls);
    if (exit_closes) {
        state_enter(do_close, NULL, status);
    } else {
        // Variables that are still to be closed are not closed, as when the process ends.
        L->tbclist.p = L->stack.p;
        luaE_resetthread(L, LUA_OK);
    }
    return ENDED_BY_EXIT;
}

// Closes the state and runs finalizers, unless the program ended by `os.exit`.
void state_close(int *status)
{
    if (the_state && !left)
        state_enter(do_close, NULL, status);
}
