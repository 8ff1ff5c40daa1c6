// Node's modules by name. A module that is required inside a function is created when a program first uses it.
import { CODEBOX, define, builtin, isBuiltin, nameOf, namespaceOf } from './loader/builtins.js';
import { process, lazily } from './process.js';
import { globalConsole } from './console.js';
import fs, { promises as fsPromises, useStreams } from './node/fs.js';
import path, { posix, win32 } from './node/path.js';
import events from './node/events.js';
import util, { types } from './node/util.js';
import * as bufferPart from './node/buffer.js';
import url from './node/url.js';
import os from './node/os.js';
import timers, { promises as timersPromises } from './node/timers.js';
import querystring from './node/querystring.js';
import { Module } from './loader/cjs.js';
import { Blob, File, blobAt } from './web/blob.js';
import { web } from './web/all-streams.js';
import * as messages from './web/messages.js';
import { useHashes } from './web/crypto.js';
import asyncHooks from './node/async_hooks.js';
import { ToolError, tools } from './tools.js';

const smallModules = () => require('./node/small-modules.js');
const unsupported = () => require('./node/unsupported.js');
const stream = () => require('./node/stream.js').default;
const readline = () => require('./node/readline.js');

useStreams(() => require('./node/fs-streams.js'));
// The streams are created with the image as well, and installed on first access.
const stdio = require('./stdio.js');
const standard = { stdin: stdio.makeStdin(), stdout: stdio.makeOutput(1), stderr: stdio.makeOutput(2) };
for (const name of Object.keys(standard)) lazily(name, () => standard[name]);
useHashes(() => require('./node/crypto.js').default);

const buffer = { ...bufferPart, Blob, File, resolveObjectURL: (url) => blobAt(`${url}`) };
for (const inner of ['wrap', 'encode', 'decode', 'utf16Decode', 'normalizeEncoding']) delete buffer[inner];
Object.defineProperty(buffer, 'INSPECT_MAX_BYTES', { value: 50, writable: true, enumerable: true, configurable: true });

const once = (make) => {
  let made;
  return () => (made ??= make());
};
const net = once(() => unsupported().net());

const MODULES = {
  assert: () => require('./node/assert.js').default,
  'assert/strict': () => require('./node/assert.js').default.strict,
  async_hooks: () => asyncHooks,
  buffer: () => buffer,
  child_process: () => unsupported().childProcess(),
  cluster: () => unsupported().cluster(),
  console: () => globalConsole,
  constants: () => smallModules().constants(),
  crypto: () => require('./node/crypto.js').default,
  dgram: () => unsupported().dgram(),
  diagnostics_channel: () => smallModules().diagnosticsChannel(),
  dns: () => unsupported().dns(),
  'dns/promises': () => builtin('dns').promises,
  domain: () => smallModules().domain(),
  events: () => events,
  fs: () => fs,
  'fs/promises': () => fsPromises,
  http: () => unsupported().http(net(), false),
  http2: () => unsupported().http2(),
  https: () => unsupported().http(net(), true),
  inspector: () => smallModules().inspector(),
  'inspector/promises': () => smallModules().inspector(),
  module: () => Module,
  net,
  os: () => os,
  path: () => path,
  'path/posix': () => posix,
  'path/win32': () => win32,
  perf_hooks: () => smallModules().perfHooks(),
  process: () => process,
  punycode: () => smallModules().punycode(),
  querystring: () => querystring,
  readline: () => readline().default,
  'readline/promises': () => readline().promises,
  repl: () => smallModules().repl(),
  stream,
  'stream/consumers': () => smallModules().consumers(),
  'stream/promises': () => stream().promises,
  'stream/web': () => web,
  string_decoder: () => require('./node/string_decoder.js').default,
  sys: () => util,
  test: () => require('./node/test.js').default,
  timers: () => timers,
  'timers/promises': () => timersPromises,
  tls: () => unsupported().tls(net()),
  trace_events: () => smallModules().traceEvents(),
  tty: () => smallModules().tty(),
  url: () => url,
  util: () => util,
  'util/types': () => types,
  v8: () => smallModules().v8(),
  vm: () => require('./node/vm.js').default,
  wasi: () => smallModules().wasi(),
  worker_threads: () => unsupported().workerThreads(messages),
  zlib: () => require('./node/zlib.js').default,
};
for (const [name, make] of Object.entries(MODULES)) define(name, make);
define(CODEBOX, () => ({ tools, ToolError }));

// Created with the image, since nearly every program uses these.
for (const name of ['fs', 'path', 'events', 'util', 'buffer', 'url', 'os', 'stream', 'readline', 'assert', 'fs/promises', 'process', 'timers', 'timers/promises', 'querystring', 'util/types', 'module', 'async_hooks']) namespaceOf(name);
// Creates the parts of `fs` that are created on first access.
void fs.ReadStream;

process.getBuiltinModule = function getBuiltinModule(id) {
  return isBuiltin(id) ? builtin(nameOf(id)) : undefined;
};

// As with node -e, a program without a file finds the modules as globals; those that its text mentions are installed.
const NAMED = Object.keys(MODULES).filter((name) => !name.includes('/') && name !== 'test' && !(name in globalThis) && name !== 'console' && name !== 'process' && name !== 'crypto');
const MENTIONED = new RegExp(`\\b(?:${NAMED.join('|')})\\b`, 'g');

export function installNames(text) {
  MENTIONED.lastIndex = 0;
  for (let found = MENTIONED.exec(text); found !== null; found = MENTIONED.exec(text)) {
    const [name] = found;
    if (name in globalThis) continue;
    Object.defineProperty(globalThis, name, {
      get: () => builtin(name),
      set(value) {
        Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: true });
      },
      configurable: true,
      enumerable: false,
    });
  }
}
