// Makes the stack that the engine measures grow with the host's stack, which the engine cannot measure.
//
// Compiled WebAssembly has two stacks. The engine's checks measure the one in linear memory, which holds only variables
// whose address is taken. Return addresses and all other values are on the host's stack, which the guest cannot inspect
// and whose overflow is a trap. Parsing `((((` uses megabytes of the host's stack and almost none of the linear one.
// Every recursive function therefore reserves unused space on the linear stack at the points where it checks for
// overflow. The visible depth is then at least half of the host's depth, and one limit covers both stacks.
#ifndef DEPTH_H
#define DEPTH_H

// Evaluates to `value`, in a function whose frame it enlarges by at least `size` bytes.
#define DEEPENED(size, value)                                                                                          \
    ({                                                                                                                 \
        char room[size];                                                                                               \
        __asm__ volatile("" : : "r"(room));                                                                            \
        value;                                                                                                         \
    })

// Every JavaScript call is such a point. Its padding is small, so that recursion reaches the depth that programs
// expect.
#define DEEPER_BY_CALL 64
#define DEEPER_BY_STEP 256

// Bytes beyond the stack limit that the creation of a stack trace may use.
#ifndef TRACE_RESERVE
#define TRACE_RESERVE (64 << 10)
#endif

// The functions below are called with a variable and defined with a type in the same position. The macros paste that
// first word to a name to distinguish the two, so that they change the calls and not the definitions.

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

// Covers C code that calls back into JavaScript, such as a sort, a getter call or a conversion. The padding is in a
// separate function: in a caller it would also enlarge the frames that the caller is inlined into, above all that of
// the interpreter.
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
