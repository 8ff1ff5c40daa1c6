// The exports: `_initialize` makes the image, and each turn renews the state that the image froze before it runs a job.
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#include "shim.h"

#define EXPORT(name) __attribute__((export_name(#name)))

// Bytes of garbage in cycles that a program may make before a collection. Small programs then never pay for a
// collection, which writes to every object.
#define GARBAGE_BEFORE_COLLECTION (8 << 20)

JSContext *ctx;
static JSValue hooks[HOOKS];

static const char *const HOOK_NAMES[HOOKS] = {
    "main", "ticks", "tick", "beforeExit", "exit", "status", "uncaught", "unhandled", "handledLater", "resolve", "load",
    "meta",
};

#ifndef PRELUDE_FILE
#define PRELUDE_FILE "../prelude.js"
#endif

// Source of the prelude. It is not constant, since it is zeroed after it was read to make the image smaller. It is
// stored with the constants nevertheless, so that the variables that jobs write to lie together.
__attribute__((section(".rodata.prelude"))) static char PRELUDE[] = {
#embed PRELUDE_FILE
    , 0};

JSValue hook_call(enum hook which, int argc, JSValueConst *argv)
{
    return JS_Call(ctx, hooks[which], JS_UNDEFINED, argc, argv);
}

// Reports the pending exception of the prelude's start and aborts. Only developers of the prelude see the message.
static void fatal(const char *what)
{
    JSValue error = JS_GetException(ctx);
    const char *text = JS_ToCString(ctx, error);
    JSValue stack = engine_stack_of(ctx, error);
    const char *trace = JS_ToCString(ctx, stack);
    const char *parts[] = {"javascript guest: ", what, ": ", text ? text : "?", "\n", trace ? trace : "", "\n"};
    for (int i = 0; i < COUNT(parts); i++) {
        __wasi_ciovec_t out = {(const uint8_t *)parts[i], strlen(parts[i])};
        __wasi_size_t written;
        (void)__wasi_fd_write(2, &out, 1, &written);
    }
    abort();
}

static void report_facts(JSValueConst all)
{
    JSValue facts = JS_GetPropertyStr(ctx, all, "facts");
    JSValue message = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, message, "op", JS_NewString(ctx, "facts"));
    if (!JS_IsObject(facts)) {
        facts = JS_NewObject(ctx);
        JS_SetPropertyStr(ctx, facts, "version", JS_NewString(ctx, JS_GetVersion()));
    }
    JS_SetPropertyStr(ctx, message, "facts", facts);
    JSValue json = JS_JSONStringify(ctx, message, JS_UNDEFINED, JS_UNDEFINED);
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, json);
    uint8_t *answer;
    size_t answer_length;
    if (host_request(text, length, &answer, &answer_length) == HOST_OK)
        free(answer);
    JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, json);
    JS_FreeValue(ctx, message);
}

// Compiles the prelude to bytecode. A separate runtime does it, whose end frees all memory of the parser. The bytecode
// omits the source text, which is not needed and of which each function has a copy.
static uint8_t *compile_prelude(size_t *length)
{
    JSRuntime *parser = JS_NewRuntime2(&memory_functions, NULL);
    if (!parser || !(ctx = JS_NewContext(parser)))
        abort();
    JSValue script = JS_Eval(ctx, PRELUDE, sizeof PRELUDE - 1, "codebox:prelude",
                             JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY);
    if (JS_IsException(script))
        fatal("the prelude");
    uint8_t *code = JS_WriteObject(ctx, length, script, JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE);
    uint8_t *copy = code ? malloc(*length) : NULL;
    if (!copy)
        abort();
    memcpy(copy, code, *length);
    js_free(ctx, code);
    JS_FreeValue(ctx, script);
    JS_FreeContext(ctx);
    JS_FreeRuntime(parser);
    memset(PRELUDE, 0, sizeof PRELUDE);
    return copy;
}

static void renew(void)
{
    uint8_t seed[8];
    if (__wasi_random_get(seed, sizeof seed) != 0)
        abort();
    engine_begin(ctx, seed);
    clock_begin();
}

__attribute__((constructor)) static void make_image(void)
{
    size_t length;
    uint8_t *code = compile_prelude(&length);
    JSRuntime *rt = JS_NewRuntime2(&memory_functions, NULL);
    if (!rt || !(ctx = JS_NewContext(rt)))
        abort();
    renew();
    loop_begin();
    JS_SetCanBlock(rt, true);
    JS_SetHostPromiseRejectionTracker(rt, loop_track, NULL);
    modules_install(ctx);

    JSValue native = JS_NewObject(ctx);
    add_files(ctx, native);
    add_streams(ctx, native);
    add_clock(ctx, native);
    add_bytes(ctx, native);
    add_digests(ctx, native);
    add_modules(ctx, native);
    add_inspect(ctx, native);
    add_host(ctx, native);
    add_memory(ctx, native);
    JS_SetPropertyStr(ctx, native, "exit", JS_NewCFunction(ctx, loop_exit, "exit", 1));
    JS_SetPropertyStr(ctx, native, "version", JS_NewString(ctx, JS_GetVersion()));

    JSValue script = JS_ReadObject(ctx, code, length, JS_READ_OBJ_BYTECODE);
    free(code);
    JSValue start = JS_IsException(script) ? script : JS_EvalFunction(ctx, script);
    if (JS_IsException(start))
        fatal("the prelude");
    JSValue all = JS_Call(ctx, start, JS_UNDEFINED, 1, &native);
    if (JS_IsException(all))
        fatal("the prelude");
    for (int i = 0; i < HOOKS; i++) {
        hooks[i] = JS_GetPropertyStr(ctx, all, HOOK_NAMES[i]);
        if (!JS_IsFunction(ctx, hooks[i])) {
            JS_ThrowTypeError(ctx, "the hook %s is missing", HOOK_NAMES[i]);
            fatal("the prelude");
        }
    }
    JSContext *ran;
    while (JS_IsJobPending(rt))
        if (JS_ExecutePendingJob(rt, &ran) < 0)
            fatal("pending promise job of the prelude");
    report_facts(all);
    JS_FreeValue(ctx, all);
    JS_FreeValue(ctx, start);
    JS_FreeValue(ctx, native);
    if (engine_settle(ctx))
        fatal("settling");
    engine_relax(ctx, GARBAGE_BEFORE_COLLECTION);
}

static void begin(void)
{
    renew();
    loop_begin();
    reserve_fill();
}

static int run_main(JSValue head, JSValue source)
{
    JSValueConst argv[] = {head, source};
    JSValue result = hook_call(HOOK_MAIN, 2, argv);
    JS_FreeValue(ctx, head);
    JS_FreeValue(ctx, source);
    if (JS_IsException(result))
        loop_uncaught();
    JS_FreeValue(ctx, result);
    loop_run(true);
    return loop_status(HOOK_EXIT);
}

static int run_job(void)
{
    static const char JOB_REQUEST[] = "{\"op\":\"job\"}";
    uint8_t *answer;
    size_t length;
    if (host_request(JOB_REQUEST, sizeof JOB_REQUEST - 1, &answer, &length) != HOST_OK)
        return 1;
    uint8_t *end = memchr(answer, '\n', length);
    size_t head_length = end ? (size_t)(end - answer) : length;
    size_t from = end ? head_length + 1 : length;
    JSValue head = JS_NewStringLen(ctx, (const char *)answer, head_length);
    JSValue source = bytes_new(ctx, answer + from, length - from);
    free(answer);
    return run_main(head, source);
}

EXPORT(turn) int turn(char *code, size_t length)
{
    begin();
    if (length == 1 && code[0] == '0') {
        free(code);
        return run_job();
    }
    // The engine requires a zero after the text, which the host does not write.
    char *text = realloc(code, length + 1);
    if (!text) {
        free(code);
        return 1;
    }
    text[length] = 0;
    JSValue result = engine_compile(ctx, text, length, "[turn]", 1, JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_BACKTRACE_BARRIER);
    free(text);
    if (JS_IsException(result))
        loop_uncaught();
    JS_FreeValue(ctx, result);
    loop_run(false);
    return loop_status(HOOK_STATUS);
}

EXPORT(shutdown) int shutdown_guest(void)
{
    begin();
    return loop_status(HOOK_EXIT);
}

// Builds a job from WASI's arguments and environment; its program is the file that the first argument names.
static JSValue head_of_arguments(void)
{
    __wasi_size_t count, size;
    JSValue head = JS_NewObject(ctx), list = JS_NewArray(ctx), env = JS_NewObject(ctx);
    if (__wasi_args_sizes_get(&count, &size) == 0 && count > 0) {
        uint8_t **argv = malloc(count * sizeof *argv), *text = malloc(size);
        if (argv && text && __wasi_args_get(argv, text) == 0)
            for (__wasi_size_t i = 0; i < count; i++)
                JS_SetPropertyUint32(ctx, list, i, JS_NewString(ctx, (const char *)argv[i]));
        free(argv);
        free(text);
    }
    if (__wasi_environ_sizes_get(&count, &size) == 0 && count > 0) {
        uint8_t **entries = malloc(count * sizeof *entries), *text = malloc(size);
        if (entries && text && __wasi_environ_get(entries, text) == 0)
            for (__wasi_size_t i = 0; i < count; i++) {
                char *name = (char *)entries[i], *equals = strchr(name, '=');
                if (!equals)
                    continue;
                *equals = 0;
                JS_SetPropertyStr(ctx, env, name, JS_NewString(ctx, equals + 1));
            }
        free(entries);
        free(text);
    }
    JS_SetPropertyStr(ctx, head, "kind", JS_NewString(ctx, "file"));
    JS_SetPropertyStr(ctx, head, "file", JS_GetPropertyUint32(ctx, list, 0));
    JS_SetPropertyStr(ctx, head, "argv", list);
    JS_SetPropertyStr(ctx, head, "env", env);
    JS_SetPropertyStr(ctx, head, "path0", JS_NewString(ctx, "/"));
    JS_SetPropertyStr(ctx, head, "cwd", JS_NewString(ctx, "/"));
    return head;
}

EXPORT(run) int run(void)
{
    begin();
    JSValue head = head_of_arguments();
    JSValue file = JS_GetPropertyStr(ctx, head, "file");
    JSValue native = JS_NewObject(ctx);
    add_files(ctx, native);
    JSValue read = JS_GetPropertyStr(ctx, native, "readFile");
    JSValue source = JS_Call(ctx, read, JS_UNDEFINED, 1, &file);
    JSValue json = JS_JSONStringify(ctx, head, JS_UNDEFINED, JS_UNDEFINED);
    JS_FreeValue(ctx, read);
    JS_FreeValue(ctx, native);
    JS_FreeValue(ctx, file);
    JS_FreeValue(ctx, head);
    if (JS_IsException(source)) {
        JS_FreeValue(ctx, json);
        loop_uncaught();
        return loop_status(HOOK_STATUS);
    }
    return run_main(json, source);
}
