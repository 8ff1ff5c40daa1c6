//! Digests, and keys derived with them, by Zig's library: in JavaScript they take a hundred times as long.

const std = @import("std");
const hash = std.crypto.hash;

// A failed check of the library ends the guest without a text.
pub const panic = std.debug.no_panic;

/// The algorithms, in the order of the prelude's list.
const algorithms = .{
    hash.Md5,             hash.Sha1,            hash.sha2.Sha224,     hash.sha2.Sha256,
    hash.sha2.Sha384,     hash.sha2.Sha512,     hash.sha2.Sha512_256, hash.sha3.Sha3_224,
    hash.sha3.Sha3_256,   hash.sha3.Sha3_384,   hash.sha3.Sha3_512,
};

/// Returns the size of a state, or 0 for an unknown algorithm.
export fn digest_size(algorithm: u32) usize {
    inline for (algorithms, 0..) |Algorithm, i| {
        if (algorithm == i) return @sizeOf(Algorithm);
    }
    return 0;
}

/// Fills a new state. States have any alignment.
export fn digest_begin(algorithm: u32, state: [*]u8) void {
    inline for (algorithms, 0..) |Algorithm, i| {
        if (algorithm == i) {
            const begun = Algorithm.init(.{});
            @memcpy(state[0..@sizeOf(Algorithm)], std.mem.asBytes(&begun));
        }
    }
}

/// Adds bytes to a state.
export fn digest_update(algorithm: u32, state: [*]u8, bytes: [*]const u8, length: usize) void {
    inline for (algorithms, 0..) |Algorithm, i| {
        if (algorithm == i) {
            var current: Algorithm = undefined;
            @memcpy(std.mem.asBytes(&current), state[0..@sizeOf(Algorithm)]);
            current.update(bytes[0..length]);
            @memcpy(state[0..@sizeOf(Algorithm)], std.mem.asBytes(&current));
        }
    }
}

/// Writes the digest of a state, and returns its length. The state is unchanged. `out` has room for 64 bytes.
export fn digest_end(algorithm: u32, state: [*]const u8, out: [*]u8) usize {
    inline for (algorithms, 0..) |Algorithm, i| {
        if (algorithm == i) {
            var current: Algorithm = undefined;
            @memcpy(std.mem.asBytes(&current), state[0..@sizeOf(Algorithm)]);
            current.final(out[0..Algorithm.digest_length]);
            return Algorithm.digest_length;
        }
    }
    return 0;
}

/// Derives a key with PBKDF2. Returns false for parameters that it does not take.
export fn digest_pbkdf2(
    algorithm: u32,
    password: [*]const u8,
    password_length: usize,
    salt: [*]const u8,
    salt_length: usize,
    rounds: u32,
    out: [*]u8,
    out_length: usize,
) bool {
    inline for (algorithms, 0..) |Algorithm, i| {
        if (algorithm == i) {
            const Hmac = std.crypto.auth.hmac.Hmac(Algorithm);
            const key = out[0..out_length];
            std.crypto.pwhash.pbkdf2(key, password[0..password_length], salt[0..salt_length], rounds, Hmac) catch return false;
            return true;
        }
    }
    return false;
}

/// Derives a key with scrypt in a working memory. Returns false for parameters that it does not take, and for a memory that is too small.
export fn digest_scrypt(
    memory: [*]u8,
    memory_length: usize,
    password: [*]const u8,
    password_length: usize,
    salt: [*]const u8,
    salt_length: usize,
    log_cost: u32,
    block_size: u32,
    parallelization: u32,
    out: [*]u8,
    out_length: usize,
) bool {
    var allocator = std.heap.FixedBufferAllocator.init(memory[0..memory_length]);
    const params = std.crypto.pwhash.scrypt.Params{
        .ln = std.math.cast(u6, log_cost) orelse return false,
        .r = std.math.cast(u30, block_size) orelse return false,
        .p = std.math.cast(u30, parallelization) orelse return false,
    };
    const key = out[0..out_length];
    std.crypto.pwhash.scrypt.kdf(allocator.allocator(), key, password[0..password_length], salt[0..salt_length], params) catch return false;
    return true;
}
