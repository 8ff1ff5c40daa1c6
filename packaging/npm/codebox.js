#!/usr/bin/env node
// Starts the program in the package of this system.
'use strict';

const { spawn } = require('node:child_process');
const os = require('node:os');
const path = require('node:path');

const name = `@codebox/${process.platform}-${process.arch}`;

function programPath() {
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), 'bin', 'codebox');
  } catch {
    const reason = `${name} is not installed; install codebox again without --omit=optional, or build it from source`;
    console.error(`codebox: no program for ${process.platform} on ${process.arch}: ${reason}`);
    process.exit(125);
  }
}

const program = programPath();
const args = process.argv.slice(2);

// Replaces this process where Node can, which leaves signals and job control to the system.
if (typeof process.execve === 'function') {
  process.removeAllListeners('warning');
  process.on('warning', () => {});
  process.execve(program, ['codebox', ...args], process.env);
}

const child = spawn(program, args, { stdio: 'inherit', argv0: 'codebox' });
// A terminal sends its signals to the child as well, which a second one does not disturb.
for (const signal of ['SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => child.kill(signal));
}
child.on('error', (error) => {
  console.error(`codebox: cannot start ${program}: ${error.message}`);
  process.exit(125);
});
child.on('exit', (status, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // Reached if the signal does not end this process.
    process.exit(128 + os.constants.signals[signal]);
  }
  process.exit(status);
});
