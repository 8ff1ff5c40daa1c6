// Interface between the parts of the shim. One instance of the module is one guest with one Lua state.
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"
#include "runtime.h"

// state.c: the only Lua state, and leaving it.
enum ended { ENDED_BY_ITSELF, ENDED_BY_EXIT };
bool state_open(void);
lua_State *state_get(void);
enum ended state_enter(void (*body)(void *), void *argument, int *status);
void state_close(int *status);

// program.c: running a piece of code as `lua` does.
struct program {
    const char *text;
    size_t length;
    // Chunk name for Lua: "@FILE" for a file, "=NAME" for anything else.
    const char *chunk;
};
enum arguments { WITHOUT_ARGUMENTS, WITH_ARGUMENTS };
int program_run(const struct program *program, enum arguments arguments);
// Skips a byte order mark and a first line with `#`, which a file may start with and which are not Lua.
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

// paths.c: the program's folder and environment.
void paths_begin(const char *script);
const char *paths_of_modules(void);
bool environment_begin(const runtime_list_tuple2_string_string_t *environment);

// text.c: conversion between Lua's bytes and the host's UTF-8.
char *text_copy(const runtime_string_t *text);
runtime_string_t text_argument(lua_State *L, int argument);
bool text_is_utf8(const char *bytes, size_t length);
bool text_repaired(const char *bytes, size_t length, runtime_string_t *text);

// Functions that are added to Lua's libraries, or replace parts of them.
void library_exit(lua_State *L);
void library_missing(lua_State *L);
void library_random(lua_State *L);
void library_socket(lua_State *L);
void library_system(lua_State *L);
void library_tools(lua_State *L);

// library.c: replaces functions in a global table.
void library_put(lua_State *L, const char *table, const luaL_Reg *functions);

#endif
