// Text of modules. The host removes the types from TypeScript.
import { native } from '../native.js';
import { coded } from '../node/errors.js';
import { remember } from '../engine/sources.js';
import { placed } from '../engine/stacks.js';
import { readText, withPragmas } from './files.js';

export const isTypeScript = (path) => /\.([mc]?ts|[jt]sx)$/.test(path);

// Returns the JavaScript of a TypeScript text, and its source map.
export function strip(file, written) {
  let answer;
  try {
    answer = native.host(JSON.stringify({ op: 'strip', file, text: withPragmas(file, written) }));
  } catch {
    // The host rejects a request of this length.
    throw new SyntaxError(`${file} is too long to remove its types: split it, or compile it first`);
  }
  if (answer === null) throw coded(TypeError, 'ERR_UNKNOWN_FILE_EXTENSION', `cannot load ${file}: types cannot be removed from TypeScript here`);
  const line = answer.indexOf(10);
  const head = JSON.parse(native.utf8Decode(line < 0 ? answer : answer.subarray(0, line), false));
  if (head.error !== undefined) {
    // The message quotes the line.
    remember(file, written);
    throw placed(new SyntaxError(head.error.message), file, head.error.line, head.error.column);
  }
  return { text: line < 0 ? '' : native.utf8Decode(answer.subarray(line + 1), false), map: head.map };
}

// Returns the JavaScript of a file.
export function textOf(path) {
  const written = readText(path);
  if (!isTypeScript(path)) {
    remember(path, written);
    return written;
  }
  const { text, map } = strip(path, written);
  remember(path, text, map, written);
  return text;
}
