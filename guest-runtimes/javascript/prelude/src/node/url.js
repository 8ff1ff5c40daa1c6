// node:url, with the legacy functions, which parse URLs without validating them.
import { URL, URLSearchParams } from '../web/url.js';
import { fileURLToPath, pathToFileURL } from '../loader/urls.js';
import querystring from './querystring.js';
import { coded, invalidArgType, validateString } from './errors.js';

export function Url() {
  for (const name of ['protocol', 'slashes', 'auth', 'host', 'port', 'hostname', 'hash', 'search', 'query', 'pathname', 'path', 'href']) this[name] = null;
}

const SLASHED = new Set(['http', 'https', 'ftp', 'gopher', 'file', 'ws', 'wss']);
const UNWISE = /[\t\n\r "'<>\\^`{|}]/g;
const escapeUnwise = (text) => text.replace(UNWISE, (c) => encodeURIComponent(c).replace("'", '%27'));

export function parse(given, parseQuery = false, slashesDenoteHost = false) {
  if (given instanceof Url) return given;
  validateString(given, 'url');
  const url = new Url();
  let rest = given.trim();
  const question = rest.search(/[?#]/);
  rest = question < 0 ? rest.replace(/\\/g, '/') : rest.slice(0, question).replace(/\\/g, '/') + rest.slice(question);
  const scheme = /^([a-z0-9.+-]+):/i.exec(rest);
  if (scheme) {
    url.protocol = `${scheme[1].toLowerCase()}:`;
    rest = rest.slice(scheme[0].length);
  }
  const name = url.protocol?.slice(0, -1);
  if (rest.startsWith('//') && name !== 'javascript' && (slashesDenoteHost || scheme || /^\/\/[^@/]+@[^@/]+/.test(rest))) {
    url.slashes = true;
    rest = rest.slice(2);
  }
  if (name !== 'javascript' && url.slashes) {
    let end = rest.search(/[/?#]/);
    if (end < 0) end = rest.length;
    let authority = rest.slice(0, end);
    rest = rest.slice(end);
    const at = authority.lastIndexOf('@');
    if (at >= 0) {
      try {
        url.auth = decodeURIComponent(authority.slice(0, at));
      } catch {
        url.auth = authority.slice(0, at);
      }
      authority = authority.slice(at + 1);
    }
    const port = /:([0-9]*)$/.exec(authority);
    if (port) {
      if (port[1] !== '') url.port = port[1];
      authority = authority.slice(0, -port[0].length);
    }
    url.hostname = authority.toLowerCase();
    if (/[\s%<>^|]/.test(url.hostname)) throw Object.assign(coded(TypeError, 'ERR_INVALID_URL', 'Invalid URL'), { input: given });
    url.host = url.hostname + (url.port ? `:${url.port}` : '');
    if (url.hostname.startsWith('[') && url.hostname.endsWith(']')) url.hostname = url.hostname.slice(1, -1);
  } else if (name === 'mailto' && rest.includes('@')) {
    const end = rest.search(/[?#]/) < 0 ? rest.length : rest.search(/[?#]/);
    const address = rest.slice(0, end);
    rest = rest.slice(end);
    url.auth = address.slice(0, address.lastIndexOf('@'));
    url.host = url.hostname = address.slice(address.lastIndexOf('@') + 1);
  }
  if (name !== 'javascript') rest = escapeUnwise(rest);
  const hash = rest.indexOf('#');
  if (hash >= 0) {
    url.hash = rest.slice(hash);
    rest = rest.slice(0, hash);
  }
  const search = rest.indexOf('?');
  if (search >= 0) {
    url.search = rest.slice(search);
    url.query = rest.slice(search + 1);
    rest = rest.slice(0, search);
  } else if (parseQuery) {
    url.search = null;
    url.query = '';
  }
  if (parseQuery) url.query = querystring.parse(url.query);
  if (rest !== '') url.pathname = rest;
  if (url.slashes && SLASHED.has(name) && url.hostname && !url.pathname) url.pathname = '/';
  if (url.pathname || url.search) url.path = `${url.pathname ?? ''}${url.search ?? ''}`;
  url.href = format(url);
  return url;
}

export function format(url, options) {
  if (typeof url === 'string') url = parse(url);
  else if (url === null || typeof url !== 'object') throw invalidArgType('urlObject', ['Object', 'string'], url);
  else if (url instanceof URL) {
    const { fragment = true, search = true, auth = true } = options ?? {};
    let out = `${url.protocol}${url.host !== '' || url.protocol === 'file:' ? '//' : ''}`;
    if (auth && (url.username || url.password)) out += `${url.username}${url.password ? `:${url.password}` : ''}@`;
    out += url.host + url.pathname;
    if (search) out += url.search;
    if (fragment) out += url.hash;
    return out;
  }
  const auth = url.auth ? `${encodeURIComponent(url.auth).replace(/%3A/gi, ':')}@` : '';
  let protocol = url.protocol ?? '';
  let pathname = url.pathname ?? '';
  let hash = url.hash ?? '';
  let host = '';
  if (url.host) host = auth + url.host;
  else if (url.hostname) {
    host = auth + (url.hostname.includes(':') && !url.hostname.startsWith('[') ? `[${url.hostname}]` : url.hostname);
    if (url.port) host += `:${url.port}`;
  }
  const query = url.query !== null && typeof url.query === 'object' ? querystring.stringify(url.query) : '';
  let search = url.search ?? (query ? `?${query}` : '');
  if (protocol && !protocol.endsWith(':')) protocol += ':';
  pathname = pathname.replace(/[?#]/g, (c) => (c === '?' ? '%3F' : '%23'));
  if (url.slashes || (SLASHED.has(protocol.slice(0, -1)) && host !== '') || (protocol === 'file:' && url.slashes !== false)) {
    if (pathname && pathname[0] !== '/') pathname = `/${pathname}`;
    host = `//${host}`;
  }
  search = search.replace(/#/g, '%23');
  if (hash && hash[0] !== '#') hash = `#${hash}`;
  if (search && search[0] !== '?') search = `?${search}`;
  return protocol + host + pathname + search + hash;
}

export function resolve(from, to) {
  const base = new URL(from, 'http://resolve.invalid/');
  const target = new URL(to, base);
  if (target.host === 'resolve.invalid') {
    const path = target.pathname + target.search + target.hash;
    return from[0] === '/' || to[0] === '/' ? path : path.slice(1);
  }
  return target.href;
}
export const resolveObject = (from, to) => parse(resolve(from, to));

Url.prototype.parse = function (text, parseQuery, slashes) {
  Object.assign(this, parse(text, parseQuery, slashes));
};
Url.prototype.format = function () {
  return format(this);
};
Url.prototype.resolve = function (relative) {
  return resolve(this.href, relative);
};

export function urlToHttpOptions(url) {
  const options = {
    __proto__: null, protocol: url.protocol, hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'), hash: url.hash, search: url.search, pathname: url.pathname,
    path: `${url.pathname ?? ''}${url.search ?? ''}`, href: url.href,
  };
  if (url.port !== '') options.port = Number(url.port);
  if (url.username || url.password) options.auth = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return options;
}

export const domainToASCII = (domain) => {
  try {
    return new URL(`ws://${domain}`).hostname;
  } catch {
    return '';
  }
};
export const domainToUnicode = (domain) => domainToASCII(domain);

export { URL, URLSearchParams, fileURLToPath, pathToFileURL };
export default {
  Url, parse, resolve, resolveObject, format, URL, URLSearchParams, domainToASCII, domainToUnicode, pathToFileURL, fileURLToPath, urlToHttpOptions,
};
