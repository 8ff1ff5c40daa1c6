// util.types: tests by the engine's own class of an object, independently of its prototype.
import { native } from '../native.js';

const is = (name) => Object.defineProperty((value) => native.classOf(value) === name, 'name', { value: `is${name.replace(' ', '')}` });
const typedArrayTag = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get;
const tagOf = (value) => typedArrayTag.call(value);

export const isDate = is('Date');
export const isRegExp = is('RegExp');
export const isMap = is('Map');
export const isSet = is('Set');
export const isWeakMap = is('WeakMap');
export const isWeakSet = is('WeakSet');
export const isPromise = is('Promise');
export const isProxy = is('Proxy');
export const isArrayBuffer = is('ArrayBuffer');
export const isSharedArrayBuffer = is('SharedArrayBuffer');
export const isDataView = is('DataView');
export const isMapIterator = is('Map Iterator');
export const isSetIterator = is('Set Iterator');
export const isModuleNamespaceObject = Object.defineProperty(is('Module'), 'name', { value: 'isModuleNamespaceObject' });
export const isStringObject = Object.defineProperty(is('String'), 'name', { value: 'isStringObject' });
export const isNumberObject = Object.defineProperty(is('Number'), 'name', { value: 'isNumberObject' });
export const isBooleanObject = Object.defineProperty(is('Boolean'), 'name', { value: 'isBooleanObject' });
export const isBigIntObject = Object.defineProperty(is('BigInt'), 'name', { value: 'isBigIntObject' });
export const isSymbolObject = Object.defineProperty(is('Symbol'), 'name', { value: 'isSymbolObject' });
export const isNativeError = (value) => native.classOf(value) === 'Error';
export const isExternal = () => false;
export const isCryptoKey = () => false;
export const isKeyObject = () => false;
export const isEventTarget = () => false;

export function isArgumentsObject(value) {
  const kind = native.classOf(value);
  return kind === 'Arguments' || kind === 'MappedArguments' || kind === 'Mapped Arguments';
}

export function isGeneratorObject(value) {
  const kind = native.classOf(value);
  return kind === 'Generator' || kind === 'AsyncGenerator';
}

export const isAnyArrayBuffer = (value) => isArrayBuffer(value) || isSharedArrayBuffer(value);

export function isBoxedPrimitive(value) {
  switch (native.classOf(value)) {
    case 'String': case 'Number': case 'Boolean': case 'BigInt': case 'Symbol': return true;
    default: return false;
  }
}

export function isAsyncFunction(value) {
  const kind = typeof value === 'function' ? native.functionKind(value) : undefined;
  return kind === 'async' || kind === 'asyncgenerator';
}

export function isGeneratorFunction(value) {
  const kind = typeof value === 'function' ? native.functionKind(value) : undefined;
  return kind === 'generator' || kind === 'asyncgenerator';
}

export const isArrayBufferView = (value) => ArrayBuffer.isView(value);
export const isTypedArray = (value) => tagOf(value) !== undefined;
export const isUint8Array = (value) => tagOf(value) === 'Uint8Array';
export const isUint8ClampedArray = (value) => tagOf(value) === 'Uint8ClampedArray';
export const isUint16Array = (value) => tagOf(value) === 'Uint16Array';
export const isUint32Array = (value) => tagOf(value) === 'Uint32Array';
export const isInt8Array = (value) => tagOf(value) === 'Int8Array';
export const isInt16Array = (value) => tagOf(value) === 'Int16Array';
export const isInt32Array = (value) => tagOf(value) === 'Int32Array';
export const isFloat16Array = (value) => tagOf(value) === 'Float16Array';
export const isFloat32Array = (value) => tagOf(value) === 'Float32Array';
export const isFloat64Array = (value) => tagOf(value) === 'Float64Array';
export const isBigInt64Array = (value) => tagOf(value) === 'BigInt64Array';
export const isBigUint64Array = (value) => tagOf(value) === 'BigUint64Array';
