// Reads and writes on descriptors, in whole or in part, at a given or at the current position.
#include <wasi/api.h>

#include "shim.h"

static bool fd_of(JSContext *ctx, int *fd, JSValueConst value)
{
    return JS_ToInt32(ctx, fd, value) == 0;
}

// Reads a position argument; -1 is the current position of the descriptor.
static bool position_of(JSContext *ctx, int64_t *position, int argc, JSValueConst *argv, int index)
{
    *position = -1;
    if (argc <= index || JS_IsNull(argv[index]) || JS_IsUndefined(argv[index]))
        return true;
    return JS_ToInt64Ext(ctx, position, argv[index]) == 0;
}

static int read_some(int fd, void *bytes, size_t length, int64_t position, __wasi_size_t *count)
{
    __wasi_iovec_t in = {bytes, length};
    if (position < 0)
        return __wasi_fd_read(fd, &in, 1, count);
    return __wasi_fd_pread(fd, &in, 1, position, count);
}

static JSValue write_all(JSContext *ctx, int fd, JSValueConst value, int64_t position)
{
    const char *text;
    size_t length, done = 0;
    const uint8_t *bytes = bytes_or_text(ctx, &length, &text, value);
    if (!bytes && JS_HasException(ctx))
        return JS_EXCEPTION;
    int error = 0;
    while (done < length && !error) {
        __wasi_ciovec_t out = {bytes + done, length - done};
        __wasi_size_t count = 0;
        error = position < 0 ? __wasi_fd_write(fd, &out, 1, &count)
                             : __wasi_fd_pwrite(fd, &out, 1, position + done, &count);
        done += count;
        // A stream that accepts no bytes and reports no error would be retried forever.
        if (!error && count == 0)
            error = __WASI_ERRNO_IO;
    }
    JS_FreeCString(ctx, text);
    return error ? throw_system(ctx, error, "write", NULL, NULL) : JS_NewInt64(ctx, done);
}

static JSValue stream_write(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    return fd_of(ctx, &fd, argv[0]) ? write_all(ctx, fd, argv[1], -1) : JS_EXCEPTION;
}

static JSValue stream_pwrite(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    int64_t position;
    if (!fd_of(ctx, &fd, argv[0]) || !position_of(ctx, &position, argc, argv, 2))
        return JS_EXCEPTION;
    return write_all(ctx, fd, argv[1], position);
}

static JSValue stream_read(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    uint64_t most;
    int64_t position;
    __wasi_size_t count = 0;
    if (!fd_of(ctx, &fd, argv[0]) || JS_ToIndex(ctx, &most, argv[1]) || !position_of(ctx, &position, argc, argv, 2))
        return JS_EXCEPTION;
    if (most > INT32_MAX)
        most = INT32_MAX;
    uint8_t *bytes = js_malloc(ctx, most ? most : 1);
    if (!bytes)
        return JS_EXCEPTION;
    int error = read_some(fd, bytes, most, position, &count);
    if (error) {
        js_free(ctx, bytes);
        return throw_system(ctx, error, "read", NULL, NULL);
    }
    // A short result would otherwise hold a large buffer for its whole lifetime.
    if (count < most / 2) {
        JSValue copy = bytes_new(ctx, bytes, count);
        js_free(ctx, bytes);
        return copy;
    }
    return bytes_adopt(ctx, bytes, count);
}

static JSValue stream_read_into(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    size_t length;
    int64_t position;
    __wasi_size_t count = 0;
    if (!fd_of(ctx, &fd, argv[0]) || !position_of(ctx, &position, argc, argv, 2))
        return JS_EXCEPTION;
    uint8_t *bytes = bytes_of(ctx, &length, argv[1]);
    if (!bytes && JS_HasException(ctx))
        return JS_EXCEPTION;
    int error = read_some(fd, bytes, length, position, &count);
    return error ? throw_system(ctx, error, "read", NULL, NULL) : JS_NewInt64(ctx, count);
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("write", 2, stream_write),
    JS_CFUNC_DEF("pwrite", 3, stream_pwrite),
    JS_CFUNC_DEF("read", 2, stream_read),
    JS_CFUNC_DEF("pread", 3, stream_read),
    JS_CFUNC_DEF("readInto", 3, stream_read_into),
};

void add_streams(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
