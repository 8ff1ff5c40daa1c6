// multipart/form-data: writes and reads forms.
import { native } from '../native.js';
import { Buffer } from '../node/buffer.js';
import { Blob, File } from './blob.js';

const LINE = native.utf8Encode('\r\n');
const HEAD_END = native.utf8Encode('\r\n\r\n');

const lines = (text) => text.replace(/\r\n?|\n/g, '\r\n');
const quoted = (text) => text.replace(/\n/g, '%0A').replace(/\r/g, '%0D').replace(/"/g, '%22');
const unquoted = (text) => text.replace(/%0A/gi, '\n').replace(/%0D/gi, '\r').replace(/%22/g, '"');

// Returns the form as a blob, whose type includes the boundary. A blob's type is in lower case, and so is the boundary.
export function written(form) {
  const boundary = `----formdata-codebox-${native.random(16).toHex()}`;
  const parts = [];
  for (const [name, value] of form) {
    const head = `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(lines(name))}"`;
    if (typeof value === 'string') parts.push(`${head}\r\n\r\n${lines(value)}\r\n`);
    else {
      const filename = value.name === '' ? '' : `; filename="${quoted(value.name)}"`;
      parts.push(`${head}${filename}\r\nContent-Type: ${value.type || 'application/octet-stream'}\r\n\r\n`, value, LINE);
    }
  }
  parts.push(`--${boundary}--\r\n`);
  return new Blob(parts, { type: `multipart/form-data; boundary=${boundary}` });
}

const FIELD = /^[ \t]*([\w!#$%&'*+\-.^`|~]+)[ \t]*:[ \t]*([^]*)$/;
const DISPOSITION = /^form-data; name="([^"]*)"(?:; filename\*?="([^"]*)")?$/;

// Returns the fields of a part's head, or null if it is invalid.
function headOf(text) {
  const head = {};
  for (const line of text.split('\r\n')) {
    const [, name, value] = FIELD.exec(line) ?? [];
    if (name === undefined || /[\r\n]/.test(value)) return null;
    switch (name.toLowerCase()) {
      case 'content-disposition': {
        const disposition = DISPOSITION.exec(value);
        if (disposition === null) return null;
        head.name = unquoted(disposition[1]);
        head.filename = disposition[2] === undefined ? undefined : unquoted(disposition[2]);
        break;
      }
      case 'content-type': head.type = value.trimEnd(); break;
      case 'content-transfer-encoding': head.encoding = value.trimEnd(); break;
    }
  }
  return head.name === undefined ? null : head;
}

const text = (bytes) => native.utf8Decode(bytes, false).replace(/^\ufeff/, '');

function valueOf({ filename, type = 'text/plain', encoding }, content) {
  const bytes = encoding === 'base64' ? Buffer.from(native.latin1Decode(content), 'base64') : content;
  return filename === undefined ? text(bytes) : new File([bytes], filename, { type });
}

const startsWith = (bytes, at, needle) => native.compare(bytes.subarray(at, at + needle.length), needle) === 0;

// Returns the names and values of a form with this boundary, or null if it is invalid. As in Node, only empty lines may
// precede and follow it.
export function read(bytes, boundary) {
  const between = native.utf8Encode(`\r\n--${boundary}`);
  const first = between.subarray(LINE.length);
  let at = 0;
  let end = bytes.length;
  while (startsWith(bytes, at, LINE)) at += LINE.length;
  while (end - LINE.length >= at && startsWith(bytes, end - LINE.length, LINE)) end -= LINE.length;
  const all = bytes.subarray(0, end);
  if (!startsWith(all, at, first)) return null;
  at += first.length;
  const entries = [];
  for (;;) {
    const rest = native.latin1Decode(all.subarray(at, at + 3));
    if (rest === '--') return entries;
    if (!rest.startsWith('\r\n')) return null;
    const headEnd = native.indexOf(all, HEAD_END, at + LINE.length);
    if (headEnd < 0) return null;
    const head = headOf(text(all.subarray(at + LINE.length, headEnd)));
    const from = headEnd + HEAD_END.length;
    const to = native.indexOf(all, between, from);
    if (head === null || to < 0) return null;
    entries.push([head.name, valueOf(head, all.subarray(from, to))]);
    at = to + between.length;
  }
}
