// Files and directories below the only preopen: WASI's calls with Linux's flags and Node's errors. The code does not
// use libc, so that no state of files survives a restore.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#include "shim.h"

#define ROOT 3

// Linux's values, which programs for Node find in `fs.constants`.
enum {
    O_ACCESS = 3, O_WRITE_ONLY = 1, O_READ_WRITE = 2, O_CREATE = 0100, O_EXCLUSIVE = 0200, O_TRUNCATE = 01000,
    O_APPENDING = 02000, O_NON_BLOCKING = 04000, O_DATA_SYNC = 010000, O_DIRECTORY_ONLY = 0200000, O_NO_FOLLOW = 0400000,
    O_SYNCHRONOUS = 04010000,
    S_REGULAR = 0100000, S_DIRECTORY = 0040000, S_LINK = 0120000, S_CHARACTER = 0020000, S_BLOCK = 0060000,
    S_SOCKET = 0140000,
};

#define FOLLOW __WASI_LOOKUPFLAGS_SYMLINK_FOLLOW

// Returns the path relative to the preopen, as WASI requires.
static const char *below(const char *path)
{
    while (*path == '/')
        path++;
    return *path ? path : ".";
}

// Runs an operation on one or two paths, and throws an error that names them.
static JSValue with_paths(JSContext *ctx, const char *call, int paths, JSValueConst *argv, int (*act)(const char *, const char *))
{
    const char *first = JS_ToCString(ctx, argv[0]);
    const char *second = first && paths > 1 ? JS_ToCString(ctx, argv[1]) : NULL;
    JSValue result = JS_EXCEPTION;
    if (first && (second || paths == 1)) {
        int error = act(first, second);
        result = error ? throw_system(ctx, error, call, first, second) : JS_UNDEFINED;
    }
    JS_FreeCString(ctx, second);
    JS_FreeCString(ctx, first);
    return result;
}

static int do_mkdir(const char *path, const char *unused) { return __wasi_path_create_directory(ROOT, below(path)); }
static int do_rmdir(const char *path, const char *unused) { return __wasi_path_remove_directory(ROOT, below(path)); }
static int do_unlink(const char *path, const char *unused) { return __wasi_path_unlink_file(ROOT, below(path)); }
static int do_rename(const char *from, const char *to) { return __wasi_path_rename(ROOT, below(from), ROOT, below(to)); }
static int do_link(const char *from, const char *to) { return __wasi_path_link(ROOT, 0, below(from), ROOT, below(to)); }
static int do_symlink(const char *target, const char *path) { return __wasi_path_symlink(target, ROOT, below(path)); }

#define PATH_FUNCTION(name, paths)                                                                                     \
    static JSValue file_##name(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)                         \
    {                                                                                                                  \
        return with_paths(ctx, #name, paths, argv, do_##name);                                                         \
    }
PATH_FUNCTION(mkdir, 1)
PATH_FUNCTION(rmdir, 1)
PATH_FUNCTION(unlink, 1)
PATH_FUNCTION(rename, 2)
PATH_FUNCTION(link, 2)
PATH_FUNCTION(symlink, 2)

static int open_path(const char *path, int flags, __wasi_fd_t *fd)
{
    __wasi_rights_t rights = __WASI_RIGHTS_FD_SEEK | __WASI_RIGHTS_FD_TELL | __WASI_RIGHTS_FD_FILESTAT_GET |
                             __WASI_RIGHTS_FD_FILESTAT_SET_TIMES | __WASI_RIGHTS_FD_SYNC | __WASI_RIGHTS_FD_ADVISE |
                             __WASI_RIGHTS_FD_FDSTAT_SET_FLAGS | __WASI_RIGHTS_POLL_FD_READWRITE;
    __wasi_oflags_t open = 0;
    __wasi_fdflags_t mode = 0;
    int access = flags & O_ACCESS;
    if (access != O_WRITE_ONLY)
        rights |= __WASI_RIGHTS_FD_READ | __WASI_RIGHTS_FD_READDIR;
    if (access != 0)
        rights |= __WASI_RIGHTS_FD_WRITE | __WASI_RIGHTS_FD_DATASYNC | __WASI_RIGHTS_FD_ALLOCATE |
                  __WASI_RIGHTS_FD_FILESTAT_SET_SIZE;
    if (flags & O_CREATE)
        open |= __WASI_OFLAGS_CREAT;
    if (flags & O_EXCLUSIVE)
        open |= __WASI_OFLAGS_EXCL;
    if (flags & O_TRUNCATE)
        open |= __WASI_OFLAGS_TRUNC;
    if (flags & O_DIRECTORY_ONLY)
        open |= __WASI_OFLAGS_DIRECTORY;
    if (flags & O_APPENDING)
        mode |= __WASI_FDFLAGS_APPEND;
    if (flags & O_NON_BLOCKING)
        mode |= __WASI_FDFLAGS_NONBLOCK;
    if ((flags & O_SYNCHRONOUS) == O_SYNCHRONOUS)
        mode |= __WASI_FDFLAGS_SYNC;
    else if (flags & O_DATA_SYNC)
        mode |= __WASI_FDFLAGS_DSYNC;
    return __wasi_path_open(ROOT, flags & O_NO_FOLLOW ? 0 : FOLLOW, below(path), open, rights, rights, mode, fd);
}

static JSValue file_open(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int flags = 0;
    __wasi_fd_t fd;
    if (argc > 1 && JS_ToInt32(ctx, &flags, argv[1]))
        return JS_EXCEPTION;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = open_path(path, flags, &fd);
    JSValue result = error ? throw_system(ctx, error, "open", path, NULL) : JS_NewInt32(ctx, fd);
    JS_FreeCString(ctx, path);
    return result;
}

enum { FD_CLOSE, FD_SYNC, FD_DATASYNC };

static JSValue file_fd(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int which)
{
    static const char *const CALLS[] = {"close", "fsync", "fdatasync"};
    int fd, error;
    if (JS_ToInt32(ctx, &fd, argv[0]))
        return JS_EXCEPTION;
    if (which == FD_CLOSE)
        // Closing the preopen would make all files inaccessible.
        error = fd == ROOT ? __WASI_ERRNO_BADF : __wasi_fd_close(fd);
    else
        error = which == FD_SYNC ? __wasi_fd_sync(fd) : __wasi_fd_datasync(fd);
    return error ? throw_system(ctx, error, CALLS[which], NULL, NULL) : JS_UNDEFINED;
}

static JSValue file_ftruncate(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    int64_t size;
    if (JS_ToInt32(ctx, &fd, argv[0]) || JS_ToInt64Ext(ctx, &size, argv[1]))
        return JS_EXCEPTION;
    int error = __wasi_fd_filestat_set_size(fd, size);
    return error ? throw_system(ctx, error, "ftruncate", NULL, NULL) : JS_UNDEFINED;
}

static JSValue file_truncate(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int64_t size;
    __wasi_fd_t fd;
    if (JS_ToInt64Ext(ctx, &size, argv[1]))
        return JS_EXCEPTION;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = open_path(path, O_WRITE_ONLY, &fd);
    if (!error) {
        error = __wasi_fd_filestat_set_size(fd, size);
        (void)__wasi_fd_close(fd);
    }
    JSValue result = error ? throw_system(ctx, error, "truncate", path, NULL) : JS_UNDEFINED;
    JS_FreeCString(ctx, path);
    return result;
}

static JSValue file_seek(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd, whence;
    int64_t offset;
    __wasi_filesize_t position;
    if (JS_ToInt32(ctx, &fd, argv[0]) || JS_ToInt64Ext(ctx, &offset, argv[1]) || JS_ToInt32(ctx, &whence, argv[2]))
        return JS_EXCEPTION;
    int error = __wasi_fd_seek(fd, offset, whence, &position);
    return error ? throw_system(ctx, error, "lseek", NULL, NULL) : JS_NewInt64(ctx, position);
}

static const char *type_name(__wasi_filetype_t type, int *mode)
{
    switch (type) {
    case __WASI_FILETYPE_REGULAR_FILE:
        *mode = S_REGULAR | 0644;
        return "file";
    case __WASI_FILETYPE_DIRECTORY:
        *mode = S_DIRECTORY | 0755;
        return "dir";
    case __WASI_FILETYPE_SYMBOLIC_LINK:
        *mode = S_LINK | 0777;
        return "symlink";
    case __WASI_FILETYPE_CHARACTER_DEVICE:
        *mode = S_CHARACTER | 0620;
        return "char";
    case __WASI_FILETYPE_BLOCK_DEVICE:
        *mode = S_BLOCK | 0660;
        return "block";
    case __WASI_FILETYPE_SOCKET_STREAM:
    case __WASI_FILETYPE_SOCKET_DGRAM:
        *mode = S_SOCKET | 0755;
        return "socket";
    default:
        *mode = 0;
        return "unknown";
    }
}

static JSValue stat_object(JSContext *ctx, const __wasi_filestat_t *stat)
{
    int mode;
    const char *type = type_name(stat->filetype, &mode);
    JSValue result = JS_NewObject(ctx);
    JS_SetPropertyStr(ctx, result, "type", JS_NewString(ctx, type));
    JS_SetPropertyStr(ctx, result, "size", JS_NewInt64(ctx, stat->size));
    JS_SetPropertyStr(ctx, result, "mode", JS_NewInt32(ctx, mode));
    JS_SetPropertyStr(ctx, result, "ino", JS_NewFloat64(ctx, stat->ino));
    JS_SetPropertyStr(ctx, result, "dev", JS_NewFloat64(ctx, stat->dev));
    JS_SetPropertyStr(ctx, result, "nlink", JS_NewFloat64(ctx, stat->nlink));
    JS_SetPropertyStr(ctx, result, "atimeMs", JS_NewFloat64(ctx, stat->atim / 1e6));
    JS_SetPropertyStr(ctx, result, "mtimeMs", JS_NewFloat64(ctx, stat->mtim / 1e6));
    JS_SetPropertyStr(ctx, result, "ctimeMs", JS_NewFloat64(ctx, stat->ctim / 1e6));
    return result;
}

static JSValue file_fstat(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    __wasi_filestat_t stat;
    if (JS_ToInt32(ctx, &fd, argv[0]))
        return JS_EXCEPTION;
    int error = __wasi_fd_filestat_get(fd, &stat);
    return error ? throw_system(ctx, error, "fstat", NULL, NULL) : stat_object(ctx, &stat);
}

enum { STAT, LSTAT, STAT_TYPE };

static JSValue file_stat(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv, int which)
{
    __wasi_filestat_t stat;
    int mode;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = __wasi_path_filestat_get(ROOT, which == LSTAT ? 0 : FOLLOW, below(path), &stat);
    JSValue result;
    if (which == STAT_TYPE)
        result = error ? JS_NULL : JS_NewString(ctx, type_name(stat.filetype, &mode));
    else
        result = error ? throw_system(ctx, error, which == STAT ? "stat" : "lstat", path, NULL) : stat_object(ctx, &stat);
    JS_FreeCString(ctx, path);
    return result;
}

static JSValue file_readlink(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    uint8_t target[4096];
    __wasi_size_t length;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = __wasi_path_readlink(ROOT, below(path), target, sizeof target, &length);
    JSValue result = error ? throw_system(ctx, error, "readlink", path, NULL)
                           : JS_NewStringLen(ctx, (const char *)target, length);
    JS_FreeCString(ctx, path);
    return result;
}

// Converts milliseconds to WASI's nanoseconds.
static bool time_of(JSContext *ctx, __wasi_timestamp_t *time, JSValueConst value)
{
    double ms;
    if (JS_ToFloat64(ctx, &ms, value))
        return false;
    *time = isfinite(ms) && ms > 0 ? (__wasi_timestamp_t)(ms * 1e6) : 0;
    return true;
}

#define BOTH_TIMES (__WASI_FSTFLAGS_ATIM | __WASI_FSTFLAGS_MTIM)

static JSValue file_utimes(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    __wasi_timestamp_t access, change;
    if (!time_of(ctx, &access, argv[1]) || !time_of(ctx, &change, argv[2]))
        return JS_EXCEPTION;
    bool follow = argc < 4 || JS_ToBool(ctx, argv[3]) > 0;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = __wasi_path_filestat_set_times(ROOT, follow ? FOLLOW : 0, below(path), access, change, BOTH_TIMES);
    JSValue result = error ? throw_system(ctx, error, follow ? "utime" : "lutime", path, NULL) : JS_UNDEFINED;
    JS_FreeCString(ctx, path);
    return result;
}

static JSValue file_futimes(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    int fd;
    __wasi_timestamp_t access, change;
    if (JS_ToInt32(ctx, &fd, argv[0]) || !time_of(ctx, &access, argv[1]) || !time_of(ctx, &change, argv[2]))
        return JS_EXCEPTION;
    int error = __wasi_fd_filestat_set_times(fd, access, change, BOTH_TIMES);
    return error ? throw_system(ctx, error, "futime", NULL, NULL) : JS_UNDEFINED;
}

static JSValue file_read_file(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    __wasi_fd_t fd;
    __wasi_filestat_t stat = {0};
    size_t size, length = 0;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = open_path(path, 0, &fd);
    if (error) {
        JSValue thrown = throw_system(ctx, error, "open", path, NULL);
        JS_FreeCString(ctx, path);
        return thrown;
    }
    JS_FreeCString(ctx, path);
    error = __wasi_fd_filestat_get(fd, &stat);
    if (!error && stat.filetype == __WASI_FILETYPE_DIRECTORY)
        error = __WASI_ERRNO_ISDIR;
    // One byte more than the size, so that the end is found without growing the buffer.
    size = !error && stat.size < INT32_MAX ? (size_t)stat.size + 1 : 4096;
    uint8_t *bytes = js_malloc(ctx, size);
    while (bytes && !error) {
        __wasi_size_t count = 0;
        if (length == size) {
            uint8_t *more = js_realloc(ctx, bytes, size *= 2);
            if (!more)
                js_free(ctx, bytes);
            bytes = more;
            continue;
        }
        __wasi_iovec_t in = {bytes + length, size - length};
        error = __wasi_fd_read(fd, &in, 1, &count);
        length += count;
        if (count == 0)
            break;
    }
    (void)__wasi_fd_close(fd);
    if (!bytes)
        return JS_EXCEPTION;
    if (error) {
        js_free(ctx, bytes);
        return throw_system(ctx, error, "read", NULL, NULL);
    }
    return bytes_adopt(ctx, bytes, length);
}

struct entry {
    char *name;
    __wasi_filetype_t type;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

struct listing {
    struct entry *entries;
    size_t count, size;
};

static int add_entry(struct listing *list, const uint8_t *name, size_t length, __wasi_filetype_t type)
{
    if (list->count == list->size) {
        size_t size = list->size ? list->size * 2 : 32;
        struct entry *entries = realloc(list->entries, size * sizeof *entries);
        if (!entries)
            return __WASI_ERRNO_NOMEM;
        list->entries = entries;
        list->size = size;
    }
    char *copy = malloc(length + 1);
    if (!copy)
        return __WASI_ERRNO_NOMEM;
    memcpy(copy, name, length);
    copy[length] = 0;
    list->entries[list->count++] = (struct entry){copy, type};
    return 0;
}

static int list_directory(__wasi_fd_t fd, struct listing *list)
{
    // Larger than any single entry.
    static const size_t BUFFER_SIZE = 8192;
    uint8_t *buffer = malloc(BUFFER_SIZE);
    __wasi_dircookie_t cookie = 0;
    __wasi_size_t used = BUFFER_SIZE;
    int error = buffer ? 0 : __WASI_ERRNO_NOMEM;
    // A result that does not fill the buffer is the last one.
    while (!error && used == BUFFER_SIZE) {
        error = __wasi_fd_readdir(fd, buffer, BUFFER_SIZE, cookie, &used);
        __wasi_dirent_t head;
        for (size_t at = 0; !error && at + sizeof head <= used; at += sizeof head + head.d_namlen) {
            memcpy(&head, buffer + at, sizeof head);
            const uint8_t *name = buffer + at + sizeof head;
            if (at + sizeof head + head.d_namlen > used)
                break;
            cookie = head.d_next;
            bool dots = name[0] == '.' && (head.d_namlen == 1 || (head.d_namlen == 2 && name[1] == '.'));
            if (!dots)
                error = add_entry(list, name, head.d_namlen, head.d_type);
        }
    }
    free(buffer);
    return error;
}

static JSValue file_readdir(JSContext *ctx, JSValueConst self, int argc, JSValueConst *argv)
{
    __wasi_fd_t fd;
    struct listing list = {0};
    int mode;
    const char *path = JS_ToCString(ctx, argv[0]);
    if (!path)
        return JS_EXCEPTION;
    int error = open_path(path, O_DIRECTORY_ONLY, &fd);
    if (!error) {
        error = list_directory(fd, &list);
        (void)__wasi_fd_close(fd);
    }
    JSValue result = error ? throw_system(ctx, error, "scandir", path, NULL) : JS_NewArray(ctx);
    JS_FreeCString(ctx, path);
    if (!error)
        qsort(list.entries, list.count, sizeof *list.entries, by_name);
    for (size_t i = 0; i < list.count; i++) {
        if (!JS_IsException(result)) {
            JSValue entry = JS_NewObject(ctx);
            JS_SetPropertyStr(ctx, entry, "name", JS_NewString(ctx, list.entries[i].name));
            JS_SetPropertyStr(ctx, entry, "type", JS_NewString(ctx, type_name(list.entries[i].type, &mode)));
            if (JS_SetPropertyUint32(ctx, result, i, entry) < 0) {
                JS_FreeValue(ctx, result);
                result = JS_EXCEPTION;
            }
        }
        free(list.entries[i].name);
    }
    free(list.entries);
    return result;
}

static const JSCFunctionListEntry FUNCTIONS[] = {
    JS_CFUNC_DEF("open", 3, file_open),
    JS_CFUNC_MAGIC_DEF("close", 1, file_fd, FD_CLOSE),
    JS_CFUNC_MAGIC_DEF("fsync", 1, file_fd, FD_SYNC),
    JS_CFUNC_MAGIC_DEF("fdatasync", 1, file_fd, FD_DATASYNC),
    JS_CFUNC_DEF("ftruncate", 2, file_ftruncate),
    JS_CFUNC_DEF("truncate", 2, file_truncate),
    JS_CFUNC_DEF("seek", 3, file_seek),
    JS_CFUNC_DEF("fstat", 1, file_fstat),
    JS_CFUNC_MAGIC_DEF("stat", 1, file_stat, STAT),
    JS_CFUNC_MAGIC_DEF("lstat", 1, file_stat, LSTAT),
    JS_CFUNC_MAGIC_DEF("statType", 1, file_stat, STAT_TYPE),
    JS_CFUNC_DEF("readlink", 1, file_readlink),
    JS_CFUNC_DEF("utimes", 4, file_utimes),
    JS_CFUNC_DEF("futimes", 3, file_futimes),
    JS_CFUNC_DEF("readFile", 1, file_read_file),
    JS_CFUNC_DEF("readdir", 1, file_readdir),
    JS_CFUNC_DEF("mkdir", 2, file_mkdir),
    JS_CFUNC_DEF("rmdir", 1, file_rmdir),
    JS_CFUNC_DEF("unlink", 1, file_unlink),
    JS_CFUNC_DEF("rename", 2, file_rename),
    JS_CFUNC_DEF("link", 2, file_link),
    JS_CFUNC_DEF("symlink", 2, file_symlink),
};

void add_files(JSContext *ctx, JSValueConst native)
{
    JS_SetPropertyFunctionList(ctx, native, FUNCTIONS, COUNT(FUNCTIONS));
}
