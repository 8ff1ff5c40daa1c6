// Inspection of objects without running code of the program, for printing and for type tests.
#include "shim.h"

static JSValue promise_state(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static const char *const NAMES[] = {"pending", "fulfilled", "rejected"};
    int state = JS_PromiseState(ctx, argv[0]);
    if (state == JS_PROMISE_NOT_A_PROMISE)
        return JS_UNDEFINED;
    JSValue result[] = {JS_NewString(ctx, NAMES[state]), JS_PromiseResult(ctx, argv[0])};
    return JS_NewArrayFrom(ctx, state == JS_PROMISE_PENDING ? 1 : 2, result);
}

static JSValue mark_handled(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    if (JS_IsPromise(argv[0]))
        JS_PromiseMarkAsHandled(ctx, argv[0]);
    return JS_UNDEFINED;
}

static JSValue proxy_details(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSValue both[2];
    if (!engine_proxy(ctx, argv[0], &both[0], &both[1]))
        return JS_UNDEFINED;
    return JS_NewArrayFrom(ctx, 2, both);
}

static JSValue preview_entries(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    return engine_preview(ctx, argv[0]);
}

static JSValue class_of(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const char *name = engine_class_of(ctx, argv[0]);
    return name ? JS_NewAtomString(ctx, name) : JS_UNDEFINED;
}

static JSValue function_kind(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const char *kind = engine_function_kind(ctx, argv[0]);
    return kind ? JS_NewAtomString(ctx, kind) : JS_UNDEFINED;
}

static JSValue own_keys(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSPropertyEnum *keys;
    uint32_t count, kept = 0;
    int flags = JS_GPN_STRING_MASK | JS_GPN_SYMBOL_MASK | (argc > 1 && JS_ToBool(ctx, argv[1]) > 0 ? JS_GPN_ENUM_ONLY : 0);
    bool skip = argc > 2 && JS_ToBool(ctx, argv[2]) > 0;
    if (JS_GetOwnPropertyNames(ctx, &keys, &count, argv[0], flags))
        return JS_EXCEPTION;
    JSValue list = JS_NewArray(ctx);
    for (uint32_t i = 0; i < count && !JS_IsException(list); i++) {
        // Array indices are the atoms with the highest bit set, which come first.
        if (skip && keys[i].atom >> 31)
            continue;
        JSValue key = JS_AtomToValue(ctx, keys[i].atom);
        if (JS_SetPropertyUint32(ctx, list, kept++, key) < 0) {
            JS_FreeValue(ctx, list);
            list = JS_EXCEPTION;
        }
    }
    JS_FreePropertyEnum(ctx, keys, count);
    return list;
}

static JSValue stack_of(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    return engine_stack_of(ctx, argv[0]);
}

static JSValue set_stack(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    engine_set_stack(ctx, argv[0], JS_DupValue(ctx, argv[1]));
    return JS_UNDEFINED;
}

static JSValue error_is_made(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    return JS_NewBool(ctx, engine_error_is_made(ctx));
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("promiseState", 1, promise_state),
    JS_CFUNC_DEF("markHandled", 1, mark_handled),
    JS_CFUNC_DEF("proxyDetails", 1, proxy_details),
    JS_CFUNC_DEF("previewEntries", 1, preview_entries),
    JS_CFUNC_DEF("classOf", 1, class_of),
    JS_CFUNC_DEF("functionKind", 1, function_kind),
    JS_CFUNC_DEF("ownKeys", 3, own_keys),
    JS_CFUNC_DEF("errorIsMade", 0, error_is_made),
    JS_CFUNC_DEF("stackOf", 1, stack_of),
    JS_CFUNC_DEF("setStack", 2, set_stack),
};

void add_inspect(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
