'use strict'
// Takes the types out of modules as Node loads them, by asking the host: `agent ask` passes the question on and prints the
// answer, whose first line is JSON (`map` or `error`) and whose rest is the program.
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const Module = require('node:module')
const path = require('node:path')
const { fileURLToPath, pathToFileURL } = require('node:url')
const { compileFunction } = require('node:vm')

const TYPED = /\.([mc]?ts|tsx)$/

function strip(file) {
  const text = fs.readFileSync(file, 'utf8')
  const answer = execFileSync('/.codebox/agent', ['ask'], {
    input: JSON.stringify({ file, text }), env: {}, maxBuffer: 1 << 26, stdio: ['pipe', 'pipe', 'inherit'],
  }).toString()
  const end = answer.indexOf('\n')
  const head = JSON.parse(answer.slice(0, end))
  if (head.error) {
    const { message, line, column } = head.error
    const error = new SyntaxError(message)
    const at = line ? `${file}:${line}:${column}\n${text.split('\n')[line - 1] ?? ''}\n${' '.repeat(Math.max(column - 1, 0))}^\n` : `${file}\n`
    error.stack = `${at}\nSyntaxError: ${message}`
    throw error
  }
  const map = { version: 3, sources: [pathToFileURL(file).href], names: [], mappings: head.map, sourcesContent: [text] }
  return `${answer.slice(end + 1)}\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(JSON.stringify(map)).toString('base64')}`
}

// As Node does for JavaScript: what the name or the nearest package says, else what the text is.
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

// `./x` and `./x.js` may mean a file with types.
function* instead(specifier) {
  if (!/^\.{0,2}\//.test(specifier) && !specifier.startsWith('file:')) return
  if (/\.[mc]?js$/.test(specifier)) yield specifier.replace(/js$/, 'ts')
  yield `${specifier}.ts`
  yield `${specifier.replace(/\/$/, '')}/index.ts`
}

const isMissing = error => error.code === 'ERR_MODULE_NOT_FOUND' || error.code === 'MODULE_NOT_FOUND' || error.code === 'ERR_UNSUPPORTED_DIR_IMPORT'

if (Module.registerHooks) {
  Module.registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context)
      } catch (error) {
        if (!isMissing(error)) throw error
        for (const other of instead(specifier)) {
          try {
            return next(other, context)
          } catch (again) {
            if (!isMissing(again)) throw again
          }
        }
        throw error
      }
    },
    load(url, context, next) {
      if (!url.startsWith('file:') || !TYPED.test(new URL(url).pathname)) return next(url, context)
      const file = fileURLToPath(url)
      const source = strip(file)
      return { format: format(file, source), source, shortCircuit: true }
    },
  })
} else {
  for (const ending of ['.ts', '.cts', '.mts']) {
    Module._extensions[ending] = (module, file) => module._compile(strip(file), file)
  }
}
