// The module `socket`: TCP connections to granted hosts, with the functions of LuaSocket that programs use most, and
// `starttls`.
#include <stdlib.h>
#include <string.h>

#include "guest.h"

#define CONNECTION "codebox.connection"

// Bytes that one call of the host receives.
#define CHUNK 65536

struct connection {
    bool open;
    codebox_guest_network_own_connection_t handle;
    bool limited;
    uint32_t timeout;
    // Received bytes that the program has not read.
    char *bytes;
    size_t from, to, capacity;
};

static struct connection *check(lua_State *L)
{
    return luaL_checkudata(L, 1, CONNECTION);
}

static codebox_guest_network_borrow_connection_t borrowed(struct connection *connection)
{
    return codebox_guest_network_borrow_connection(connection->handle);
}

static uint32_t *timeout_of(struct connection *connection)
{
    return connection->limited ? &connection->timeout : NULL;
}

static void release(struct connection *connection)
{
    if (connection->open)
        codebox_guest_network_connection_drop_own(connection->handle);
    connection->open = false;
    free(connection->bytes);
    connection->bytes = NULL;
    connection->from = connection->to = connection->capacity = 0;
}

// Pushes nil and the message of a failure, and frees the failure.
static int push_failure(lua_State *L, codebox_guest_network_failure_t *failure)
{
    luaL_pushfail(L);
    if (failure->kind == CODEBOX_GUEST_NETWORK_FAILURE_KIND_TIMEOUT)
        lua_pushliteral(L, "timeout");
    else
        lua_pushlstring(L, (const char *)failure->message.ptr, failure->message.len);
    codebox_guest_network_failure_free(failure);
    return 2;
}

static int push_closed(lua_State *L)
{
    luaL_pushfail(L);
    lua_pushliteral(L, "closed");
    return 2;
}

// socket.tcp()
static int tcp(lua_State *L)
{
    struct connection *connection = lua_newuserdatauv(L, sizeof *connection, 0);
    *connection = (struct connection){0};
    luaL_setmetatable(L, CONNECTION);
    return 1;
}

// connection:connect(host, port)
static int connection_connect(lua_State *L)
{
    struct connection *connection = check(L);
    runtime_string_t host = text_argument(L, 2);
    lua_Integer port = luaL_checkinteger(L, 3);
    luaL_argcheck(L, port > 0 && port <= 65535, 3, "port out of range");
    if (connection->open) {
        luaL_pushfail(L);
        lua_pushliteral(L, "already connected");
        return 2;
    }
    codebox_guest_network_failure_t failure;
    if (!codebox_guest_network_static_connection_open(&host, (uint16_t)port, timeout_of(connection), &connection->handle,
                                                      &failure))
        return push_failure(L, &failure);
    connection->open = true;
    lua_pushinteger(L, 1);
    return 1;
}

// socket.connect(host, port)
static int socket_connect(lua_State *L)
{
    lua_settop(L, 2);
    tcp(L);
    lua_insert(L, 1);
    int count = connection_connect(L);
    if (count == 1)
        lua_pushvalue(L, 1);
    return count;
}

// connection:starttls(name): TLS on an open connection, with a certificate for this name.
static int connection_starttls(lua_State *L)
{
    struct connection *connection = check(L);
    runtime_string_t name = text_argument(L, 2);
    if (!connection->open)
        return push_closed(L);
    codebox_guest_network_failure_t failure;
    if (!codebox_guest_network_method_connection_start_tls(borrowed(connection), &name, timeout_of(connection), &failure)) {
        release(connection);
        return push_failure(L, &failure);
    }
    lua_pushboolean(L, true);
    return 1;
}

// connection:send(data [, i [, j]]): the index of the last byte that was sent, or nil, a message and that index.
static int connection_send(lua_State *L)
{
    struct connection *connection = check(L);
    size_t length;
    const char *data = luaL_checklstring(L, 2, &length);
    lua_Integer first = luaL_optinteger(L, 3, 1), last = luaL_optinteger(L, 4, -1);
    if (first < 0)
        first += (lua_Integer)length + 1;
    if (last < 0)
        last += (lua_Integer)length + 1;
    if (first < 1)
        first = 1;
    if (last > (lua_Integer)length)
        last = (lua_Integer)length;
    lua_Integer sent = first - 1;
    while (sent < last) {
        if (!connection->open) {
            push_closed(L);
            lua_pushinteger(L, sent);
            return 3;
        }
        runtime_list_u8_t bytes = {(uint8_t *)data + sent, (size_t)(last - sent)};
        uint32_t count;
        codebox_guest_network_failure_t failure;
        if (!codebox_guest_network_method_connection_send(borrowed(connection), &bytes, timeout_of(connection), &count,
                                                          &failure)) {
            push_failure(L, &failure);
            lua_pushinteger(L, sent);
            return 3;
        }
        sent += count;
    }
    lua_pushinteger(L, sent);
    return 1;
}

enum received { RECEIVED, ENDED, FAILED };

// Appends received bytes to the buffer. After a failure, nil and its message are on the stack.
static enum received receive_more(lua_State *L, struct connection *connection)
{
    if (!connection->open)
        return ENDED;
    runtime_list_u8_t bytes;
    codebox_guest_network_failure_t failure;
    if (!codebox_guest_network_method_connection_receive(borrowed(connection), CHUNK, timeout_of(connection), &bytes,
                                                         &failure)) {
        push_failure(L, &failure);
        return FAILED;
    }
    size_t count = bytes.len;
    if (connection->to + count > connection->capacity) {
        size_t kept = connection->to - connection->from;
        size_t capacity = 2 * (kept + count);
        char *larger = malloc(capacity ? capacity : 1);
        if (!larger) {
            runtime_list_u8_free(&bytes);
            luaL_error(L, "not enough memory");
        }
        memcpy(larger, connection->bytes + connection->from, kept);
        free(connection->bytes);
        connection->bytes = larger;
        connection->from = 0;
        connection->to = kept;
        connection->capacity = capacity;
    }
    memcpy(connection->bytes + connection->to, bytes.ptr, count);
    connection->to += count;
    runtime_list_u8_free(&bytes);
    return count ? RECEIVED : ENDED;
}

static void push_buffered(lua_State *L, struct connection *connection, size_t length)
{
    lua_pushlstring(L, connection->bytes ? connection->bytes + connection->from : "", length);
    connection->from += length;
}

// Pushes a line without its end. Carriage returns are left out, as in LuaSocket.
static void push_line(lua_State *L, struct connection *connection, size_t length)
{
    luaL_Buffer line;
    luaL_buffinit(L, &line);
    const char *bytes = connection->bytes + connection->from;
    for (size_t at = 0; at < length; at++)
        if (bytes[at] != '\r')
            luaL_addchar(&line, bytes[at]);
    luaL_pushresult(&line);
    connection->from += length + 1;
}

// connection:receive([pattern]): "*l" a line, "*a" everything, a number that many bytes. After a failure nil, a message
// and the bytes that were received.
static int connection_receive(lua_State *L)
{
    struct connection *connection = check(L);
    bool all = false, line = false;
    size_t wanted = 0;
    if (lua_type(L, 2) == LUA_TNUMBER) {
        lua_Integer count = luaL_checkinteger(L, 2);
        luaL_argcheck(L, count >= 0, 2, "negative count");
        wanted = (size_t)count;
    } else {
        const char *pattern = luaL_optstring(L, 2, "*l");
        pattern += *pattern == '*';
        all = *pattern == 'a';
        line = *pattern == 'l';
        luaL_argcheck(L, all || line, 2, "invalid receive pattern");
    }
    size_t searched = 0;
    for (;;) {
        size_t buffered = connection->to - connection->from;
        if (line && buffered > searched) {
            const char *bytes = connection->bytes + connection->from;
            const char *end = memchr(bytes + searched, '\n', buffered - searched);
            if (end) {
                push_line(L, connection, (size_t)(end - bytes));
                return 1;
            }
            searched = buffered;
        } else if (!all && !line && buffered >= wanted) {
            push_buffered(L, connection, wanted);
            return 1;
        }
        switch (receive_more(L, connection)) {
        case RECEIVED:
            break;
        case ENDED:
            if (all) {
                push_buffered(L, connection, connection->to - connection->from);
                return 1;
            }
            push_closed(L);
            push_buffered(L, connection, connection->to - connection->from);
            return 3;
        case FAILED:
            push_buffered(L, connection, connection->to - connection->from);
            return 3;
        }
    }
}

// connection:settimeout([seconds]): the maximum duration of a call of the host.
static int connection_settimeout(lua_State *L)
{
    struct connection *connection = check(L);
    connection->limited = !lua_isnoneornil(L, 2) && luaL_checknumber(L, 2) >= 0;
    if (connection->limited) {
        lua_Number milliseconds = luaL_checknumber(L, 2) * 1000;
        connection->timeout = milliseconds < 4e9 ? (uint32_t)milliseconds : UINT32_MAX - 1;
    }
    lua_pushinteger(L, 1);
    return 1;
}

// connection:shutdown([mode]): ends the data that the program sends.
static int connection_shutdown(lua_State *L)
{
    struct connection *connection = check(L);
    if (!connection->open)
        return push_closed(L);
    codebox_guest_network_failure_t failure;
    if (!codebox_guest_network_method_connection_shut_down(borrowed(connection), &failure))
        return push_failure(L, &failure);
    lua_pushinteger(L, 1);
    return 1;
}

static int connection_close(lua_State *L)
{
    release(check(L));
    lua_pushinteger(L, 1);
    return 1;
}

static const luaL_Reg METHODS[] = {
    {"close", connection_close},           {"connect", connection_connect},   {"receive", connection_receive},
    {"send", connection_send},             {"settimeout", connection_settimeout}, {"shutdown", connection_shutdown},
    {"starttls", connection_starttls},     {"__gc", connection_close},        {"__close", connection_close},
    {NULL, NULL},
};

static const luaL_Reg FUNCTIONS[] = {{"connect", socket_connect}, {"tcp", tcp}, {NULL, NULL}};

static int load(lua_State *L)
{
    luaL_newmetatable(L, CONNECTION);
    luaL_setfuncs(L, METHODS, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_newlib(L, FUNCTIONS);
    return 1;
}

void library_socket(lua_State *L)
{
    lua_getglobal(L, LUA_LOADLIBNAME);
    lua_getfield(L, -1, "preload");
    lua_pushcfunction(L, load);
    lua_setfield(L, -2, "socket");
    lua_pop(L, 2);
}
