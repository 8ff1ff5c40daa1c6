// QuickJS-NG as one translation unit, which enables features that the engine disables on WASI and can reset its private
// state.

// All system headers, included while __wasi__ is still defined.
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cutils.h"
#include "quickjs.h"

#ifdef __wasi__
#include <wasi/api.h>

// Replacements for the engine's threads. Atomics is part of the language even without threads. Its locks never block.
// `Atomics.wait` with a timeout, which programs use as a synchronous sleep, sleeps.
typedef int js_mutex_t, js_cond_t, js_once_t;
#define JS_ONCE_INIT 0
static void js_once(js_once_t *guard, void (*callback)(void))
{
    if (!*guard) {
        *guard = 1;
        callback();
    }
}
static void js_mutex_init(js_mutex_t *mutex) { (void)mutex; }
static void js_mutex_lock(js_mutex_t *mutex) { (void)mutex; }
static void js_mutex_unlock(js_mutex_t *mutex) { (void)mutex; }
static void js_cond_init(js_cond_t *cond) { (void)cond; }
static void js_cond_destroy(js_cond_t *cond) { (void)cond; }
static void js_cond_signal(js_cond_t *cond) { (void)cond; }
static int js_cond_timedwait(js_cond_t *cond, js_mutex_t *mutex, uint64_t nanoseconds)
{
    __wasi_subscription_t subscription = {.u = {.tag = __WASI_EVENTTYPE_CLOCK}};
    __wasi_event_t event;
    __wasi_size_t count;
    subscription.u.u.clock.id = __WASI_CLOCKID_MONOTONIC;
    subscription.u.u.clock.timeout = nanoseconds;
    (void)cond, (void)mutex;
    (void)__wasi_poll_oneoff(&subscription, &event, 1, &count);
    return -1;
}
// Waits until the host's deadline ends the guest, since no other thread can signal.
static void js_cond_wait(js_cond_t *cond, js_mutex_t *mutex)
{
    for (;;)
        js_cond_timedwait(cond, mutex, UINT64_C(3600000000000));
}

// On WASI the engine disables its stack checks and Atomics, in two places that test this macro.
#undef __wasi__
#endif

#include "depth.h"
#include "number.h"

static JSValue call_from_c(JSContext *ctx, JSValueConst function, JSValueConst self, int argc, JSValueConst *argv);
static JSValue call_and_free_from_c(JSContext *ctx, JSValue function, JSValueConst self, int argc, JSValueConst *argv);
static void record_backtrace(JSContext *ctx, JSValueConst error, JSValueConst from, const char *file, int line, int column,
                             int flags);

// The two functions with which the engine steps iterators that wrap other iterators. The engine calls them without a
// stack check. The macros rename the engine's definitions, so that these names refer to the functions below, which
// check first.
static JSValue js_iterator_helper_next(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int *done, int magic);
static JSValue js_iterator_wrap_next(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int *done, int magic);
#define js_iterator_helper_next(first, ...) step_helper(first, __VA_ARGS__)
#define js_iterator_wrap_next(first, ...) step_wrapper(first, __VA_ARGS__)

// The engine records a position where a name is read, but not at `this`: an error in `return this.a.b` would be
// reported for the line before. The calls therefore record the position first. As in depth.h, the first word
// distinguishes calls from definitions.
typedef struct JSParseState JSParseState;
static JSParseState *with_position(JSParseState *s);
#define js_parse_postfix_expr(first, flags) postfix_of_##first, flags)
#define postfix_of_JSParseState (js_parse_postfix_expr)(JSParseState
#define postfix_of_s (js_parse_postfix_expr)(with_position(s)

// The engine looks ahead for the end of parentheses, and keeps the error of text that it could not read, which a later call would report as
// its own. It also takes `/` after a template for the start of a regular expression. The first macro removes the error: the text is parsed
// again. The second one looks at the text before `/`.
static int look_ahead(JSParseState *s, int *bits, bool no_line_terminator);
static bool ends_template(JSParseState *s);
#define js_parse_skip_parens_token(first, ...) ahead_of_##first, __VA_ARGS__)
#define ahead_of_JSParseState (js_parse_skip_parens_token)(JSParseState
#define ahead_of_s look_ahead(s
#define is_regexp_allowed(argument) regexp_after_##argument)
#define regexp_after_int (is_regexp_allowed)(int
#define regexp_after_last_tok last_tok == TOK_TEMPLATE ? !ends_template(s) : (is_regexp_allowed)(last_tok

#include "quickjs.c"

#undef JS_Call
#undef JS_CallFree
#undef build_backtrace
#undef js_iterator_helper_next
#undef js_iterator_wrap_next
#undef js_parse_postfix_expr
#undef js_parse_skip_parens_token
#undef is_regexp_allowed

static int look_ahead(JSParseState *s, int *bits, bool no_line_terminator)
{
    int token = js_parse_skip_parens_token(s, bits, no_line_terminator);
    // The position is lost only if memory is.
    if (token != -1)
        JS_FreeValue(s->ctx, JS_GetException(s->ctx));
    return token;
}

// Returns true if the template, or a part of it, before the current token, which is an operator, is the end of it.
static bool ends_template(JSParseState *s)
{
    const uint8_t *at = s->token.ptr;
    while (at > s->buf_start && (at[-1] == ' ' || at[-1] == '\t' || at[-1] == '\n' || at[-1] == '\r'))
        at--;
    return at > s->buf_start && at[-1] == '`';
}

__attribute__((noinline)) static JSValue call_from_c(JSContext *ctx, JSValueConst function, JSValueConst self, int argc,
                                                     JSValueConst *argv)
{
    return JS_Call(DEEPENED(DEEPER_BY_STEP, ctx), function, self, argc, argv);
}

__attribute__((noinline)) static JSValue call_and_free_from_c(JSContext *ctx, JSValue function, JSValueConst self, int argc,
                                                              JSValueConst *argv)
{
    return call_and_free(DEEPENED(DEEPER_BY_STEP, ctx), function, self, argc, argv);
}

static JSParseState *with_position(JSParseState *s)
{
    if (s->token.val == TOK_THIS || s->token.val == TOK_SUPER || s->token.val == TOK_NULL)
        emit_source_loc(s);
    return s;
}

static bool too_deep_to_step(JSContext *ctx)
{
    if (!js_check_stack_overflow(ctx->rt, 0))
        return false;
    JS_ThrowStackOverflow(ctx);
    return true;
}

__attribute__((noinline)) static JSValue js_iterator_helper_next(JSContext *ctx, JSValueConst self, int argc,
                                                                 JSValueConst *argv, int *done, int magic)
{
    return too_deep_to_step(ctx) ? JS_EXCEPTION
                                 : step_helper(DEEPENED(DEEPER_BY_STEP, ctx), self, argc, argv, done, magic);
}

__attribute__((noinline)) static JSValue js_iterator_wrap_next(JSContext *ctx, JSValueConst self, int argc,
                                                               JSValueConst *argv, int *done, int magic)
{
    return too_deep_to_step(ctx) ? JS_EXCEPTION
                                 : step_wrapper(DEEPENED(DEEPER_BY_STEP, ctx), self, argc, argv, done, magic);
}

// Records a stack trace. A function of the prelude formats it and needs space beyond the limit when the limit is
// reached. The space is added only here, and not again in calls from that function.
__attribute__((noinline)) static void record_backtrace(JSContext *ctx, JSValueConst error, JSValueConst from,
                                                       const char *file, int line, int column, int flags)
{
    size_t reserve = ctx->rt->in_build_stack_trace ? 0 : TRACE_RESERVE;
    ctx->rt->stack_limit -= reserve;
    build_backtrace(ctx, error, from, file, line, column, flags);
    ctx->rt->stack_limit += reserve;
}

#include "shim.h"

// Bytes of the linear stack that the deepest JavaScript may use; see depth.h. The rest is for C code that recurses a
// little without a check, and for code that runs after the limit was reached.
#ifndef STACK_LIMIT
#define STACK_LIMIT (13 << 18)
#endif

void engine_begin(JSContext *ctx, const uint8_t seed[8])
{
    uint64_t state;
    memcpy(&state, seed, sizeof state);
    ctx->random_state = state ? state : 1;
    JS_UpdateStackTop(ctx->rt);
    JS_SetMaxStackSize(ctx->rt, STACK_LIMIT);
}

// Starts or ends the exit of the program, during which no user code may run: `prepareStackTrace` is off, and an
// interrupt follows at each step.
void engine_leave(JSContext *ctx, bool leaving)
{
    ctx->rt->in_build_stack_trace = leaving;
    if (leaving)
        ctx->interrupt_counter = 0;
}

void engine_relax(JSContext *ctx, size_t headroom)
{
    JS_SetGCThreshold(ctx->rt, ctx->rt->malloc_state.malloc_size + headroom);
}

void engine_collect_soon(JSContext *ctx)
{
    ctx->rt->malloc_gc_threshold = 0;
}

size_t engine_used(JSContext *ctx)
{
    return ctx->rt->malloc_state.malloc_size;
}

// Compiles text like JS_Eval2, which cannot start at line 0. The first line of a wrapper has that number.
JSValue engine_compile(JSContext *ctx, const char *text, size_t length, const char *file, int line, int flags)
{
    return JS_EvalInternal(ctx, ctx->global_obj, text, length, file, line, flags, -1);
}

// Removes a variable that a script has declared with `let`, `const`, `class`, `var` or `function`.
bool engine_undeclare(JSContext *ctx, JSAtom name)
{
    JSObject *lexical = JS_VALUE_GET_OBJ(ctx->global_var_obj);
    if (find_own_property1(lexical, name))
        return delete_property(ctx, lexical, name) > 0;
    JSObject *global = JS_VALUE_GET_OBJ(ctx->global_obj);
    JSShapeProperty *property = find_own_property1(global, name);
    // Constants such as NaN can neither be changed nor removed, and functions of the library are removed by assignment.
    if (!property || !(property->flags & JS_PROP_WRITABLE) || (property->flags & JS_PROP_CONFIGURABLE))
        return false;
    if (js_update_property_flags(ctx, global, &property, property->flags | JS_PROP_CONFIGURABLE))
        return false;
    return delete_property(ctx, global, name) > 0;
}

JSModuleDef *engine_find_module(JSContext *ctx, const char *importer, const char *specifier)
{
    return js_host_resolve_imported_module(ctx, importer, specifier, JS_UNDEFINED);
}

int engine_resolve_module(JSContext *ctx, JSModuleDef *module)
{
    if (js_resolve_module(ctx, module) == 0)
        return 0;
    js_free_modules(ctx, JS_FREE_MODULE_NOT_RESOLVED);
    return -1;
}

JSValue engine_evaluate_module(JSContext *ctx, JSModuleDef *module)
{
    return JS_EvalFunction(ctx, JS_NewModuleValue(ctx, module));
}

JSModuleDef *engine_module_of(JSValueConst value)
{
    return JS_VALUE_GET_TAG(value) == JS_TAG_MODULE ? JS_VALUE_GET_PTR(value) : NULL;
}

// Returns true if the module or one of its dependencies is being evaluated. A module whose evaluation is over depends
// only on such modules, so the walk ends there. `dfs_index` marks visited modules; the engine does not use it
// meanwhile.
static bool being_evaluated(JSModuleDef *module, int mark)
{
    if (module->status == JS_MODULE_STATUS_EVALUATING)
        return true;
    if (module->status > JS_MODULE_STATUS_EVALUATING || module->dfs_index == mark)
        return false;
    module->dfs_index = mark;
    for (int i = 0; i < module->req_module_entries_count; i++) {
        JSModuleDef *needed = module->req_module_entries[i].module;
        if (needed && being_evaluated(needed, mark))
            return true;
    }
    return false;
}

bool engine_being_evaluated(JSModuleDef *module)
{
    // Real indices are not negative, so every walk has a unique mark.
    static int mark = -1;
    return being_evaluated(module, --mark);
}

const char *engine_class_of(JSContext *ctx, JSValueConst value)
{
    static char name[64];
    JSAtom atom;
    switch (JS_GetClassID(value)) {
    case JS_INVALID_CLASS_ID:
        return NULL;
    // Classes whose name in the engine is that of another class.
    case JS_CLASS_MODULE_NS:
        return "Module";
    case JS_CLASS_BOUND_FUNCTION:
        return "BoundFunction";
    case JS_CLASS_PROXY:
        return "Proxy";
    default:
        atom = JS_GetClassName(ctx->rt, JS_GetClassID(value));
        JS_AtomGetStr(ctx, name, sizeof name, atom);
        JS_FreeAtom(ctx, atom);
        return name;
    }
}

const char *engine_function_kind(JSContext *ctx, JSValueConst value)
{
    if (!JS_IsFunction(ctx, value))
        return NULL;
    JSObject *object = JS_VALUE_GET_OBJ(value);
    if (object->class_id == JS_CLASS_BOUND_FUNCTION)
        return "bound";
    if (!js_class_has_bytecode(object->class_id))
        return "native";
    JSFunctionBytecode *code = object->u.func.function_bytecode;
    switch (code->func_kind) {
    case JS_FUNC_GENERATOR:
        return "generator";
    case JS_FUNC_ASYNC:
        return "async";
    case JS_FUNC_ASYNC_GENERATOR:
        return "asyncgenerator";
    }
    // Only the constructor of a class checks how it is called. The source text would show it too, but the prelude's
    // functions have none.
    for (int at = 0; at < code->byte_code_len;) {
        int op = code->byte_code_buf[at];
        if (op == OP_check_ctor)
            return "class";
        at += short_opcode_info(op).size;
    }
    return "function";
}

// Returns [entries, isKeyValue] of a collection, or of the remaining entries of an iterator over one.
JSValue engine_preview(JSContext *ctx, JSValueConst value)
{
    JSMapState *state;
    struct list_head *from;
    bool pairs;
    bool both = false;
    JSIteratorKindEnum kind = JS_ITERATOR_KIND_KEY;
    JSClassID class = JS_GetClassID(value);
    JSObject *object = class ? JS_VALUE_GET_OBJ(value) : NULL;

    switch (class) {
    case JS_CLASS_MAP:
    case JS_CLASS_SET:
        state = object->u.map_state;
        from = state->records.next;
        both = pairs = class == JS_CLASS_MAP;
        break;
    case JS_CLASS_MAP_ITERATOR:
    case JS_CLASS_SET_ITERATOR: {
        JSMapIteratorData *at = object->u.map_iterator_data;
        kind = at->kind;
        both = pairs = kind == JS_ITERATOR_KIND_KEY_AND_VALUE;
        if (JS_IsUndefined(at->obj)) {
            state = NULL;
            from = NULL;
            break;
        }
        state = JS_VALUE_GET_OBJ(at->obj)->u.map_state;
        from = at->cur_record ? at->cur_record->link.next : state->records.next;
        break;
    }
    default:
        return JS_UNDEFINED;
    }

    bool set = class == JS_CLASS_SET || class == JS_CLASS_SET_ITERATOR;
    JSValue entries = JS_NewArray(ctx);
    uint32_t count = 0;
    if (JS_IsException(entries))
        return entries;
    for (; state && from != &state->records; from = from->next) {
        JSMapRecord *record = list_entry(from, JSMapRecord, link);
        if (record->empty)
            continue;
        JSValue first = set || kind != JS_ITERATOR_KIND_VALUE ? record->key : record->value;
        if (JS_SetPropertyUint32(ctx, entries, count++, js_dup(first)) < 0)
            goto fail;
        if (both && JS_SetPropertyUint32(ctx, entries, count++, js_dup(set ? record->key : record->value)) < 0)
            goto fail;
    }
    JSValue both_values[] = {entries, JS_NewBool(ctx, pairs)};
    return JS_NewArrayFrom(ctx, 2, both_values);
fail:
    JS_FreeValue(ctx, entries);
    return JS_EXCEPTION;
}

JSValue engine_stack_of(JSContext *ctx, JSValueConst error)
{
    return JS_IsError(error) ? js_dup(JS_VALUE_GET_OBJ(error)->u.object_data) : JS_UNDEFINED;
}

void engine_set_stack(JSContext *ctx, JSValueConst error, JSValue text)
{
    if (JS_IsError(error))
        set_value(ctx, &JS_VALUE_GET_OBJ(error)->u.object_data, text);
    else
        JS_FreeValue(ctx, text);
}

// Gets the target and the handler of a proxy, or null for a revoked proxy, for which the public functions throw.
bool engine_proxy(JSContext *ctx, JSValueConst value, JSValue *target, JSValue *handler)
{
    if (JS_GetClassID(value) != JS_CLASS_PROXY)
        return false;
    JSProxyData *proxy = JS_VALUE_GET_OBJ(value)->u.opaque;
    *target = proxy->is_revoked ? JS_NULL : js_dup(proxy->target);
    *handler = proxy->is_revoked ? JS_NULL : js_dup(proxy->handler);
    return true;
}

#include "settle.h"

// Returns true if the program creates the current error, with `new Error(…)` or a class of its own, and false if the
// engine throws it. If the program creates it, the first C frame below the calling code is that of the constructor.
bool engine_error_is_made(JSContext *ctx)
{
    JSStackFrame *frame = ctx->rt->current_stack_frame;
    while (frame && (frame = frame->prev_frame)) {
        if (JS_VALUE_GET_TAG(frame->cur_func) != JS_TAG_OBJECT)
            return false;
        JSObject *function = JS_VALUE_GET_OBJ(frame->cur_func);
        if (function->class_id == JS_CLASS_C_FUNCTION)
            return function->u.cfunc.c_function.constructor_magic == js_error_constructor;
        if (!js_class_has_bytecode(function->class_id))
            return false;
    }
    return false;
}
