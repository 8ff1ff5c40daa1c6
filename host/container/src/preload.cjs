'use strict'
const { readFileSync } = require('node:fs')
const { compileFunction } = require('node:vm')

compileFunction(readFileSync(`${__dirname}/typescript.js`, 'utf8'), ['require'], { filename: 'node:codebox/typescript' })(require)
