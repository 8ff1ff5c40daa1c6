// Time and random numbers. Both always come from the host, so that no value of an image survives a restore.
#include <stdlib.h>
#include <wasi/api.h>

#include "shim.h"

static uint64_t origin;

static uint64_t clock_read(__wasi_clockid_t id)
{
    __wasi_timestamp_t time = 0;
    (void)__wasi_clock_time_get(id, 1, &time);
    return time;
}

// True if the clock of the program goes on from one turn to the next.
static bool kept;

void clock_begin(void)
{
    if (!kept)
        origin = clock_read(__WASI_CLOCKID_MONOTONIC);
}

static JSValue now(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    return JS_NewFloat64(ctx, clock_read(__WASI_CLOCKID_REALTIME) / 1000 / 1e3);
}

static JSValue hrtime(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    return JS_NewBigUint64(ctx, clock_read(__WASI_CLOCKID_MONOTONIC));
}

static JSValue keep(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    kept = true;
    return JS_UNDEFINED;
}

static JSValue since_begin(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    return JS_NewFloat64(ctx, (clock_read(__WASI_CLOCKID_MONOTONIC) - origin) / 1e6);
}

// Waits for standard input if `input` is set, and for at most `ms` unless it is negative. Returns true if input is
// available.
static bool wait(bool input, double ms)
{
    __wasi_subscription_t subscriptions[2] = {0};
    __wasi_event_t events[2];
    __wasi_size_t count = 0, n = 0;
    if (input) {
        subscriptions[n].userdata = 1;
        subscriptions[n].u.tag = __WASI_EVENTTYPE_FD_READ;
        subscriptions[n++].u.u.fd_read.file_descriptor = 0;
    }
    if (ms >= 0) {
        subscriptions[n].u.tag = __WASI_EVENTTYPE_CLOCK;
        subscriptions[n].u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
        // Capped at about a year, which fits into the nanoseconds.
        subscriptions[n++].u.u.clock.timeout = (ms > 31e9 ? 31e9 : ms) * 1e6;
    }
    if (n == 0)
        return false;
    if (__wasi_poll_oneoff(subscriptions, events, n, &count) != 0)
        // Standard input cannot be polled, so the read has to report its state.
        return input;
    for (__wasi_size_t i = 0; i < count; i++)
        if (events[i].userdata == 1)
            return true;
    return false;
}

static JSValue sleep_ms(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    double ms;
    if (JS_ToFloat64(ctx, &ms, argv[0]))
        return JS_EXCEPTION;
    if (ms > 0)
        wait(false, ms);
    return JS_UNDEFINED;
}

static JSValue poll_stdin(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    double ms;
    if (JS_ToFloat64(ctx, &ms, argv[0]))
        return JS_EXCEPTION;
    return JS_NewBool(ctx, wait(true, ms));
}

// Fills the bytes in pieces: the host returns at most some megabytes per call, and checks its limits between calls.
static int fill(uint8_t *bytes, size_t length)
{
    static const size_t PIECE = 1 << 20;
    int error = 0;
    for (size_t at = 0, more; at < length && !error; at += more) {
        more = length - at < PIECE ? length - at : PIECE;
        error = __wasi_random_get(bytes + at, more);
    }
    return error;
}

static JSValue fill_random(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    uint8_t *bytes = bytes_of(ctx, &length, argv[0]);
    if (!bytes && JS_HasException(ctx))
        return JS_EXCEPTION;
    int error = fill(bytes, length);
    return error ? throw_system(ctx, error, "getrandom", NULL, NULL) : JS_UNDEFINED;
}

static JSValue new_random(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint64_t length;
    if (JS_ToIndex(ctx, &length, argv[0]))
        return JS_EXCEPTION;
    uint8_t *bytes = length < SIZE_MAX ? js_malloc(ctx, length ? length : 1) : NULL;
    if (!bytes)
        return JS_HasException(ctx) ? JS_EXCEPTION : JS_ThrowOutOfMemory(ctx);
    int error = fill(bytes, length);
    if (error) {
        js_free(ctx, bytes);
        return throw_system(ctx, error, "getrandom", NULL, NULL);
    }
    return bytes_adopt(ctx, bytes, length);
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("now", 0, now),
    JS_CFUNC_DEF("hrtime", 0, hrtime),
    JS_CFUNC_DEF("clock", 0, since_begin),
    JS_CFUNC_DEF("keepClock", 0, keep),
    JS_CFUNC_DEF("sleep", 1, sleep_ms),
    JS_CFUNC_DEF("pollStdin", 1, poll_stdin),
    JS_CFUNC_DEF("random", 1, new_random),
    JS_CFUNC_DEF("fillRandom", 1, fill_random),
};

void add_clock(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
