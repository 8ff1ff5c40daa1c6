// Node's errors of system calls: a message, a code and a number for each error number of WASI.
#include <stdio.h>
#include <string.h>
#include <wasi/api.h>

#include "shim.h"

// The number is that of Linux, which programs for Node compare with.
static const struct {
    int wasi, linux_number;
    const char *code, *text;
} ERRORS[] = {
    {__WASI_ERRNO_2BIG, 7, "E2BIG", "argument list too long"},
    {__WASI_ERRNO_ACCES, 13, "EACCES", "permission denied"},
    {__WASI_ERRNO_AGAIN, 11, "EAGAIN", "resource temporarily unavailable"},
    {__WASI_ERRNO_BADF, 9, "EBADF", "bad file descriptor"},
    {__WASI_ERRNO_BUSY, 16, "EBUSY", "resource busy or locked"},
    {__WASI_ERRNO_DQUOT, 122, "EDQUOT", "disk quota exceeded"},
    {__WASI_ERRNO_EXIST, 17, "EEXIST", "file already exists"},
    {__WASI_ERRNO_FAULT, 14, "EFAULT", "bad address in system call argument"},
    {__WASI_ERRNO_FBIG, 27, "EFBIG", "file too large"},
    {__WASI_ERRNO_INTR, 4, "EINTR", "interrupted system call"},
    {__WASI_ERRNO_INVAL, 22, "EINVAL", "invalid argument"},
    {__WASI_ERRNO_IO, 5, "EIO", "i/o error"},
    {__WASI_ERRNO_ISDIR, 21, "EISDIR", "illegal operation on a directory"},
    {__WASI_ERRNO_LOOP, 40, "ELOOP", "too many symbolic links encountered"},
    {__WASI_ERRNO_MFILE, 24, "EMFILE", "too many open files"},
    {__WASI_ERRNO_MLINK, 31, "EMLINK", "too many links"},
    {__WASI_ERRNO_NAMETOOLONG, 36, "ENAMETOOLONG", "name too long"},
    {__WASI_ERRNO_NFILE, 23, "ENFILE", "file table overflow"},
    {__WASI_ERRNO_NODEV, 19, "ENODEV", "no such device"},
    {__WASI_ERRNO_NOENT, 2, "ENOENT", "no such file or directory"},
    {__WASI_ERRNO_NOMEM, 12, "ENOMEM", "not enough memory"},
    {__WASI_ERRNO_NOSPC, 28, "ENOSPC", "no space left on device"},
    {__WASI_ERRNO_NOSYS, 38, "ENOSYS", "function not implemented"},
    {__WASI_ERRNO_NOTDIR, 20, "ENOTDIR", "not a directory"},
    {__WASI_ERRNO_NOTEMPTY, 39, "ENOTEMPTY", "directory not empty"},
    {__WASI_ERRNO_NOTSUP, 95, "ENOTSUP", "operation not supported on socket"},
    {__WASI_ERRNO_NXIO, 6, "ENXIO", "no such device or address"},
    {__WASI_ERRNO_OVERFLOW, 75, "EOVERFLOW", "value too large for defined data type"},
    {__WASI_ERRNO_PERM, 1, "EPERM", "operation not permitted"},
    {__WASI_ERRNO_PIPE, 32, "EPIPE", "broken pipe"},
    {__WASI_ERRNO_ROFS, 30, "EROFS", "read-only file system"},
    {__WASI_ERRNO_SPIPE, 29, "ESPIPE", "invalid seek"},
    {__WASI_ERRNO_TIMEDOUT, 110, "ETIMEDOUT", "connection timed out"},
    {__WASI_ERRNO_TXTBSY, 26, "ETXTBSY", "text file is busy"},
    {__WASI_ERRNO_XDEV, 18, "EXDEV", "cross-device link not permitted"},
    // Refusal by the sandbox, for which Linux has no number.
    {__WASI_ERRNO_NOTCAPABLE, 1, "EPERM", "operation not permitted"},
};

JSValue throw_system(JSContext *ctx, int wasi, const char *call, const char *path, const char *dest)
{
    const char *code = "EIO", *text = "i/o error";
    int number = 5;
    for (int i = 0; i < COUNT(ERRORS); i++)
        if (ERRORS[i].wasi == wasi) {
            code = ERRORS[i].code;
            text = ERRORS[i].text;
            number = ERRORS[i].linux_number;
        }
    // The engine truncates its own messages after 255 bytes, and paths may be longer.
    static const char WITHOUT[] = "%s: %s, %s", WITH[] = "%s: %s, %s '%s'", BOTH[] = "%s: %s, %s '%s' -> '%s'";
    const char *format = path && dest ? BOTH : path ? WITH : WITHOUT;
    int length = snprintf(NULL, 0, format, code, text, call, path, dest);
    char *message = js_malloc(ctx, length + 1);
    if (!message)
        return JS_EXCEPTION;
    snprintf(message, length + 1, format, code, text, call, path, dest);
    JSValue error = JS_NewError(ctx);
    if (!JS_IsException(error))
        JS_DefinePropertyValueStr(ctx, error, "message", JS_NewStringLen(ctx, message, length),
                                  JS_PROP_WRITABLE | JS_PROP_CONFIGURABLE);
    js_free(ctx, message);
    if (JS_IsException(error))
        return error;
    JS_DefinePropertyValueStr(ctx, error, "errno", JS_NewInt32(ctx, -number), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, error, "code", JS_NewString(ctx, code), JS_PROP_C_W_E);
    JS_DefinePropertyValueStr(ctx, error, "syscall", JS_NewString(ctx, call), JS_PROP_C_W_E);
    if (path)
        JS_DefinePropertyValueStr(ctx, error, "path", JS_NewString(ctx, path), JS_PROP_C_W_E);
    if (dest)
        JS_DefinePropertyValueStr(ctx, error, "dest", JS_NewString(ctx, dest), JS_PROP_C_W_E);
    return JS_Throw(ctx, error);
}
