// MessageChannel and BroadcastChannel within one program.
import { EventTarget, MessageEvent, handlerProperty, kListening } from './events.js';
import { structuredClone } from './clone.js';
import { hidden } from '../engine/uncurry.js';
import { setImmediate } from '../loop/timers.js';

let allowed = false;
export class MessagePort extends EventTarget {
  #other = null;
  #queue = [];
  #started = false;
  #closed = false;
  #scheduled = false;
  #listeners = new Map();
  constructor() {
    if (!allowed) throw new TypeError('Illegal constructor');
    super();
  }
  static pair() {
    allowed = true;
    const one = new MessagePort();
    const two = new MessagePort();
    allowed = false;
    one.#other = two;
    two.#other = one;
    return [one, two];
  }
  [kListening](type) {
    if (type === 'message') this.start();
  }
  postMessage(value, transfer) {
    if (this.#closed || !this.#other) return;
    const list = Array.isArray(transfer) ? transfer : transfer?.transfer;
    const other = this.#other;
    other.#queue.push(structuredClone(value, { transfer: list?.filter((each) => !(each instanceof MessagePort)) }));
    other.#schedule();
  }
  #schedule() {
    if (!this.#started || this.#scheduled || this.#queue.length === 0) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#queue.length === 0) return;
      this.dispatchEvent(new MessageEvent('message', { data: this.#queue.shift() }));
      this.#schedule();
    });
  }
  start() {
    this.#started = true;
    this.#schedule();
  }
  receive() {
    return this.#queue.length > 0 ? { message: this.#queue.shift() } : undefined;
  }
  close() {
    if (this.#closed) return;
    this.#closed = true;
    const other = this.#other;
    setImmediate(() => {
      this.dispatchEvent(new MessageEvent('close'));
      other?.close();
    });
  }
  ref() {}
  unref() {}
  hasRef() { return false; }
  on(type, listener) {
    const wrapped = (event) => listener(type === 'message' ? event.data : event);
    this.#listeners.set(listener, wrapped);
    this.addEventListener(type, wrapped);
    return this;
  }
  once(type, listener) {
    this.addEventListener(type, (event) => listener(type === 'message' ? event.data : event), { once: true });
    return this;
  }
  off(type, listener) {
    this.removeEventListener(type, this.#listeners.get(listener) ?? listener);
    return this;
  }
}
hidden(MessagePort.prototype, kListening, MessagePort.prototype[kListening]);
handlerProperty(MessagePort.prototype, 'message');
export const receiveMessageOnPort = (port) => port.receive();

export class MessageChannel {
  constructor() {
    [this.port1, this.port2] = MessagePort.pair();
  }
}

const channels = new Map();
export class BroadcastChannel extends EventTarget {
  #name;
  constructor(name) {
    super();
    this.#name = `${name}`;
    if (!channels.has(this.#name)) channels.set(this.#name, new Set());
    channels.get(this.#name).add(this);
  }
  get name() { return this.#name; }
  postMessage(value) {
    for (const other of channels.get(this.#name)) {
      if (other === this) continue;
      const data = structuredClone(value);
      setImmediate(() => other.dispatchEvent(new MessageEvent('message', { data })));
    }
  }
  close() { channels.get(this.#name)?.delete(this); }
  ref() { return this; }
  unref() { return this; }
}
handlerProperty(BroadcastChannel.prototype, 'message');
