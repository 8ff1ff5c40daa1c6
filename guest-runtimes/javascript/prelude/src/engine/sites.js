// Properties of the engine's call sites, read independently of the methods that programs can see and change.
import { defineProperty, getPrototypeOf } from './uncurry.js';

const kFile = Symbol('file');
const kLine = Symbol('line');
const kColumn = Symbol('column');
const kName = Symbol('name');
const kFunction = Symbol('function');
const kNative = Symbol('native');
const kConstructor = Symbol('constructor');
const METHODS = [
  [kFile, 'getFileName'], [kLine, 'getLineNumber'], [kColumn, 'getColumnNumber'], [kName, 'getFunctionName'], [kFunction, 'getFunction'], [kNative, 'isNative'],
  [kConstructor, 'isConstructor'],
];

function learn(proto) {
  for (const [key, name] of METHODS) defineProperty(proto, key, { __proto__: null, value: proto[name], writable: false, configurable: false, enumerable: false });
}

// Learns the properties from one of the engine's sites, before programs see any. Returns the prototype of all sites.
export function learnSites(site) {
  const proto = getPrototypeOf(site);
  learn(proto);
  return proto;
}

// A position that the host found.
class Placed {
  #file;
  #line;
  #column;
  constructor(file, line, column) {
    this.#file = file;
    this.#line = line;
    this.#column = column;
  }
  getFileName() { return this.#file; }
  getLineNumber() { return this.#line; }
  getColumnNumber() { return this.#column; }
  getFunctionName() { return null; }
  getFunction() { return undefined; }
  isNative() { return false; }
  isConstructor() { return false; }
}
learn(Placed.prototype);
export const placedAt = (file, line, column) => new Placed(file, line, column);

export const fileOf = (site) => site[kFile]();
export const lineOf = (site) => site[kLine]();
export const columnOf = (site) => site[kColumn]();
export const nameOf = (site) => site[kName]();
export const functionOf = (site) => site[kFunction]();
export const isNative = (site) => site[kNative]();
export const isConstructor = (site) => site[kConstructor]();
