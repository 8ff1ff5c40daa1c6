// What the parts of the shim say to each other. One instance of the module is one guest with one Lua state.
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"
#include "runtime.h"

// state.c: the one Lua state, and the way out of it.
enum ended { ENDED_BY_ITSELF, ENDED_BY_EXIT };
bool state_open(void);
lua_State *state_get(void);
enum ended state_enter(void (*body)(void *), void *argument, int *status);
void state_close(int *status);

// program.c: running a piece of code as `lua` does.
struct program {
    const char *text;
    size_t length;
    // What Lua is to call it: "@FILE" for a file, "=NAME" for anything else.
    const char *chunk;
};
enum arguments { WITHOUT_ARGUMENTS, WITH_ARGUMENTS };
int program_run(const struct program *program, enum arguments arguments);
// Passes over what may stand at the beginning of a file and is not Lua: a byte order mark, and a first line with `#`.
void program_skip_prefix(struct program *program);

// failure.c: the error that ended a program.
int failure_handler(lua_State *L);
void failure_begin(const char *chunk);
void failure_report(lua_State *L, int status, bool compiling);

// memory.c: Lua's allocator.
void memory_begin(const uint64_t *limit);
void memory_adopt(lua_State *L);

// random.c: the job's entropy.
void random_begin(const uint8_t *bytes, size_t length);
uint64_t random_next(void);

// paths.c: where the program is, and its environment.
void paths_begin(const char *script);
const char *paths_of_modules(void);
bool environment_begin(const runtime_list_tuple2_string_string_t *environment);

// text.c: from Lua's bytes to the host's UTF-8 and back.
char *text_copy(const runtime_string_t *text);
bool text_is_utf8(const char *bytes, size_t length);
bool text_repaired(const char *bytes, size_t length, runtime_string_t *text);

// What is put into Lua's libraries, or replaces a part of them.
void library_exit(lua_State *L);
void library_missing(lua_State *L);
void library_random(lua_State *L);
void library_system(lua_State *L);
void library_tools(lua_State *L);

// Replaces functions in a global table.
void library_put(lua_State *L, const char *table, const luaL_Reg *functions);

#endif
