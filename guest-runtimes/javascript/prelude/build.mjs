// Bundles the prelude into one classic script whose value is `(native) => hooks`, and collects the licences of its
// packages.
import { build } from 'esbuild';
import { readFile, writeFile, mkdir, rm, readdir } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, '..', 'prelude.js');
const own = (path) => join(here, 'src', path);

// Modules of Node and of other packages that packages import, with their replacements.
const ALIASES = {
  buffer: own('node/buffer.js'),
  'buffer/': own('node/buffer.js'),
  events: own('shims/events.js'),
  'abort-controller': own('web/abort.js'),
  'process/': own('shims/process.js'),
  process: own('shims/process.js'),
  'string_decoder/': own('node/string_decoder.js'),
  stream: own('node/stream.js'),
  'cjs-module-lexer/lexer.js': join(here, 'node_modules/cjs-module-lexer/lexer.js'),
};

// The inspect package is one bundle of numbered modules, some of which src/inspect/parts.js replaces.
const HOOK = ['t[r](i,i.exports,n)', '(replaced[r]||t[r])(i,i.exports,n)'];
// Parts in which the package follows a later Node than the one whose version programs see.
const EARLIER = [
  ['for(let n=0;n<s;n++)e=`${t.stylize("Proxy(","special")}${e}${t.stylize(")","special")}`;', ''],
  ['if(0!==s)for(let e=0;e<s;e++)u=`${t.stylize("Proxy(","special")}${u}${t.stylize(")","special")}`;', ''],
  ['`[${r}]`,"string")}: ${i}`', 'o===!0?`[${r}]`:r,"name")}: ${i}`'],
  ['<Inspection threw (${nr(t,i,n)})>', '<Inspection threw (${i.message})>'],
  ['{ [byteLength]: ', '{ byteLength: '],
  ['{const n=t.indexOf(e);if(-1===n)o+=`[${e}] `;else{const r=n+e.length;r!==t.length&&t[r]===t[r].toLowerCase()&&(o+=`[${e}] `)}}return o', '{t!==e&&(o+=`[${e}] `)}return o'],
  ['s=t.stylize(e,"symbol")}else', 's=`[${t.stylize(e,"symbol")}]`}else'],
];
const inspectParts = {
  name: 'inspect-parts',
  setup(plugin) {
    plugin.onLoad({ filter: /node-inspect-extracted[\\/]dist[\\/]inspect\.js$/ }, async ({ path }) => {
      const text = await readFile(path, 'utf8');
      for (const [number, sign] of [[499, 'isMapIterator'], [683, 'uncurryThis'], [727, 'getPromiseDetails'], [878, 'URL']]) {
        const at = text.indexOf(`${number}(t`) >= 0 ? text.indexOf(`${number}(t`) : text.indexOf(`${number}:`);
        if (at < 0 || !text.slice(at).includes(sign)) throw new Error(`the inspect package has no module ${number} with ${sign}`);
      }
      let patched = text;
      for (const [from, to] of [HOOK, ...EARLIER]) {
        if (patched.split(from).length !== 2) throw new Error(`the inspect package does not contain exactly once: ${from}`);
        patched = patched.replace(from, () => to);
      }
      return { contents: `const { replaced } = require(${JSON.stringify(own('inspect/parts.js'))});\n${patched}`, loader: 'js' };
    });
  },
};

const aliases = {
  name: 'aliases',
  setup(plugin) {
    plugin.onResolve({ filter: /^[a-z]/ }, ({ path }) => (Object.hasOwn(ALIASES, path) ? { path: ALIASES[path] } : undefined));
  },
};

const result = await build({
  entryPoints: [own('main.js')],
  bundle: true,
  write: false,
  format: 'iife',
  globalName: 'prelude',
  platform: 'neutral',
  mainFields: ['module', 'main'],
  conditions: ['import', 'module', 'default'],
  target: 'es2024',
  charset: 'utf8',
  legalComments: 'none',
  minifyWhitespace: true,
  minifySyntax: true,
  metafile: true,
  plugins: [aliases, inspectParts],
  logLevel: 'warning',
});

const text = result.outputFiles[0].text.trim();
await writeFile(out, `"use strict";\n(native) => {\n${text}\nreturn prelude.start(native);\n}\n`);

// Packages whose files are in the bundle, with their licences.
const packages = new Map();
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input.replace(/\\/g, '/'));
  if (found) packages.set(found[1], join(here, 'node_modules', found[1]));
}
const licences = join(here, 'LICENSES');
await rm(licences, { recursive: true, force: true });
await mkdir(licences);
for (const [name, folder] of [...packages].sort()) {
  const { version, license } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const file = (await readdir(folder)).find((each) => /^licen[cs]e/i.test(each));
  const body = file ? await readFile(join(folder, file), 'utf8') : `${license}\n`;
  if (!file) throw new Error(`${name} has no licence text`);
  await writeFile(join(licences, `${name.replace('/', '-')}.txt`), `${name} ${version} (${license})\n\n${body.replace(/\r\n/g, '\n').trimEnd()}\n`);
}
console.log(`${relative(process.cwd(), out)}: ${text.length} bytes, ${packages.size} packages: ${[...packages.keys()].sort().join(', ')}`);
