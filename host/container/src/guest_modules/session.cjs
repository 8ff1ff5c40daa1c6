'use strict'
// Runs the cells of a session, which the host sends one after the other. V8 compiles them as its own console does: `await` is allowed at the top
// level, and a name may be declared again.
const fs = require('node:fs')
const inspector = require('node:inspector')
const Module = require('node:module')
const path = require('node:path')
const { pathToFileURL } = require('node:url')
const { inspect } = require('node:util')
const { request } = require('./request.cjs')

const TAG = '\u0003'
const LONGEST = 4 << 20

// The streams of the interpreter: a cell may close its own.
const streams = ['/proc/self/fd/1', '/proc/self/fd/2'].map(file => fs.openSync(file, 'a'))

const session = new inspector.Session()
session.connect()
const post = (method, options) => new Promise((resolve, reject) => session.post(method, options, (error, answer) => (error ? reject(error) : resolve(answer))))

// Results are sent in their order.
let sent = Promise.resolve()

// Adds a rich result.
function send(role, data, metadata = {}, id = undefined) {
  const texts = {}
  const documents = {}
  for (const [kind, form] of Object.entries(data)) {
    if (typeof form === 'string') texts[kind] = form
    else if (form instanceof ArrayBuffer) texts[kind] = Buffer.from(form).toString('base64')
    else if (ArrayBuffer.isView(form)) texts[kind] = Buffer.from(form.buffer, form.byteOffset, form.byteLength).toString('base64')
    else if (form !== undefined) documents[kind] = JSON.stringify(form) ?? 'null'
  }
  let text = JSON.stringify({ role, data: texts, json: documents, metadata: JSON.stringify(metadata), display_id: id })
  if (Buffer.byteLength(text) + 1 > LONGEST) text = JSON.stringify({ role, data: {}, json: {}, metadata: '{}', incomplete: true })
  sent = sent.then(() => request(TAG + text)).catch(() => {})
}

const mimeBundle = Symbol.for('Jupyter.display')

function formsOf(value) {
  const own = value?.[mimeBundle]
  const forms = typeof own === 'function' ? own.call(value) : undefined
  return { 'text/plain': inspect(value), ...forms }
}

function display(value, { raw = false, metadata, display_id: id, update = false } = {}) {
  if (update && id === undefined) throw new TypeError('"update" needs a "display_id"')
  send(update ? 'update' : 'display', raw ? value : formsOf(value), metadata, id === undefined ? undefined : String(id))
}

// Imports a module for a cell, relative to the working directory.
const base = pathToFileURL(path.join(process.cwd(), 'session.mjs')).href
if (Module.registerHooks) {
  const own = pathToFileURL(__filename).href
  Module.registerHooks({
    resolve: (specifier, context, next) => next(specifier, context.parentURL === own ? { ...context, parentURL: base } : context),
  })
}
const load = (specifier, options) => import(/^\.{0,2}\//.test(specifier) ? new URL(specifier, base).href : specifier, options)

const globals = { require: Module.createRequire(base), display, [Symbol.for('codebox.import')]: load }
for (const name of Reflect.ownKeys(globals)) {
  Object.defineProperty(globalThis, name, { value: globals[name], writable: true, configurable: true, enumerable: false })
}
process.argv.length = 1

const CALL = /('(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\[\s\S]|[^`\\])*`|\/\/[^\n]*|\/\*[\s\S]*?\*\/|[.\w$]import\b)|\bimport\s*\(/g

// Code of the console has no way to import, so a function does.
let withoutModules
const withImportCalls = text =>
  text.replace(CALL, (whole, other) => (other === undefined ? "globalThis[Symbol.for('codebox.import')](" : whole))

// Returns the argument of a call for a value of the inspector.
function argument({ objectId, unserializableValue, value }) {
  if (objectId !== undefined) return { objectId }
  return unserializableValue === undefined ? { value } : { unserializableValue }
}

// Passes a value of the inspector to a function of this file.
async function withValue(result, name, use) {
  const key = Symbol.for(`codebox.${name}`)
  Object.defineProperty(globalThis, key, { value: use, configurable: true, enumerable: false })
  const { result: scope } = await post('Runtime.evaluate', { expression: 'globalThis' })
  const functionDeclaration = `function (value) { globalThis[Symbol.for('codebox.${name}')](value) }`
  await post('Runtime.callFunctionOn', { functionDeclaration, objectId: scope.objectId, arguments: [argument(result)] })
}

// A name of a script has no spaces.
const named = text => text.replace(/codebox-cell-(\d+)/g, '<cell $1>')
// The frames of the console's own calls come last in a stack.
const withoutOwnFrames = text => named(text).split('\n').filter(line => !/^ {4}at .*(?:node:inspector|node:internal\/process\/task_queues|\.codebox\/hooks\/)|^ {4}at new Promise \(<anonymous>\)$/.test(line)).join('\n')

function show(error) {
  let text
  try {
    text = error instanceof Error ? withoutOwnFrames(inspect(error)) : `Uncaught ${inspect(error)}`
  } catch {
    text = 'Uncaught exception'
  }
  fs.writeSync(2, `${text}\n`)
}

let interrupt
process.on('SIGINT', () => interrupt?.())
// An error of a task that a cell has left behind does not end the session.
process.on('uncaughtException', show)
process.on('unhandledRejection', show)

class Exit extends Error {
  constructor(status) {
    super('exit')
    this.status = status
  }
}
let exiting
process.exit = status => {
  exiting = new Exit(Number(status ?? process.exitCode ?? 0))
  throw exiting
}

const evaluate = (text, name) =>
  post('Runtime.evaluate', { expression: `${withImportCalls(text)}\n//# sourceURL=${name}`, replMode: true, awaitPromise: true })

// Evaluates a cell. A text with static imports or exports does not compile; it is changed then, and only then.
async function evaluated(text, name) {
  const answer = await evaluate(text, name)
  const { className, description } = answer.exceptionDetails?.exception ?? {}
  const changed = withoutModules(text)
  const isCompiled = className !== 'SyntaxError' || description?.includes(name)
  return isCompiled || changed === text ? answer : evaluate(changed, name)
}

async function run(text, name) {
  exiting = undefined
  process.exitCode = undefined
  globalThis[Symbol.for('codebox.renewTools')]?.()
  const interrupted = new Promise(resolve => { interrupt = () => resolve(undefined) })
  const answer = await Promise.race([evaluated(text, name), interrupted])
  interrupt = undefined
  if (answer === undefined) return 130
  const { result, exceptionDetails } = answer
  let status = 0
  if (exceptionDetails) {
    await withValue(exceptionDetails.exception ?? result, 'error', error => {
      if (error === exiting) status = exiting.status & 0xff
      else {
        status = 1
        show(error)
      }
    })
  } else if (result.type !== 'undefined') {
    await withValue(result, 'value', value => send('value', formsOf(value)))
  }
  return status
}

// Waits until the output of a stream has been written, unless a cell has closed it.
const flushed = stream =>
  new Promise(resolve => {
    if (stream.destroyed || stream.writableEnded) resolve()
    else stream.write('', () => resolve())
  })

async function main() {
  ({ withoutModules } = await import(pathToFileURL(path.join(__dirname, 'imports.mjs')).href))
  for (let count = 1; ; count++) {
    const answer = (await request('{"op": "cell"}')).toString()
    const end = answer.indexOf('\n')
    const job = JSON.parse(answer.slice(0, end))
    const status = await run(answer.slice(end + 1), `codebox-cell-${job.number ?? count}`)
    await sent
    await Promise.all([process.stdout, process.stderr].map(flushed))
    for (const stream of streams) fs.writeSync(stream, job.mark)
    await request(JSON.stringify({ op: 'ended', status }))
  }
}

main()
