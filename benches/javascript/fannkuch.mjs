// Fannkuch: the beginnings of all permutations of eight numbers are turned round until 0 comes first. Small integers in
// typed arrays.
import { measure } from './measure.mjs';

function fannkuch(size) {
  const permutation = Int32Array.from({ length: size }, (_, at) => at);
  const turned = new Int32Array(size);
  const counts = new Int32Array(size);
  let [most, checksum, sign] = [0, 0, 1];
  for (;;) {
    if (permutation[0] !== 0) {
      const flips = flipsOf(permutation, turned);
      if (flips > most) most = flips;
      checksum += sign * flips;
    }
    if (sign === 1) {
      const first = permutation[0];
      permutation[0] = permutation[1];
      permutation[1] = first;
    } else if (!advance(permutation, counts, size)) {
      return [checksum, most];
    }
    sign = -sign;
  }
}

function flipsOf(permutation, turned) {
  for (let at = 1; at < permutation.length; at++) turned[at] = permutation[at];
  let flips = 0;
  for (let first = permutation[0]; first !== 0; flips++) {
    const next = turned[first];
    turned[first] = first;
    for (let low = 1, high = first - 1; low < high; low++, high--) {
      const kept = turned[low];
      turned[low] = turned[high];
      turned[high] = kept;
    }
    first = next;
  }
  return flips;
}

function advance(permutation, counts, size) {
  const second = permutation[1];
  permutation[1] = permutation[2];
  permutation[2] = second;
  for (let length = 2; length < size; length++) {
    if (counts[length] < length) {
      counts[length]++;
      return true;
    }
    counts[length] = 0;
    if (length === size - 1) return false;
    const first = permutation[0];
    for (let at = 0; at <= length; at++) permutation[at] = permutation[at + 1];
    permutation[length + 1] = first;
  }
  return false;
}

const thrice = () => [fannkuch(8), fannkuch(8), fannkuch(8)].join(';');

measure('fannkuch', thrice, '1616,22;1616,22;1616,22');
