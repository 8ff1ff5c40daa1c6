// Functions that the compiler calls for setjmp and longjmp, which it lowers to a WebAssembly exception.
#include <stdint.h>

// Jump buffer: the call that set it and the position there. While an exception is in flight it also holds the thrown
// value.
struct buffer {
    void *call;
    uint32_t label;
    struct thrown {
        void *buffer;
        int value;
    } thrown;
};

// The tag of that exception, at the index that the compiler assigns.
enum { C_LONGJMP = 1 };

void __wasm_setjmp(struct buffer *buffer, uint32_t label, void *call)
{
    buffer->call = call;
    buffer->label = label;
}

// Returns the position in this call that the buffer refers to, or 0 if another call set it.
uint32_t __wasm_setjmp_test(struct buffer *buffer, void *call)
{
    return buffer->call == call ? buffer->label : 0;
}

void __wasm_longjmp(struct buffer *buffer, int value)
{
    buffer->thrown = (struct thrown){buffer, value ? value : 1};
    __builtin_wasm_throw(C_LONGJMP, &buffer->thrown);
}
