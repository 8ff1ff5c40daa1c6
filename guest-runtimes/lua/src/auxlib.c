// Lua's auxiliary library, with the error numbers that programs expect.
#define luaL_fileresult plain_fileresult
#include "lauxlib.c"
#undef luaL_fileresult

// Linux's error numbers by those of WASI. The others are rare and stay unchanged.
static const unsigned char LINUX[] = {
    [EACCES] = 13, [EAGAIN] = 11, [EBADF] = 9, [EBUSY] = 16, [EDOM] = 33, [EEXIST] = 17, [EFBIG] = 27, [EINTR] = 4,
    [EINVAL] = 22, [EIO] = 5, [EISDIR] = 21, [ELOOP] = 40, [EMFILE] = 24, [EMLINK] = 31, [ENAMETOOLONG] = 36,
    [ENFILE] = 23, [ENODEV] = 19, [ENOENT] = 2, [ENOMEM] = 12, [ENOSPC] = 28, [ENOSYS] = 38, [ENOTDIR] = 20,
    [ENOTEMPTY] = 39, [ENOTSUP] = 95, [ENOTTY] = 25, [ENXIO] = 6, [EPERM] = 1, [EPIPE] = 32, [ERANGE] = 34,
    [EROFS] = 30, [ESPIPE] = 29, [ETXTBSY] = 26, [EXDEV] = 18, [ENOTCAPABLE] = 13,
};

LUALIB_API int luaL_fileresult(lua_State *L, int stat, const char *fname)
{
    int results = plain_fileresult(L, stat, fname);
    lua_Integer number = results == 3 ? lua_tointeger(L, -1) : 0;
    if (number > 0 && number < (lua_Integer)sizeof LINUX && LINUX[number]) {
        lua_pushinteger(L, LINUX[number]);
        lua_replace(L, -2);
    }
    return results;
}
