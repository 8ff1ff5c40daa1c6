// System functions that Lua's libraries use and this C library lacks: a stopwatch, and temporary files.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

// Start of the clock. Lua keeps no state of the clock, so it starts with the first state.
static struct timespec began;

static int os_clock(lua_State *L)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    lua_pushnumber(L, (lua_Number)(now.tv_sec - began.tv_sec) + (lua_Number)(now.tv_nsec - began.tv_nsec) / 1e9);
    return 1;
}

#define TEMPORARY "/tmp/lua_XXXXXX"

// Creates and opens a new file, and writes its name to `name`.
static int make_temporary(char name[sizeof TEMPORARY])
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    for (int attempt = 0; attempt < 100; attempt++) {
        uint64_t random = random_next();
        memcpy(name, TEMPORARY, sizeof TEMPORARY);
        for (char *at = strchr(name, 'X'); *at; at++, random /= sizeof LETTERS - 1)
            *at = LETTERS[random % (sizeof LETTERS - 1)];
        int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static int os_tmpname(lua_State *L)
{
    char name[sizeof TEMPORARY];
    int file = make_temporary(name);
    if (file < 0)
        return luaL_error(L, "unable to generate a unique filename");
    close(file);
    lua_pushstring(L, name);
    return 1;
}

static int close_file(lua_State *L)
{
    luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
    errno = 0;
    return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

static int io_tmpfile(lua_State *L)
{
    luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
    stream->closef = NULL;
    luaL_setmetatable(L, LUA_FILEHANDLE);
    char name[sizeof TEMPORARY];
    int file = make_temporary(name);
    if (file < 0)
        return luaL_fileresult(L, 0, NULL);
    // A host that cannot remove an open file removes it with the rest of the job's /tmp.
    remove(name);
    stream->f = fdopen(file, "w+b");
    if (!stream->f) {
        close(file);
        return luaL_fileresult(L, 0, NULL);
    }
    stream->closef = close_file;
    return 1;
}

static const luaL_Reg OS[] = {{"clock", os_clock}, {"tmpname", os_tmpname}, {NULL, NULL}};
static const luaL_Reg IO[] = {{"tmpfile", io_tmpfile}, {NULL, NULL}};

void library_system(lua_State *L)
{
    clock_gettime(CLOCK_MONOTONIC, &began);
    library_put(L, LUA_OSLIBNAME, OS);
    library_put(L, LUA_IOLIBNAME, IO);
}
