// The error that ends a program: printed as by `lua`, and reported to the host in parts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"
#include "lobject.h"

// Name of the chunk that was started, as Lua knows it.
static const char *main_chunk;

// Message of the error without its position, and the line in the main chunk, or 0 if there is none.
static char *value;
static uint32_t line;

// Number of stack levels that are searched for the position.
#define LEVELS 50

void failure_begin(const char *chunk)
{
    main_chunk = chunk;
    free(value);
    value = NULL;
    line = 0;
}

// Returns the text after "SOURCE:LINE: " and sets the line, or returns NULL if the message does not begin so.
static const char *after_position(const char *message, const char *source, uint32_t *line)
{
    size_t length = strlen(source);
    if (strncmp(message, source, length) != 0 || message[length] != ':')
        return NULL;
    char *end;
    unsigned long number = strtoul(message + length + 1, &end, 10);
    if (end == message + length + 1 || end[0] != ':' || end[1] != ' ')
        return NULL;
    *line = number;
    return end + 2;
}

static bool is_main(const char *source)
{
    return strcmp(source, main_chunk) == 0;
}

// Records the message and the position that the message and the stack give.
static void record_error(lua_State *L, const char *message)
{
    lua_Debug frame;
    const char *rest = NULL;
    uint32_t message_line = 0, innermost = 0;
    bool is_in_main = false;
    for (int level = 1; level < LEVELS && lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (!innermost && is_main(frame.source) && frame.currentline > 0)
            innermost = frame.currentline;
        if (!rest && (rest = after_position(message, frame.short_src, &message_line)))
            is_in_main = is_main(frame.source);
    }
    free(value);
    value = strdup(rest ? rest : message);
    line = is_in_main ? message_line : innermost;
}

// Message handler: does the same as that of `lua`, and records the message.
int failure_handler(lua_State *L)
{
    const char *message = lua_tostring(L, 1);
    if (!message) {
        if (luaL_callmeta(L, 1, "__tostring") && lua_type(L, -1) == LUA_TSTRING) {
            record_error(L, lua_tostring(L, -1));
            return 1;
        }
        message = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
    }
    record_error(L, message);
    luaL_traceback(L, L, message, 1);
    return 1;
}

// Records an error of the compiler, which has a position and no stack.
static void record_syntax_error(const char *message)
{
    char source[LUA_IDSIZE];
    luaO_chunkid(source, main_chunk, strlen(main_chunk));
    const char *rest = after_position(message, source, &line);
    value = strdup(rest ? rest : message);
}

static void report_error(const char *name, const char *printed)
{
    const char *known = value ? value : printed;
    char *traceback = NULL;
    if (asprintf(&traceback, "lua: %s\n", printed) < 0)
        traceback = NULL;
    const char *whole = traceback ? traceback : printed;
    codebox_guest_host_uncaught_error_t error = {.line = {line > 0, line}};
    runtime_string_set(&error.name, name);
    if (text_repaired(known, strlen(known), &error.value) && text_repaired(whole, strlen(whole), &error.traceback))
        codebox_guest_host_report_error(&error);
    free(error.value.ptr);
    free(error.traceback.ptr);
    free(traceback);
}

// Prints and reports the error on top of the stack, whose kind is `status`, and pops it.
void failure_report(lua_State *L, int status, bool compiling)
{
    const char *message = lua_tostring(L, -1);
    if (!message)
        message = "(error message not a string)";
    fprintf(stderr, "lua: %s\n", message);
    if (compiling && status == LUA_ERRSYNTAX)
        record_syntax_error(message);
    report_error(status == LUA_ERRMEM ? "MemoryError" : compiling && status == LUA_ERRSYNTAX ? "SyntaxError" : "Error",
                 message);
    lua_pop(L, 1);
}
