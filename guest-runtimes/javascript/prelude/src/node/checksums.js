// Checksums at the end of compressed data: those of gzip and zlib.
const TABLE = new Int32Array(256).map((_, byte) => {
  for (let i = 0; i < 8; i++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

export function crc32(bytes, value = 0) {
  let crc = ~value;
  for (let i = 0; i < bytes.length; i++) crc = TABLE[(crc ^ bytes[i]) & 255] ^ (crc >>> 8);
  return ~crc >>> 0;
}

// Number of additions whose sums stay within 32 bits.
const RUN = 3800;

export function adler32(bytes, value = 1) {
  let low = value & 0xffff;
  let high = value >>> 16;
  for (let at = 0; at < bytes.length; ) {
    const end = Math.min(at + RUN, bytes.length);
    for (; at < end; at++) {
      low += bytes[at];
      high += low;
    }
    low %= 65521;
    high %= 65521;
  }
  return ((high << 16) | low) >>> 0;
}
