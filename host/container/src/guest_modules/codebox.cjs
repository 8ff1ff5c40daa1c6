'use strict'
// The module `codebox`: functions of the host with JSON in and out.
const { execFileSync } = require('node:child_process')
const { request } = require('./request.cjs')

const TAG = '\u0004'
let functions = { __proto__: null }
let descriptions

// The cells of a session may have different tools.
Object.defineProperty(globalThis, Symbol.for('codebox.renewTools'), {
  value: () => {
    functions = { __proto__: null }
    descriptions = undefined
  },
})

// The agent passes eight requests on at a time; two places are for the interpreter of a session.
let places = 6
const waiting = []

async function place() {
  if (places === 0) await new Promise(resolve => waiting.push(resolve))
  else places--
}

function free() {
  if (waiting.length > 0) waiting.shift()()
  else places++
}

class ToolError extends Error {
  constructor(kind, message) {
    super(message)
    this.kind = kind
  }
}
Object.defineProperty(ToolError.prototype, 'name', { value: 'ToolError', writable: true, configurable: true, enumerable: false })

// Returns the descriptions of the tools by their names.
function all() {
  if (descriptions === undefined) {
    descriptions = { __proto__: null }
    try {
      const list = execFileSync('/.codebox/agent', ['query'], { input: '{"op": "tools"}', env: {}, maxBuffer: 1 << 26 })
      for (const description of JSON.parse(list)) descriptions[description.name] = description
    } catch {
      // The job has no tools.
    }
  }
  return descriptions
}

async function call(name, input) {
  const text = `${TAG}${name}\0${JSON.stringify(input) ?? 'null'}`
  await place()
  const answer = await request(text).catch(() => Buffer.alloc(0)).finally(free)
  if (answer.length === 0) throw new ToolError('failed', `the host has not answered the call of the tool ${name}`)
  const value = JSON.parse(answer.subarray(1).toString())
  if (answer[0] === 1) return value
  throw new ToolError(value.kind, value.message)
}

function functionOf(name) {
  const description = all()[name]
  if (description === undefined) return undefined
  return (functions[name] ??= Object.defineProperties(async (input = {}) => call(name, input), {
    name: { value: name },
    description: { value: description.description, enumerable: true },
    inputSchema: { value: description.input, enumerable: true },
    outputSchema: { value: description.output, enumerable: true },
  }))
}

const tools = new Proxy(Object.create(null), {
  get: (_, name) => (typeof name === 'string' ? functionOf(name) : undefined),
  has: (_, name) => name in all(),
  ownKeys: () => Object.keys(all()),
  getOwnPropertyDescriptor: (_, name) =>
    typeof name === 'string' && name in all() ? { value: functionOf(name), enumerable: true, configurable: true, writable: false } : undefined,
  set: () => false,
  defineProperty: () => false,
  deleteProperty: () => false,
})

exports.tools = tools
exports.ToolError = ToolError
