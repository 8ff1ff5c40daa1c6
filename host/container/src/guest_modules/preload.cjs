'use strict'
// Makes the module `codebox` known, after all files and packages of the program.
const Module = require('node:module')
const path = require('node:path')
const { pathToFileURL } = require('node:url')

const NAME = 'codebox'
const file = path.join(__dirname, 'codebox.cjs')

if (Module.registerHooks) {
  Module.registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context)
      } catch (error) {
        if (specifier !== NAME) throw error
        return { url: pathToFileURL(file).href, format: 'commonjs', shortCircuit: true }
      }
    },
  })
} else {
  const resolve = Module._resolveFilename
  Module._resolveFilename = function (request, ...rest) {
    try {
      return resolve.call(this, request, ...rest)
    } catch (error) {
      if (request !== NAME) throw error
      return file
    }
  }
  Module.register?.(pathToFileURL(path.join(__dirname, 'resolve.mjs')))
}
