'use strict'
// For a program in JavaScript, which can load modules in TypeScript.
const { readFileSync } = require('node:fs')
const { compileFunction } = require('node:vm')

compileFunction(readFileSync(`${__dirname}/typescript.js`, 'utf8'), ['require', 'hasTypedEntry'], { filename: 'node:codebox/typescript' })(require, false)
