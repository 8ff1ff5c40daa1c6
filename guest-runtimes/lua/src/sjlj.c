// What the compiler calls for setjmp and longjmp, which it turns into a WebAssembly exception.
#include <stdint.h>

// A buffer knows the call that set it and the place there. While an exception is under way it also holds what is thrown.
struct buffer {
    void *call;
    uint32_t label;
    struct thrown {
        void *buffer;
        int value;
    } thrown;
};

// The tag of that exception, in the place that the compiler gives it.
enum { C_LONGJMP = 1 };

void __wasm_setjmp(struct buffer *buffer, uint32_t label, void *call)
{
    buffer->call = call;
    buffer->label = label;
}

// The place in this call that the buffer means, or 0 when it was another call's.
uint32_t __wasm_setjmp_test(struct buffer *buffer, void *call)
{
    return buffer->call == call ? buffer->label : 0;
}

void __wasm_longjmp(struct buffer *buffer, int value)
{
    buffer->thrown = (struct thrown){buffer, value ? value : 1};
    __builtin_wasm_throw(C_LONGJMP, &buffer->thrown);
}
