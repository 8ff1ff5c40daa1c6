// Event loop: runs promise jobs, rejections and errors between macrotasks in Node's order, and ends the program.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#include "shim.h"

// Exit status for an error in an error handler, as in Node.
#define STATUS_HANDLER_FAILED 7

static bool leaving;
static int leaving_status;
// Created with the image, so that exiting needs no memory.
static JSValue leaving_error = JS_UNDEFINED;

// Promises rejected since the last drain, promises whose rejection was reported, and reported ones that got a handler
// later.
struct list {
    JSValue *items;
    int count, size;
};
static struct list rejected, reported, handled_late;

static void add(struct list *list, JSValueConst value)
{
    if (list->count == list->size) {
        int size = list->size ? list->size * 2 : 8;
        JSValue *items = realloc(list->items, size * sizeof *items);
        // Without memory the rejection is lost; the program is about to run out of memory anyway.
        if (!items)
            return;
        list->items = items;
        list->size = size;
    }
    list->items[list->count++] = JS_DupValue(ctx, value);
}

static bool list_remove(struct list *list, JSValueConst value)
{
    for (int i = list->count; i-- > 0;)
        if (JS_IsStrictEqual(ctx, list->items[i], value)) {
            JS_FreeValue(ctx, list->items[i]);
            memmove(list->items + i, list->items + i + 1, (--list->count - i) * sizeof *list->items);
            return true;
        }
    return false;
}

static void clear(struct list *list)
{
    while (list->count)
        JS_FreeValue(ctx, list->items[--list->count]);
}

void loop_track(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled, void *opaque)
{
    if (leaving)
        return;
    if (!handled)
        add(&rejected, promise);
    else if (!list_remove(&rejected, promise) && list_remove(&reported, promise))
        add(&handled_late, promise);
}

static int interrupt(JSRuntime *rt, void *opaque)
{
    if (leaving)
        engine_leave(ctx, true);
    return leaving;
}

void loop_begin(void)
{
    leaving = false;
    engine_leave(ctx, false);
    clear(&rejected);
    clear(&reported);
    clear(&handled_late);
    if (JS_IsUndefined(leaving_error)) {
        leaving_error = JS_NewError(ctx);
        JS_SetUncatchableError(ctx, leaving_error);
        JS_SetInterruptHandler(JS_GetRuntime(ctx), interrupt, NULL);
    }
}

bool loop_leaving(void)
{
    return leaving;
}

static void leave(int status)
{
    leaving = true;
    leaving_status = status & 255;
    engine_leave(ctx, true);
}

JSValue loop_exit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int status = 0;
    if (!leaving) {
        if (argc > 0 && JS_ToInt32(ctx, &status, argv[0]))
            return JS_EXCEPTION;
        leave(status);
    }
    return JS_Throw(ctx, JS_DupValue(ctx, leaving_error));
}

static void write_stderr(const char *text)
{
    __wasi_ciovec_t out = {(const uint8_t *)text, strlen(text)};
    __wasi_size_t written;
    (void)__wasi_fd_write(2, &out, 1, &written);
}

// Reports the pending exception without the prelude, which failed to show an error, and without requiring free memory.
static void report_without_prelude(void)
{
    JSValue error = JS_GetException(ctx);
    const char *text = JS_ToCString(ctx, error);
    JS_FreeValue(ctx, JS_GetException(ctx));
    static const char OUT_OF_MEMORY[] = "InternalError: out of memory";
    if (!text)
        text = OUT_OF_MEMORY;
    write_stderr("Uncaught ");
    write_stderr(text);
    write_stderr("\n");
    static const char REPORT[] = "{\"op\":\"error\",\"name\":\"InternalError\",\"value\":\"out of memory\","
                                 "\"traceback\":\"InternalError: out of memory\",\"line\":null}";
    if (strstr(text, "out of memory")) {
        uint8_t *answer;
        size_t length;
        if (host_request(REPORT, sizeof REPORT - 1, &answer, &length) == HOST_OK)
            free(answer);
    }
    if (text != OUT_OF_MEMORY)
        JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, error);
    leave(STATUS_HANDLER_FAILED);
}

// Handles an exception that the program did not catch: the prelude shows it and ends the program, or a listener of the
// program handles it.
void loop_uncaught(void)
{
    JSValue error = JS_GetException(ctx);
    if (!leaving) {
        reserve_release();
        JSValue result = hook_call(HOOK_UNCAUGHT, 1, &error);
        if (JS_IsException(result) && !leaving)
            report_without_prelude();
        JS_FreeValue(ctx, result);
        if (!leaving)
            reserve_fill();
    }
    JS_FreeValue(ctx, error);
}

// Calls a hook whose errors are the program's. Returns false if the hook returns false or the program exits.
static bool call_hook(enum hook which, int argc, JSValueConst *argv)
{
    if (leaving)
        return false;
    JSValue result = hook_call(which, argc, argv);
    if (JS_IsException(result)) {
        loop_uncaught();
        // The error came from code that was run, so there may be more to run.
        return !leaving;
    }
    bool answer = JS_ToBool(ctx, result) > 0;
    JS_FreeValue(ctx, result);
    return answer;
}

static void run_promise_jobs(void)
{
    JSRuntime *rt = JS_GetRuntime(ctx);
    JSContext *ran;
    int result;
    while (!leaving && (result = JS_ExecutePendingJob(rt, &ran)) != 0)
        if (result < 0)
            loop_uncaught();
}

static void notify_rejections(struct list *list, bool rejection)
{
    // A hook may add to the list, so only its present entries are handled.
    struct list now = *list;
    memset(list, 0, sizeof *list);
    for (int i = 0; i < now.count && !leaving; i++) {
        JSValue promise = now.items[i];
        if (rejection) {
            JSValue reason = JS_PromiseResult(ctx, promise);
            JSValueConst argv[] = {promise, reason};
            // Recorded before the hook is called, since a handler may be added while it runs.
            add(&reported, promise);
            call_hook(HOOK_UNHANDLED, 2, argv);
            JS_FreeValue(ctx, reason);
        } else {
            call_hook(HOOK_HANDLED_LATER, 1, &promise);
        }
    }
    clear(&now);
    free(now.items);
}

static void drain(void)
{
    bool more;
    do {
        do {
            more = call_hook(HOOK_TICKS, 0, NULL);
            run_promise_jobs();
        } while (more && !leaving);
        more = rejected.count || handled_late.count;
        if (rejected.count)
            notify_rejections(&rejected, true);
        if (handled_late.count)
            notify_rejections(&handled_late, false);
    } while (more && !leaving);
}

void loop_run(bool with_before_exit)
{
    for (;;) {
        do {
            reserve_fill();
            drain();
        } while (call_hook(HOOK_TICK, 0, NULL));
        if (leaving || !with_before_exit)
            return;
        call_hook(HOOK_BEFORE_EXIT, 0, NULL);
        drain();
        if (!call_hook(HOOK_TICK, 0, NULL))
            return;
    }
}

int loop_status(enum hook which)
{
    int32_t status = 1;
    if (!leaving) {
        JSValue result = hook_call(which, 0, NULL);
        if (JS_IsException(result))
            loop_uncaught();
        else
            JS_ToInt32(ctx, &status, result);
        JS_FreeValue(ctx, result);
    }
    if (JS_HasException(ctx))
        JS_FreeValue(ctx, JS_GetException(ctx));
    return leaving ? leaving_status : status & 255;
}
