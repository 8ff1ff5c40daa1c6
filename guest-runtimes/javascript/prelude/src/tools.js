// Host tools: the module `codebox`, whose `tools` are functions of the host with JSON in and out.
import { native } from './native.js';

const { parse, stringify } = JSON;

// First character of a request that calls a tool.
const TAG = '\u0004';

// Functions by name, which are created when a program first uses them.
let functions = { __proto__: null };
let descriptions;

export function begin() {
  functions = { __proto__: null };
  descriptions = undefined;
}

export class ToolError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}
Object.defineProperty(ToolError.prototype, 'name', { value: 'ToolError', writable: true, configurable: true, enumerable: false });

const textOf = (bytes) => native.utf8Decode(bytes, false);

function all() {
  if (descriptions === undefined) {
    descriptions = { __proto__: null };
    let answer = null;
    try {
      answer = native.host('{"op":"tools"}');
    } catch {
      // The job has no tools.
    }
    if (answer !== null) for (const description of parse(textOf(answer))) descriptions[description.name] = description;
  }
  return descriptions;
}

function call(name, input) {
  let answer = null;
  try {
    answer = native.host(`${TAG}${name}\0${stringify(input) ?? 'null'}`);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('host.call')) throw error;
  }
  if (answer === null) throw new ToolError('failed', `the host has not answered the call of the tool ${name}`);
  const value = parse(textOf(answer.subarray(1)));
  if (answer[0] === 1) return value;
  throw new ToolError(value.kind, value.message);
}

function functionOf(name) {
  const description = all()[name];
  if (description === undefined) return undefined;
  return (functions[name] ??= Object.defineProperties(async (input = {}) => call(name, input), {
    name: { value: name },
    description: { value: description.description, enumerable: true },
    inputSchema: { value: description.input, enumerable: true },
    outputSchema: { value: description.output, enumerable: true },
  }));
}

export const tools = new Proxy(Object.create(null), {
  get: (_, name) => (typeof name === 'string' ? functionOf(name) : undefined),
  has: (_, name) => name in all(),
  ownKeys: () => Object.keys(all()),
  getOwnPropertyDescriptor: (_, name) =>
    typeof name === 'string' && name in all() ? { value: functionOf(name), enumerable: true, configurable: true, writable: false } : undefined,
  set: () => false,
  defineProperty: () => false,
  deleteProperty: () => false,
});
