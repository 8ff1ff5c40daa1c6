'use strict'
// Strips the types from modules as Node loads them. `agent query` sends a query to the host and prints the answer: a line
// of JSON with `map` or `error`, then the program. This file is compiled under a name like those of Node's own modules,
// so that stack traces of a program do not show its path. Its parameter `hasTypedEntry` is true if the program itself is
// in TypeScript.
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')
const { fileURLToPath, pathToFileURL } = require('node:url')
const { compileFunction } = require('node:vm')

const TYPED = /\.([mc]?ts|[jt]sx)$/
const isFile = path => fs.statSync(path, { throwIfNoEntry: false })?.isFile() ?? false
// The module of the guest in WebAssembly, which Node cannot load before the program with its own loader.
const tsconfig = fs.readFileSync('/.codebox/hooks/tsconfig.js', 'utf8').replace(/^export /gm, '')
const { aliased, withPragmas } = compileFunction(`${tsconfig}\nreturn tsconfigOver`, [], { filename: 'node:codebox/tsconfig' })()({
  isFile, readText: file => fs.readFileSync(file, 'utf8'), normal: path.posix.normalize, dirname: path.posix.dirname, known: new Map(),
})
// True until the program's own file has been loaded, if it is in TypeScript.
let entry = hasTypedEntry

function strip(file) {
  // From the first such module on, so that a program without any has Node's own stack traces.
  process.setSourceMapsEnabled(true)
  const text = fs.readFileSync(file, 'utf8')
  const answer = execFileSync('/.codebox/agent', ['query'], {
    input: JSON.stringify({ file, text: withPragmas(file, text) }), env: {}, maxBuffer: 1 << 26, stdio: ['pipe', 'pipe', 'inherit'],
  }).toString()
  const end = answer.indexOf('\n')
  const head = JSON.parse(answer.slice(0, end))
  const isEntry = entry
  entry = false
  if (head.error) {
    const { message, line, column } = head.error
    const at = line ? `${file}:${line}:${column}\n${text.split('\n')[line - 1] ?? ''}\n${' '.repeat(Math.max(column - 1, 0))}^\n` : `${file}\n`
    const shown = `${at}\nSyntaxError: ${message}`
    if (isEntry) {
      // No program can catch the error, and throwing it would show this file in the stack trace.
      fs.writeSync(2, `${shown}\n`)
      process.exit(1)
    }
    // Node puts a stack without frames in brackets.
    throw Object.assign(new SyntaxError(message), { stack: line ? `${shown}\n    at ${file}:${line}:${column}` : shown })
  }
  const map = { version: 3, sources: [pathToFileURL(file).href], names: [], mappings: head.map, sourcesContent: [text] }
  return `${answer.slice(end + 1)}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}`
}

// Returns the module format by Node's rules for JavaScript: from the file name, the nearest package.json, or the text.
function format(file, code) {
  if (file.endsWith('.mts')) return 'module'
  if (file.endsWith('.cts')) return 'commonjs'
  for (let dir = path.dirname(file); ; dir = path.dirname(dir)) {
    let type
    try {
      type = JSON.parse(fs.readFileSync(path.join(dir, 'package.json'), 'utf8')).type
    } catch { }
    if (type === 'module' || type === 'commonjs') return type
    if (dir === path.dirname(dir)) break
  }
  try {
    compileFunction(code, ['exports', 'require', 'module', '__filename', '__dirname'])
    return 'commonjs'
  } catch {
    return 'module'
  }
}

// The specifiers `./x` and `./x.js` may refer to a TypeScript file.
const ENDINGS = ['.ts', '.tsx', '.mts', '.cts', '.jsx', '/index.ts', '/index.tsx', '/index.jsx']
const TYPED_FOR = { '.js': ['.ts', '.tsx'], '.mjs': ['.mts'], '.cjs': ['.cts'], '.jsx': ['.tsx'] }

function instead(specifier, parent) {
  if (!/^\.{0,2}\//.test(specifier) && !specifier.startsWith('file:')) return specifier
  let file
  try {
    file = fileURLToPath(new URL(specifier, parent ?? 'file:///work/'))
  } catch {
    return specifier
  }
  if (isFile(file)) return specifier
  const found = typedFor(file)
  return found ? pathToFileURL(found).href : specifier
}

function typedFor(file) {
  const ending = path.extname(file)
  const typed = (TYPED_FOR[ending] ?? []).map(other => file.slice(0, -ending.length) + other)
  return [...typed, ...ENDINGS.map(ending => file + ending)].find(isFile)
}

// Returns the file that an alias of tsconfig.json stands for in a TypeScript module.
function aliasOf(specifier, parent) {
  if (!parent?.startsWith('file:') || !TYPED.test(new URL(parent).pathname) || Module.isBuiltin(specifier)) return undefined
  if (/^([./#]|[a-z][a-z0-9+.-]*:)/i.test(specifier)) return undefined
  for (const file of aliased(specifier, path.dirname(fileURLToPath(parent)))) {
    const found = isFile(file) ? file : typedFor(file) ?? ['.js', '.mjs', '.cjs', '.json'].map(ending => file + ending).find(isFile)
    if (found) return pathToFileURL(found).href
  }
  return undefined
}

if (Module.registerHooks) {
  Module.registerHooks({
    // Node's own resolution comes first: a JavaScript file takes precedence over the TypeScript file beside it.
    resolve(specifier, context, next) {
      const alias = aliasOf(specifier, context.parentURL)
      if (alias) return next(context.conditions.includes('require') ? fileURLToPath(alias) : alias, context)
      try {
        return next(specifier, context)
      } catch (error) {
        const found = instead(specifier, context.parentURL)
        if (found === specifier) throw error
        return next(context.conditions.includes('require') ? fileURLToPath(found) : found, context)
      }
    },
    load(url, context, next) {
      const isTyped = url.startsWith('file:') && (TYPED.test(new URL(url).pathname) || (entry && !path.extname(new URL(url).pathname)))
      if (!isTyped) return next(url, context)
      const file = fileURLToPath(url)
      const source = strip(file)
      return { format: format(file, source), source, shortCircuit: true }
    },
  })
} else {
  for (const ending of ['.ts', '.cts', '.mts', '.tsx', '.jsx']) {
    Module._extensions[ending] = (module, file) => module._compile(strip(file), file)
  }
}
