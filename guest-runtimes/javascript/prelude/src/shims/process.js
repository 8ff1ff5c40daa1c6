// The parts of process that packages use before process exists.
const { nextTick } = require('../loop/ticks.js');

module.exports = {
  nextTick,
  env: {},
  emitWarning: (...args) => globalThis.process.emitWarning(...args),
  get stdout() { return globalThis.process.stdout; },
  get stderr() { return globalThis.process.stderr; },
};
