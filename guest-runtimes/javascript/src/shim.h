// Interface between the parts of the shim: one interpreter, its hooks, and the functions that each part adds to
// `native`.
#ifndef SHIM_H
#define SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "quickjs.h"

#define COUNT(table) ((int)(sizeof(table) / sizeof((table)[0])))

// The only interpreter: one module instance is one guest.
extern JSContext *ctx;

// Functions that the prelude returned, in the order of HOOK_NAMES.
enum hook {
    HOOK_MAIN, HOOK_TICKS, HOOK_TICK, HOOK_BEFORE_EXIT, HOOK_EXIT, HOOK_STATUS, HOOK_UNCAUGHT, HOOK_UNHANDLED,
    HOOK_HANDLED_LATER, HOOK_RESOLVE, HOOK_LOAD, HOOK_META, HOOKS
};
JSValue hook_call(enum hook which, int argc, JSValueConst *argv);

// loop.c: the event loop, from one macrotask to the next until no work is left.
void loop_begin(void);
void loop_run(bool with_before_exit);
void loop_uncaught(void);
int loop_status(enum hook which);
JSValue loop_exit(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv);
bool loop_leaving(void);
void loop_track(JSContext *ctx, JSValueConst promise, JSValueConst reason, bool handled, void *opaque);

// host.c: host.call.
enum { HOST_OK = 0, HOST_UNAVAILABLE = -1, HOST_FAULT = -2 };
int host_request(const char *text, size_t length, uint8_t **answer, size_t *answer_length);

// clock.c: start of the turn's clock.
void clock_begin(void);

// memory.c: the engine's allocator, and the memory reserved for reporting an error.
extern const JSMallocFunctions memory_functions;
void reserve_fill(void);
void reserve_release(void);
void memory_settle(void);

// engine.c: operations that the engine's public interface lacks.
void engine_begin(JSContext *ctx, const uint8_t seed[8]);
void engine_leave(JSContext *ctx, bool leaving);
void engine_relax(JSContext *ctx, size_t headroom);
void engine_collect_soon(JSContext *ctx);
int engine_settle(JSContext *ctx);
size_t engine_used(JSContext *ctx);
JSValue engine_compile(JSContext *ctx, const char *text, size_t length, const char *file, int line, int flags);
bool engine_undeclare(JSContext *ctx, JSAtom name);
JSModuleDef *engine_find_module(JSContext *ctx, const char *importer, const char *specifier);
JSValue engine_evaluate_module(JSContext *ctx, JSModuleDef *module);
int engine_resolve_module(JSContext *ctx, JSModuleDef *module);
JSModuleDef *engine_module_of(JSValueConst value);
JSValueConst engine_module_error(JSModuleDef *module);
bool engine_being_evaluated(JSModuleDef *module);
const char *engine_class_of(JSContext *ctx, JSValueConst value);
const char *engine_function_kind(JSContext *ctx, JSValueConst value);
JSValue engine_preview(JSContext *ctx, JSValueConst value);
JSValue engine_stack_of(JSContext *ctx, JSValueConst error);
bool engine_error_is_made(JSContext *ctx);
void engine_set_stack(JSContext *ctx, JSValueConst error, JSValue text);
bool engine_proxy(JSContext *ctx, JSValueConst value, JSValue *target, JSValue *handler);

// bytes.c: conversion between bytes and text. `bytes_of` accepts ArrayBuffers and all views, and throws for anything
// else.
uint8_t *bytes_of(JSContext *ctx, size_t *length, JSValueConst value);
JSValue bytes_new(JSContext *ctx, const void *bytes, size_t length);
JSValue bytes_adopt(JSContext *ctx, uint8_t *bytes, size_t length);
// Returns the UTF-8 of a string or the bytes of a view. If `*text` is not NULL, the caller frees it with
// JS_FreeCString.
const uint8_t *bytes_or_text(JSContext *ctx, size_t *length, const char **text, JSValueConst value);
const char *text_of(JSContext *ctx, size_t *length, JSValueConst value);

// errors.c: Node's errors of system calls.
JSValue throw_system(JSContext *ctx, int wasi, const char *call, const char *path, const char *dest);

// modules.c: the module loader, which calls the prelude.
void modules_install(JSContext *ctx);

void add_files(JSContext *ctx, JSValueConst native);
void add_streams(JSContext *ctx, JSValueConst native);
void add_clock(JSContext *ctx, JSValueConst native);
void add_bytes(JSContext *ctx, JSValueConst native);
void add_digests(JSContext *ctx, JSValueConst native);
void add_modules(JSContext *ctx, JSValueConst native);
void add_inspect(JSContext *ctx, JSValueConst native);
void add_host(JSContext *ctx, JSValueConst native);
void add_memory(JSContext *ctx, JSValueConst native);

#endif
