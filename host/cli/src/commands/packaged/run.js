// codebox x {name}
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const root = '/node_modules/{package}';
const data = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const bins = typeof data.bin === 'string' ? { '{name}': data.bin } : data.bin ?? {};
const names = Object.keys(bins);
const isOnly = names.length === 1 && '{package}'.split('/').pop() === '{name}';
const bin = Object.hasOwn(bins, '{name}') ? bins['{name}'] : isOnly ? bins[names[0]] : undefined;
if (bin === undefined) {
  console.error(`{name}: no program of this name in the package; programs: ${names.join(', ') || 'none'}`);
  process.exit(127);
}
const file = join(root, bin);
process.argv.splice(1, 0, file);
if (/\.mjs$/.test(file) || (data.type === 'module' && !/\.cjs$/.test(file))) import(require('node:url').pathToFileURL(file).href);
else require('node:module')._load(file, null, true);
