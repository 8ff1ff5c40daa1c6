'use strict'
// For a program in TypeScript, whose file may have no extension.
const { readFileSync } = require('node:fs')
const { compileFunction } = require('node:vm')

compileFunction(readFileSync(`${__dirname}/typescript.js`, 'utf8'), ['require', 'hasTypedEntry'], { filename: 'node:codebox/typescript' })(require, true)
