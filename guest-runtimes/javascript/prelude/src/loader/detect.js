// Determines the kind of module of a file.
import { native } from '../native.js';
import { packageType } from './files.js';

const HINT = /\b(?:import|export|await)\b/;
export const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];

// Returns 'commonjs' or 'module' for text without other evidence: CommonJS if it compiles as such, as in Node.
export function formatOfText(text, file) {
  if (!HINT.test(text)) return 'commonjs';
  try {
    native.compileFunction(text, file, PARAMETERS);
    return 'commonjs';
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return native.checkModule(text) ? 'module' : 'commonjs';
  }
}

const ENDINGS = {
  __proto__: null,
  '.mjs': 'module', '.mts': 'module', '.cjs': 'commonjs', '.cts': 'commonjs', '.json': 'json', '.node': 'addon', '.wasm': 'wasm',
  '.js': 'by package', '.ts': 'by package', '.tsx': 'by package', '.jsx': 'by package', '': 'by package',
};

export function endingOf(path) {
  const name = path.slice(path.lastIndexOf('/') + 1);
  const dot = name.lastIndexOf('.');
  return dot > 0 ? name.slice(dot) : '';
}

// Returns 'module', 'commonjs', 'json', 'addon', 'wasm', 'text' if the text decides, or undefined for extensions
// unknown to Node.
export function formatOfPath(path) {
  const format = ENDINGS[endingOf(path)];
  return format === 'by package' ? packageType(path) ?? 'text' : format;
}
