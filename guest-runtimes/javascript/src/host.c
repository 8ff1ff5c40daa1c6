// host.call, the guest's only channel to codebox, and the allocation of memory for its answers.
#include <stdlib.h>
#include <string.h>

#include "shim.h"

__attribute__((import_module("host"), import_name("call"))) int host_call(const char *text, size_t length,
                                                                          uint8_t **answer, size_t *answer_length);

// Allocates memory for the host. Releases the reserve if that is necessary, since the next turn starts with this call.
__attribute__((export_name("host_alloc"))) void *host_alloc(size_t length)
{
    void *block = malloc(length ? length : 1);
    if (block)
        return block;
    reserve_release();
    return malloc(length ? length : 1);
}

// Sends a request to the host. The caller frees the answer.
int host_request(const char *text, size_t length, uint8_t **answer, size_t *answer_length)
{
    *answer = NULL;
    *answer_length = 0;
    return host_call(text, length, answer, answer_length);
}

static JSValue request_from_script(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    size_t length, answer_length;
    uint8_t *answer;
    const char *text;
    const uint8_t *request = bytes_or_text(ctx, &length, &text, argv[0]);
    if (!request)
        return JS_EXCEPTION;
    int status = host_request((const char *)request, length, &answer, &answer_length);
    if (text)
        JS_FreeCString(ctx, text);
    if (status == HOST_UNAVAILABLE)
        return JS_NULL;
    if (status != HOST_OK)
        return JS_ThrowInternalError(ctx, "host.call failed: invalid request, or out of memory for the response");
    JSValue bytes = bytes_new(ctx, answer, answer_length);
    free(answer);
    return bytes;
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("host", 1, request_from_script),
};

void add_host(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
