// Rich results: values in forms for programs and people, keyed by MIME type, as in the JavaScript kernels of Jupyter.
import { native } from './native.js';
import { inspect } from './inspect/index.js';
import { Buffer } from './node/buffer.js';
import { globalConsole } from './console.js';

const { stringify } = JSON;
const { entries } = Object;

// Name of the method by which a value gives its forms.
const FORMS = Symbol.for('Jupyter.display');

// First character of a request that has a rich result.
const TAG = '\u0003';

// True in a job whose results are collected.
let collects = false;

export function begin(job) {
  collects = job.results === true;
}

const isObject = (value) => value !== null && typeof value === 'object';

function formsOf(value, raw) {
  let forms = value;
  if (!raw) {
    try {
      forms = value?.[FORMS]?.();
    } catch {
      forms = undefined;
    }
  }
  const data = { __proto__: null };
  if (isObject(forms)) for (const [kind, form] of entries(forms)) data[kind] = form;
  if (!raw && data['text/plain'] === undefined) data['text/plain'] = inspect(value);
  return data;
}

function document(value) {
  try {
    return stringify(value) ?? 'null';
  } catch {
    return 'null';
  }
}

function send(role, data, metadata, id) {
  const texts = { __proto__: null };
  const documents = { __proto__: null };
  for (const [kind, form] of entries(data)) {
    if (typeof form === 'string') texts[kind] = form;
    else if (ArrayBuffer.isView(form)) texts[kind] = Buffer.from(form.buffer, form.byteOffset, form.byteLength).toString('base64');
    else if (form instanceof ArrayBuffer) texts[kind] = Buffer.from(form).toString('base64');
    else documents[kind] = document(form);
  }
  try {
    native.host(TAG + stringify({ __proto__: null, role, data: texts, json: documents, metadata: isObject(metadata) ? document(metadata) : '{}', display_id: id }));
  } catch {
    // The result is above the limits of the host.
  }
}

// Reports the value of a cell's last expression.
export function showValue(value) {
  if (collects) send('value', formsOf(value, false));
}

// Shows a value: in the report of the run if it collects rich results, and else as text in the standard output. With `raw`, the value is an
// object of forms by MIME type. With `display_id`, a later call with `update` replaces what is shown.
export function display(value, { raw = false, metadata, display_id: id, update = false } = {}) {
  if (update && id === undefined) throw new TypeError('"update" needs a "display_id"');
  const data = formsOf(value, raw);
  if (collects) send(update ? 'update' : 'display', data, metadata, id === undefined ? undefined : String(id));
  else globalConsole.log('%s', data['text/plain'] ?? '');
}
