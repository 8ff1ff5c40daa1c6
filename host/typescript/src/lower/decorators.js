function __codebox_key(key) {
  return typeof key === 'symbol' ? key : `${typeof key === 'object' && key !== null && Symbol.toPrimitive in key ? key[Symbol.toPrimitive]('string') : key}`;
}
function __codebox_with(list, make) {
  return make(__codebox_decorate(list));
}
function __codebox_decorate(classList) {
  const state = { d: [], k: [], v: undefined };
  const inits = [];
  const extras = [];
  const instanceExtras = [];
  const classExtras = [];
  const run = (list, self) => {
    for (const each of list) each.call(self);
  };
  const checked = (value, what) => {
    if (typeof value !== 'function') throw new TypeError(`${what} must be a function`);
    return value;
  };
  const apply = (list, value, context, extra, accept) => {
    for (let at = list.length - 1; at >= 0; at--) {
      let isDone = false;
      const own = {
        ...context,
        addInitializer(fn) {
          if (isDone) throw new TypeError('Cannot add initializers after decoration has completed');
          extra.push(checked(fn, 'an initializer'));
        },
      };
      const result = (0, checked(list[at], 'a decorator'))(value, own);
      isDone = true;
      if (result !== undefined) value = accept(result, value);
    }
    return value;
  };
  state.a = (cls, name, members, bind) => {
    if (name !== null) Object.defineProperty(cls, 'name', { value: name, configurable: true });
    for (const [at] of members) delete cls[`__codebox_m${at}`];
    const parent = Object.getPrototypeOf(cls);
    const metadata = typeof Symbol.metadata === 'symbol' ? Object.create(parent?.[Symbol.metadata] ?? null) : undefined;
    const staticExtras = [];
    const order = ([, kind, , isStatic]) => (kind === 'field' ? 2 : 0) + (isStatic ? 0 : 1);
    for (const member of [...members].sort((one, other) => order(one) - order(other))) {
      const [at, kind, key, isStatic, reach] = member;
      const target = isStatic ? cls : cls.prototype;
      const access = {};
      access.has = reach?.has ?? ((object) => key in object);
      if (kind !== 'setter') access.get = reach?.get ?? ((object) => object[key]);
      if (kind !== 'method' && kind !== 'getter') access.set = reach?.set ?? ((object, value) => { object[key] = value; });
      const context = { kind, name: key, static: isStatic, private: reach !== undefined, access, metadata };
      inits[at] = [];
      extras[at] = [];
      const list = state.d[at];
      if (kind === 'field') {
        apply(list, undefined, context, extras[at], (init) => { inits[at].unshift(checked(init, 'the result of the decorator of a field')); });
      } else if (kind === 'accessor') {
        const found = Object.getOwnPropertyDescriptor(target, key);
        const value = apply(list, { get: found.get, set: found.set }, context, extras[at], (result, before) => {
          if (result === null || typeof result !== 'object') throw new TypeError('the result of the decorator of an accessor must be an object');
          if (result.init !== undefined) inits[at].unshift(checked(result.init, 'init'));
          return { get: result.get === undefined ? before.get : checked(result.get, 'get'), set: result.set === undefined ? before.set : checked(result.set, 'set') };
        });
        Object.defineProperty(target, key, { ...found, ...value });
      } else {
        const found = Object.getOwnPropertyDescriptor(target, key);
        const part = kind === 'method' ? 'value' : kind === 'getter' ? 'get' : 'set';
        const value = apply(list, found[part], context, isStatic ? staticExtras : instanceExtras, (result) => checked(result, `the result of the decorator of a ${kind}`));
        Object.defineProperty(target, key, { ...found, [part]: value });
      }
    }
    state.v = apply(classList, cls, { kind: 'class', name: cls.name, metadata }, classExtras, (result) => checked(result, 'the result of the decorator of a class'));
    if (metadata !== undefined) Object.defineProperty(state.v, Symbol.metadata, { value: metadata, writable: true, configurable: true });
    if (bind !== null) bind(state.v);
    run(staticExtras, cls);
  };
  state.i = (at, self, value) => inits[at].reduce((before, init) => init.call(self, before), value);
  state.e = (at, self) => run(extras[at], self);
  state.s = (self) => run(instanceExtras, self);
  state.z = () => run(classExtras, state.v);
  return state;
}
