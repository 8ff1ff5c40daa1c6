// The program's folder and environment, as the job gives them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define BESIDE_US "./?.lua;./?/init.lua"

static char *modules;

// Returns true if a path template can express the folder, whose name then has neither of the template's special
// characters.
static bool expressible(const char *folder, size_t length)
{
    return !memchr(folder, LUA_PATH_MARK[0], length) && !memchr(folder, LUA_PATH_SEP[0], length);
}

void paths_begin(const char *script)
{
    const char *slash = script ? strrchr(script, '/') : NULL;
    if (!slash || !expressible(script, slash - script))
        return;
    int length = slash - script;
    if (asprintf(&modules, "%.*s/?.lua;%.*s/?/init.lua;" BESIDE_US, length, script, length, script) < 0)
        modules = NULL;
}

const char *paths_of_modules(void)
{
    return modules ? modules : BESIDE_US;
}

// The C library's list of variables, which it would otherwise request from WASI.
extern char **__wasilibc_environ;

bool environment_begin(const runtime_list_tuple2_string_string_t *environment)
{
    char **list = calloc(environment->len + 1, sizeof *list), **next = list;
    if (!list)
        return false;
    for (size_t at = 0; at < environment->len; at++) {
        const runtime_string_t *name = &environment->ptr[at].f0, *value = &environment->ptr[at].f1;
        char *entry = calloc(1, name->len + 1 + value->len + 1);
        if (!entry)
            return false;
        memcpy(entry, name->ptr, name->len);
        entry[name->len] = '=';
        memcpy(entry + name->len + 1, value->ptr, value->len);
        *next++ = entry;
    }
    __wasilibc_environ = list;
    return true;
}
