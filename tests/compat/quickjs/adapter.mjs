// Runs one of QuickJS-NG's own tests as that engine's test runner does: `adapter.mjs FILE`.
import { readFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { runInThisContext } from 'node:vm';
import { gc } from './libc.mjs';

const file = process.argv[2];
const url = new URL(file, import.meta.url);
const text = readFileSync(url, 'utf8');
const flags = /^flags: *\[(.*)\]$/m.exec(text)?.[1].split(/, */) ?? [];

globalThis.print = (...values) => console.log(...values.map((value) => (typeof value === 'string' ? value : inspect(value))));
globalThis.gc = gc;
if (!flags.includes('qjs:track-promise-rejections')) process.on('unhandledRejection', () => {});

// A module is what parses as one: here it is linked to one whose evaluation fails before the test's could begin.
async function parses() {
  const first = 'data:text/javascript,throw new Error("linked")';
  const both = `import ${JSON.stringify(first)}; import ${JSON.stringify(url)};`;
  try {
    await import(`data:text/javascript,${encodeURIComponent(both)}`);
  } catch (error) {
    return !(error instanceof SyntaxError);
  }
}

const isModule = flags.includes('qjs:no-detect-module') ? flags.includes('module') : await parses();
if (isModule) await import(url);
else runInThisContext(text, { filename: file });
