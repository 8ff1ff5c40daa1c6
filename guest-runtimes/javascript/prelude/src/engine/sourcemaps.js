// Maps positions in compiled TypeScript to positions in the original text.
import { decode } from '@jridgewell/sourcemap-codec';
import { mapOf } from './sources.js';

// Returns the original position. Lines and columns are counted from 1.
export function originalPosition(file, line, column) {
  const map = mapOf(file);
  if (!map) return [line, column];
  map.decoded ??= decode(map.mappings);
  const segments = map.decoded[line - 1];
  let found;
  if (segments) {
    for (const segment of segments) {
      if (segment[0] > column - 1) break;
      if (segment.length > 1) found = segment;
    }
    found ??= segments.find((segment) => segment.length > 1);
  }
  return found ? [found[2] + 1, found[3] + 1] : [line, column];
}
