// Which kind of module a file is.
import { native } from '../native.js';
import { packageType } from './files.js';

const HINT = /\b(?:import|export|await)\b/;
export const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];

// 'commonjs' or 'module' for text that nothing else tells about: CommonJS if it can be, as Node decides.
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

// 'module', 'commonjs', 'json', 'addon', 'wasm', 'text' when the text has to tell, or undefined for endings that Node does not know.
export function formatOfPath(path) {
  const format = ENDINGS[endingOf(path)];
  return format === 'by package' ? packageType(path) ?? 'text' : format;
}
