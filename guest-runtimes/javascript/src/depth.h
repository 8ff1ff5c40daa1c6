// Makes the stack that the engine measures as deep as the one it cannot see.
//
// Compiled WebAssembly has two stacks. The engine's checks look at the one in linear memory, where only variables live
// whose address is taken; return addresses and everything else are on the host's, which nothing can look at and whose end
// is a trap. Parsing `((((` fills megabytes of the second and next to nothing of the first. So every function that
// recurses gets some unused room on the first stack, at the very places where it asks whether there is room:
// then the visible depth is at least half of the invisible one, and a limit on the one holds for both.
#ifndef DEPTH_H
#define DEPTH_H

// `value`, in a function whose frame is at least `size` bytes deeper for it.
#define DEEPENED(size, value)                                                                                          \
    ({                                                                                                                 \
        char room[size];                                                                                               \
        __asm__ volatile("" : : "r"(room));                                                                            \
        value;                                                                                                         \
    })

// Every JavaScript call is such a place: little room, so that recursion gets as deep as programs expect.
#define DEEPER_BY_CALL 64
#define DEEPER_BY_STEP 256

// What the making of a stack trace may use beyond the limit.
#ifndef ROOM_FOR_A_TRACE
#define ROOM_FOR_A_TRACE (64 << 10)
#endif

// The functions below are called with a variable and defined with a type in the same position. Pasting that first word
// to a name tells the two apart, so that the calls change and the definitions do not.

#define js_check_stack_overflow(first, size) check_stack_of_##first, size)
#define check_stack_of_JSRuntime check_stack(JSRuntime
#define check_stack_of_rt check_stack(DEEPENED(DEEPER_BY_CALL, rt)
#define check_stack_of_ctx check_stack(DEEPENED(DEEPER_BY_STEP, ctx)
#define check_stack_of_s check_stack(s

#define next_token(first) next_token_of_##first)
#define next_token_of_JSParseState parse_token(JSParseState
#define next_token_of_s parse_token(DEEPENED(DEEPER_BY_STEP, s)

#define get_proxy_method(first, ...) proxy_method_of_##first, __VA_ARGS__)
#define proxy_method_of_JSContext find_proxy_method(JSContext
#define proxy_method_of_ctx find_proxy_method(DEEPENED(2 * DEEPER_BY_STEP, ctx)

// C code that calls back into JavaScript, such as a sort, a getter's call or a conversion. The room is in a function of its
// own: in the callers it would also be in whatever they are inlined into, the interpreter's own frame above all.
#define JS_Call(first, ...) call_of_##first, __VA_ARGS__)
#define call_of_JSContext (JS_Call)(JSContext
#define call_of_ctx call_from_c(ctx
#define JS_CallFree(first, ...) call_free_of_##first, __VA_ARGS__)
#define call_free_of_JSContext call_and_free(JSContext
#define call_free_of_ctx call_and_free_from_c(ctx

#define build_backtrace(first, ...) backtrace_of_##first, __VA_ARGS__)
#define backtrace_of_JSContext (build_backtrace)(JSContext
#define backtrace_of_ctx record_backtrace(ctx
#define backtrace_of_s record_backtrace(s

#endif
