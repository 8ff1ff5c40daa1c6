// The exports: a job from its start to its end.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest.h"

static int last_status;

__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("lua: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    return EXIT_FAILURE;
}

// Writes out all output of a call, since there may be no other call, and records the status.
static int settled(int status)
{
    fflush(NULL);
    return last_status = status;
}

struct arguments_of {
    const char *name;
    const runtime_list_string_t *list;
};

// Creates the table `arg`: the interpreter below the program, the program at 0, and its arguments. Without a program's
// name, the interpreter is at 0.
static int make_arg(lua_State *L)
{
    const struct arguments_of *arguments = lua_touserdata(L, 1);
    lua_createtable(L, arguments->list->len, 2);
    lua_pushliteral(L, "lua");
    lua_rawseti(L, -2, arguments->name ? -1 : 0);
    if (arguments->name) {
        lua_pushstring(L, arguments->name);
        lua_rawseti(L, -2, 0);
    }
    for (size_t at = 0; at < arguments->list->len; at++) {
        const runtime_string_t *argument = &arguments->list->ptr[at];
        lua_pushlstring(L, (const char *)argument->ptr, argument->len);
        lua_rawseti(L, -2, at + 1);
    }
    lua_setglobal(L, "arg");
    return 0;
}

static int run(const char *name, const runtime_list_string_t *list, const runtime_string_t *text, const char *chunk)
{
    lua_State *L = state_get();
    struct arguments_of arguments = {name, list};
    lua_pushcfunction(L, make_arg);
    lua_pushlightuserdata(L, &arguments);
    failure_begin(chunk);
    int result = lua_pcall(L, 1, 0, 0);
    if (result != LUA_OK) {
        failure_report(L, result, false);
        return EXIT_FAILURE;
    }
    struct program program = {(const char *)text->ptr, text->len, chunk};
    if (chunk[0] == '@' || strcmp(chunk, "=stdin") == 0)
        program_skip_prefix(&program);
    return program_run(&program, WITH_ARGUMENTS);
}

static int run_source(const exports_codebox_guest_start_job_t *job, const char *script)
{
    const exports_codebox_guest_start_source_t *source = &job->source;
    switch (source->tag) {
    case EXPORTS_CODEBOX_GUEST_START_SOURCE_SCRIPT: {
        // Chunk names live as long as the job, since a later error may name one.
        char *chunk;
        if (asprintf(&chunk, "@%s", script) < 0)
            return fail("not enough memory");
        return run(script, &job->arguments, &source->val.script.text, chunk);
    }
    case EXPORTS_CODEBOX_GUEST_START_SOURCE_INLINE:
        return run(NULL, &job->arguments, &source->val.inline_, "=(command line)");
    case EXPORTS_CODEBOX_GUEST_START_SOURCE_STANDARD_INPUT:
        return run("-", &job->arguments, &source->val.standard_input, "=stdin");
    case EXPORTS_CODEBOX_GUEST_START_SOURCE_TOOL:
        return fail("cannot run the tool %.*s: the Lua runtime has no tools", (int)source->val.tool.name.len,
                    (const char *)source->val.tool.name.ptr);
    default: {
        static const runtime_string_t NOTHING = {(uint8_t *)"", 0};
        return run(NULL, &job->arguments, &NOTHING, "=(command line)");
    }
    }
}

static int begin(const exports_codebox_guest_start_job_t *job)
{
    random_begin(job->entropy.ptr, job->entropy.len);
    memory_begin(job->limits.memory.is_some ? &job->limits.memory.val : NULL);
    char *folder = text_copy(&job->working_directory), *script = NULL;
    if (!folder || !environment_begin(&job->environment))
        return fail("cannot create state: not enough memory");
    if (chdir(folder) != 0)
        return fail("cannot enter the working directory %s: %s", folder, strerror(errno));
    free(folder);
    if (job->source.tag == EXPORTS_CODEBOX_GUEST_START_SOURCE_SCRIPT && !(script = text_copy(&job->source.val.script.path)))
        return fail("cannot create state: not enough memory");
    paths_begin(script);
    if (!state_open())
        return fail("cannot create state: not enough memory");
    return run_source(job, script);
}

int32_t exports_codebox_guest_start_start(exports_codebox_guest_start_job_t *job)
{
    int status = begin(job);
    exports_codebox_guest_start_job_free(job);
    return settled(status);
}

int32_t exports_codebox_guest_turn_turn(runtime_string_t *code)
{
    int status;
    if (state_get()) {
        struct program program = {(const char *)code->ptr, code->len, "=[turn]"};
        status = program_run(&program, WITHOUT_ARGUMENTS);
    } else {
        status = fail("cannot run more code: the program closed its state, or had none; start another job");
    }
    runtime_string_free(code);
    return settled(status);
}

int32_t exports_codebox_guest_shutdown_shutdown(void)
{
    int status = last_status;
    state_close(&status);
    return settled(status);
}
