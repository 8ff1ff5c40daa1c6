// Runs one job: sets up the restored engine, starts the program, and ends it as Node would.
import { native } from './native.js';
import { inspect } from './inspect/index.js';
import { useInspect } from './node/errors.js';
import { connect as connectEvents } from './node/events.js';
import { connect as connectConsole, useColours } from './console.js';
import * as processPart from './process.js';
import * as loop from './loop/loop.js';
import * as timers from './loop/timers.js';
import { grant as grantNet } from './loop/net.js';
import { nextTick, onUncaught, runPromisesFirst, ticks } from './loop/ticks.js';
import * as webEvents from './web/events.js';
import * as performance from './web/performance.js';
import * as uncaught from './uncaught.js';
import * as cells from './cells.js';
import * as results from './display.js';
import * as tools from './tools.js';
import * as terminal from './terminal.js';
import { useCwd } from './node/path-posix.js';
import * as globals from './globals.js';
import { installNames } from './modules.js';
import * as cjs from './loader/cjs.js';
import * as esm from './loader/esm.js';
import { useBase, useMain } from './loader/resolve.js';
import { formatOfPath, formatOfText } from './loader/detect.js';
import { presume, realPath } from './loader/files.js';
import { remember } from './engine/sources.js';
import { strip } from './loader/texts.js';
import { showAsUrl } from './engine/frames.js';
import { dirname } from './node/path-posix.js';

const { process } = processPart;

useInspect(inspect);
useCwd(processPart.cwd);
connectEvents({ inspect, warn: (warning) => process.emitWarning(warning), nextTick });
timers.connect({ warn: (message, type) => process.emitWarning(message, type) });
connectConsole({
  streams: (toErr) => Object.getOwnPropertyDescriptor(process, toErr ? 'stderr' : 'stdout')?.value,
  warn: (message) => process.emitWarning(message),
});
onUncaught((error) => uncaught.uncaught(error));
webEvents.onUncaught((error) => {
  throw error;
});
webEvents.useNextTick(nextTick);
globals.install();

// Pending evaluation of the main module. At the end of the program it means that the module awaits something that never
// happens.
let evaluation;
let mainName;

// True in a session.
let inSession = false;

function startModule(id, text) {
  showAsUrl(id);
  useMain(id);
  runPromisesFirst();
  native.compileModule(id, text);
  const [promise] = native.importModule(id);
  awaitEvaluation(promise, () => {});
}

// Waits for the evaluation of the main module or of a cell.
function awaitEvaluation(promise, fulfilled) {
  native.markHandled(promise);
  const [state, value] = native.promiseState(promise);
  if (state === 'rejected') throw value;
  if (state === 'fulfilled') {
    fulfilled(value);
    return;
  }
  evaluation = promise;
  promise.then(
    (value) => {
      // A later cell may await something else.
      if (evaluation !== promise) return;
      evaluation = undefined;
      fulfilled(value);
    },
    (error) => {
      if (evaluation === promise) evaluation = undefined;
      uncaught.uncaught(error, 'unhandledRejection');
    },
  );
}

function startScript(job, file, text) {
  const module = new cjs.Module(file);
  cjs.begin(module, job.kind === 'file' ? '.' : file);
  if (job.kind === 'file') {
    module.filename = file;
    module.paths = cjs.Module._nodeModulePaths(dirname(file));
    cjs.Module._cache[file] = module;
    cjs.run(module, text, file);
    module.loaded = true;
    return;
  }
  installNames(text);
  module.filename = `${job.path0 || processPart.cwd()}/${file}`;
  module.path = job.path0 || processPart.cwd();
  module.paths = cjs.Module._nodeModulePaths(module.path);
  const fn = native.compileFunction(text, file, ['exports', 'require', 'module', '__filename', '__dirname']);
  fn.call(globalThis, module.exports, cjs.makeRequire(module), module, file, '.');
}

// Runs a cell of a session.
function runCell(job, source) {
  const { process } = processPart;
  if (!inSession) {
    beginProgram(job);
    useBase(processPart.cwd());
    presume(processPart.cwd());
    cells.begin();
    native.keepClock();
    inSession = true;
  } else {
    if (job.restored === true) grantNet(job.net === true);
    uncaught.begin();
    results.begin(job);
    tools.begin();
  }
  process.exitCode = undefined;
  evaluation = undefined;
  const written = native.utf8Decode(source, false);
  const file = job.file[0] === '<' || job.file[0] === '[' ? cells.nextName(job.number) : job.file;
  const stripped = job.typescript ? strip(file, written) : undefined;
  const text = stripped?.text ?? written;
  mainName = file;
  uncaught.setMain(file);
  remember(file, text, stripped?.map, written);
  installNames(text);
  const promise = cells.run(text, file, (changed) => remember(file, changed, stripped?.map, written));
  awaitEvaluation(promise, (ended) => cells.finish(ended?.value));
}

function beginProgram(job) {
  processPart.begin(job);
  loop.begin();
  terminal.begin(job);
  grantNet(job.net === true);
  performance.begin();
  uncaught.begin();
  results.begin(job);
  tools.begin();
  const { env } = process;
  useColours(env.FORCE_COLOR !== undefined ? env.FORCE_COLOR !== '0' && env.FORCE_COLOR !== 'false' : terminal.isTerminal(1) && terminal.colorDepth(env) > 2);
}

function main(head, source) {
  const job = JSON.parse(head);
  if (job.kind === 'close_caches') return;
  if (job.kind === 'cell') {
    runCell(job, source);
    return;
  }
  beginProgram(job);
  let text = native.utf8Decode(source, false);
  if (text.charCodeAt(0) === 0xfeff) text = text.slice(1);
  const base = job.path0 || job.cwd || '/work';
  useBase(base);
  presume(base);
  let file = job.kind === 'file' ? realPath(job.file) : job.file;
  let format = job.module === 'esm' ? 'module' : job.module === 'cjs' ? 'commonjs' : undefined;
  if (format === undefined && job.kind === 'file') {
    format = formatOfPath(file);
    if (format === 'json') {
      process.exitCode = 0;
      JSON.parse(text);
      return;
    }
    if (format !== 'module' && format !== 'commonjs') format = undefined;
  }
  uncaught.setMain(file);
  const written = text;
  // The job states if the program is TypeScript, since its file may have any name.
  const stripped = job.typescript ? strip(file, written) : undefined;
  text = stripped?.text ?? written;
  format ??= formatOfText(text, file);
  // Modules have absolute names, even if no such file exists.
  if (format === 'module' && file[0] !== '/') file = `${base}/${file}`;
  mainName = file;
  remember(file, text, stripped?.map, written);
  uncaught.setMain(file);
  if (format === 'module') startModule(file, text);
  else startScript(job, file, text);
}

// Ends a program whose module never finishes its evaluation; Node's exit code for that is 13.
function unfinished() {
  if (evaluation === undefined || process.exitCode !== undefined) return;
  native.write(2, `Warning: Detected unsettled top-level await at ${mainName[0] === '/' ? `file://${mainName}` : mainName}\n`);
  process.exitCode = 13;
}

export const hooks = {
  facts: { version: native.version },
  main,
  ticks,
  tick: loop.tick,
  beforeExit() {
    if (!inSession) processPart.emitBeforeExit();
  },
  exit() {
    unfinished();
    return inSession ? processPart.status() : processPart.emitExit();
  },
  status: processPart.status,
  uncaught: (error) => uncaught.uncaught(error),
  unhandled: uncaught.unhandled,
  handledLater: uncaught.handledLater,
  resolve: esm.resolve,
  load: esm.load,
  meta: esm.meta,
};
