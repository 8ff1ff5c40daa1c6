// ES modules, which the prelude resolves and loads and the engine links and evaluates; and functions compiled for
// CommonJS.
#include <stdlib.h>
#include <string.h>

#include "shim.h"

// Ends stack traces where the program's own code begins.
#define TOP JS_EVAL_FLAG_BACKTRACE_BARRIER

static char *normalize(JSContext *ctx, const char *importer, const char *specifier, JSValueConst attributes, void *opaque)
{
    JSValue argv[] = {JS_NewString(ctx, specifier), JS_NewString(ctx, importer), JS_DupValue(ctx, attributes)};
    JSValue id = hook_call(HOOK_RESOLVE, 3, argv);
    for (int i = 0; i < COUNT(argv); i++)
        JS_FreeValue(ctx, argv[i]);
    if (JS_IsException(id))
        return NULL;
    const char *text = JS_ToCString(ctx, id);
    JS_FreeValue(ctx, id);
    if (!text)
        return NULL;
    char *copy = js_strdup(ctx, text);
    JS_FreeCString(ctx, text);
    return copy;
}

// Accepts all attributes: the prelude checks them in `resolve`.
static int check_attributes(JSContext *ctx, void *opaque, JSValueConst attributes)
{
    return 0;
}

// Evaluates a synthetic module: its exports take the values that they have now.
static int evaluate_synthetic(JSContext *ctx, JSModuleDef *module)
{
    JSValue description = JS_GetModulePrivateValue(ctx, module);
    JSValue evaluate = JS_GetPropertyStr(ctx, description, "evaluate");
    JSValue values = JS_Call(ctx, evaluate, description, 0, NULL);
    JSValue names = JS_GetPropertyStr(ctx, description, "names");
    int64_t count;
    int result = -1;
    if (JS_IsException(values) || JS_IsException(names) || JS_GetLength(ctx, names, &count))
        goto done;
    for (int64_t i = 0; i < count; i++) {
        JSValue name = JS_GetPropertyInt64(ctx, names, i);
        const char *text = JS_ToCString(ctx, name);
        JS_FreeValue(ctx, name);
        if (!text)
            goto done;
        JSValue value = JS_GetPropertyStr(ctx, values, text);
        int failed = JS_IsException(value) || JS_SetModuleExport(ctx, module, text, value);
        JS_FreeCString(ctx, text);
        if (failed)
            goto done;
    }
    result = 0;
done:
    JS_FreeValue(ctx, names);
    JS_FreeValue(ctx, values);
    JS_FreeValue(ctx, evaluate);
    JS_FreeValue(ctx, description);
    return result;
}

static JSModuleDef *make_synthetic(JSContext *ctx, const char *id, JSValueConst description)
{
    JSValue names = JS_GetPropertyStr(ctx, description, "names");
    int64_t count;
    JSModuleDef *module = NULL;
    if (JS_IsException(names) || JS_GetLength(ctx, names, &count))
        goto done;
    JSModuleDef *made = JS_NewCModule(ctx, id, evaluate_synthetic);
    if (!made)
        goto done;
    for (int64_t i = 0; i < count; i++) {
        JSValue name = JS_GetPropertyInt64(ctx, names, i);
        const char *text = JS_ToCString(ctx, name);
        JS_FreeValue(ctx, name);
        int failed = !text || JS_AddModuleExport(ctx, made, text);
        JS_FreeCString(ctx, text);
        if (failed)
            goto done;
    }
    if (JS_SetModulePrivateValue(ctx, made, JS_DupValue(ctx, description)) == 0)
        module = made;
done:
    JS_FreeValue(ctx, names);
    return module;
}

// Returns a text with the terminating zero that the parser requires; strings have one, bytes are copied.
static char *source_of(JSContext *ctx, size_t *length, JSValueConst value, const char **borrowed)
{
    *borrowed = NULL;
    if (JS_IsString(value)) {
        *borrowed = JS_ToCStringLen(ctx, length, value);
        return (char *)*borrowed;
    }
    uint8_t *bytes = bytes_of(ctx, length, value);
    if (!bytes && JS_HasException(ctx))
        return NULL;
    return js_strndup(ctx, (const char *)bytes, *length);
}

static void source_free(JSContext *ctx, char *text, const char *borrowed)
{
    if (borrowed)
        JS_FreeCString(ctx, borrowed);
    else
        js_free(ctx, text);
}

static int fill_meta(JSContext *ctx, const char *id, JSModuleDef *module)
{
    JSValue argv[] = {JS_NewString(ctx, id), JS_GetImportMeta(ctx, module)};
    JSValue result = hook_call(HOOK_META, 2, argv);
    JS_FreeValue(ctx, argv[0]);
    JS_FreeValue(ctx, argv[1]);
    int failed = JS_IsException(result);
    JS_FreeValue(ctx, result);
    return failed;
}

static JSModuleDef *compile(JSContext *ctx, const char *id, JSValueConst source)
{
    size_t length;
    const char *borrowed;
    char *text = source_of(ctx, &length, source, &borrowed);
    if (!text)
        return NULL;
    JSValue value = engine_compile(ctx, text, length, id, 1, JS_EVAL_TYPE_MODULE | JS_EVAL_FLAG_COMPILE_ONLY | TOP);
    source_free(ctx, text, borrowed);
    if (JS_IsException(value))
        return NULL;
    JSModuleDef *module = engine_module_of(value);
    // The context's list of modules holds a reference.
    JS_FreeValue(ctx, value);
    return fill_meta(ctx, id, module) ? NULL : module;
}

static JSModuleDef *load(JSContext *ctx, const char *id, void *opaque, JSValueConst attributes)
{
    JSValue argv[] = {JS_NewString(ctx, id), JS_DupValue(ctx, attributes)};
    JSValue description = hook_call(HOOK_LOAD, 2, argv);
    JS_FreeValue(ctx, argv[0]);
    JS_FreeValue(ctx, argv[1]);
    if (JS_IsException(description))
        return NULL;
    JSModuleDef *module = NULL;
    JSValue kind = JS_GetPropertyStr(ctx, description, "kind");
    const char *text = JS_ToCString(ctx, kind);
    if (text && !strcmp(text, "synthetic")) {
        module = make_synthetic(ctx, id, description);
    } else if (text && !strcmp(text, "esm")) {
        JSValue source = JS_GetPropertyStr(ctx, description, "text");
        module = compile(ctx, id, source);
        JS_FreeValue(ctx, source);
    } else if (text) {
        JS_ThrowTypeError(ctx, "unsupported module kind %s", text);
    }
    JS_FreeCString(ctx, text);
    JS_FreeValue(ctx, kind);
    JS_FreeValue(ctx, description);
    return module;
}

void modules_install(JSContext *ctx)
{
    JSRuntime *rt = JS_GetRuntime(ctx);
    JS_SetModuleLoaderFunc2(rt, NULL, load, check_attributes, NULL);
    JS_SetModuleNormalizeFunc2(rt, normalize);
}

static JSValue compile_module(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const char *id = JS_ToCString(ctx, argv[0]);
    if (!id)
        return JS_EXCEPTION;
    JSModuleDef *module = compile(ctx, id, argv[1]);
    JS_FreeCString(ctx, id);
    return module ? JS_UNDEFINED : JS_EXCEPTION;
}

static JSValue check_module(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const char *borrowed;
    char *text = source_of(ctx, &length, argv[0], &borrowed);
    if (!text)
        return JS_EXCEPTION;
    bool good = JS_DetectModule(text, length);
    source_free(ctx, text, borrowed);
    return JS_NewBool(ctx, good);
}

static JSValue import_module(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    const char *id = JS_ToCString(ctx, argv[0]);
    if (!id)
        return JS_EXCEPTION;
    JSModuleDef *module = engine_find_module(ctx, "", id);
    JS_FreeCString(ctx, id);
    if (!module || engine_resolve_module(ctx, module))
        return JS_EXCEPTION;
    if (engine_being_evaluated(module)) {
        JSValue error = JS_NewError(ctx);
        JS_DefinePropertyValueStr(ctx, error, "message",
                                  JS_NewString(ctx, "Cannot require() ES Module in a cycle"),
                                  JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
        JS_DefinePropertyValueStr(ctx, error, "code", JS_NewString(ctx, "ERR_REQUIRE_CYCLE_MODULE"), JS_PROP_C_W_E);
        return JS_Throw(ctx, error);
    }
    JSValue promise = engine_evaluate_module(ctx, module);
    if (JS_IsException(promise))
        return promise;
    JSValue namespace = JS_GetModuleNamespace(ctx, module);
    if (JS_IsException(namespace)) {
        JS_FreeValue(ctx, promise);
        return namespace;
    }
    JSValue both[] = {promise, namespace};
    return JS_NewArrayFrom(ctx, 2, both);
}

static JSValue eval_script(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const char *borrowed;
    int line = 1;
    if (argc > 2 && !JS_IsUndefined(argv[2]) && JS_ToInt32(ctx, &line, argv[2]))
        return JS_EXCEPTION;
    char *text = source_of(ctx, &length, argv[0], &borrowed);
    if (!text)
        return JS_EXCEPTION;
    const char *file = JS_ToCString(ctx, argv[1]);
    JSValue result = file ? engine_compile(ctx, text, length, file, line, JS_EVAL_TYPE_GLOBAL | TOP) : JS_EXCEPTION;
    JS_FreeCString(ctx, file);
    source_free(ctx, text, borrowed);
    return result;
}

// Starts a text that may await at its top level, and returns the promise of an object with the value of its last expression.
static JSValue eval_cell(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length;
    const char *borrowed;
    char *text = source_of(ctx, &length, argv[0], &borrowed);
    if (!text)
        return JS_EXCEPTION;
    const char *file = JS_ToCString(ctx, argv[1]);
    int flags = JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_ASYNC | TOP;
    JSValue result = file ? engine_compile(ctx, text, length, file, 1, flags) : JS_EXCEPTION;
    JS_FreeCString(ctx, file);
    source_free(ctx, text, borrowed);
    return result;
}

// Removes a variable that a script has declared. Returns true if there was one.
static JSValue undeclare(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    JSAtom name = JS_ValueToAtom(ctx, argv[0]);
    if (name == JS_ATOM_NULL)
        return JS_EXCEPTION;
    bool removed = engine_undeclare(ctx, name);
    JS_FreeAtom(ctx, name);
    return JS_NewBool(ctx, removed);
}

// Compiles the text as a function's body. The wrapper starts at line 0, so that the body's first line is 1.
static JSValue compile_function(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    static const char BEGIN[] = "(function (", BETWEEN[] = ") {\n", END[] = "\n})";
    JSValue result = JS_EXCEPTION, list = JS_UNDEFINED;
    const char *borrowed = NULL, *file = NULL, *names = NULL;
    char *text, *whole = NULL;
    size_t length, names_length = 0;

    text = source_of(ctx, &length, argv[0], &borrowed);
    if (!text)
        return JS_EXCEPTION;
    if (!(file = JS_ToCString(ctx, argv[1])))
        goto done;
    if (argc > 2 && JS_IsArray(argv[2])) {
        // The string of an array joins its elements with commas, which gives a parameter list.
        list = JS_ToString(ctx, argv[2]);
        if (!(names = JS_ToCStringLen(ctx, &names_length, list)))
            goto done;
    }
    whole = js_malloc(ctx, length + names_length + sizeof BEGIN + sizeof BETWEEN + sizeof END);
    if (!whole)
        goto done;
    char *at = whole;
    at = (char *)memcpy(at, BEGIN, sizeof BEGIN - 1) + sizeof BEGIN - 1;
    if (names_length)
        at = (char *)memcpy(at, names, names_length) + names_length;
    at = (char *)memcpy(at, BETWEEN, sizeof BETWEEN - 1) + sizeof BETWEEN - 1;
    memcpy(at, text, length);
    if (length > 1 && at[0] == '#' && at[1] == '!')
        at[0] = at[1] = '/';
    at += length;
    at = (char *)memcpy(at, END, sizeof END) + sizeof END - 1;
    result = engine_compile(ctx, whole, at - whole, file, 0, JS_EVAL_TYPE_GLOBAL);
done:
    js_free(ctx, whole);
    JS_FreeCString(ctx, names);
    JS_FreeValue(ctx, list);
    JS_FreeCString(ctx, file);
    source_free(ctx, text, borrowed);
    return result;
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("compileModule", 2, compile_module),
    JS_CFUNC_DEF("checkModule", 1, check_module),
    JS_CFUNC_DEF("importModule", 1, import_module),
    JS_CFUNC_DEF("evalScript", 3, eval_script),
    JS_CFUNC_DEF("evalCell", 2, eval_cell),
    JS_CFUNC_DEF("undeclare", 1, undeclare),
    JS_CFUNC_DEF("compileFunction", 3, compile_function),
};

void add_modules(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
