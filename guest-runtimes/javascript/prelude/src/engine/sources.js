// The text of each file that the engine compiled, for messages that quote it, and the source maps of TypeScript files.
import { SafeMap, SafeSet } from './uncurry.js';

const texts = new SafeMap();
const maps = new SafeMap();

export function remember(file, text, mappings, original) {
  texts.set(file, text);
  if (mappings) maps.set(file, { mappings, decoded: null, original });
}

export const allTexts = () => texts.values();

// CommonJS files that ES modules import.
const commonjs = new SafeSet();
export const noteCommonJs = (file) => commonjs.add(file);
export const isCommonJs = (file) => commonjs.has(file);

export const textOf = (file) => texts.get(file);
export const mapOf = (file) => maps.get(file);

// Returns the original text, before compilation.
export const originalOf = (file) => maps.get(file)?.original ?? texts.get(file);

export function lineOf(text, number) {
  let start = 0;
  for (let line = 1; line < number; line++) {
    start = text.indexOf('\n', start) + 1;
    if (start === 0) return undefined;
  }
  const end = text.indexOf('\n', start);
  const line = end < 0 ? text.slice(start) : text.slice(start, end);
  return line.endsWith('\r') ? line.slice(0, -1) : line;
}

export function offsetOf(text, number, column) {
  let start = 0;
  for (let line = 1; line < number; line++) {
    start = text.indexOf('\n', start) + 1;
    if (start === 0) return -1;
  }
  return start + column - 1;
}

// Returns the line and column of an offset that is near line `line`.
export function positionOf(text, at, line) {
  const before = text.lastIndexOf('\n', at - 1);
  let lines = 0;
  const known = offsetOf(text, line, 1);
  for (let i = at; i < known; i++) if (text[i] === '\n') lines++;
  return [line - lines, at - before];
}
