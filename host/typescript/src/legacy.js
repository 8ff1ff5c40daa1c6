function __codebox_decorate(list, target, key, own) {
  const isClass = arguments.length < 3;
  const first = isClass ? target : own === null ? Object.getOwnPropertyDescriptor(target, key) : own;
  let value = first;
  if (typeof Reflect.decorate === 'function') value = Reflect.decorate(list, target, key, first);
  else {
    // The place of metadata is empty without a library that collects them.
    for (const decorator of list.filter(Boolean).reverse()) {
      const result = isClass ? decorator(value) : arguments.length > 3 ? decorator(target, key, value) : decorator(target, key);
      value = result || value;
    }
  }
  if (arguments.length > 3 && value) Object.defineProperty(target, key, value);
  return value;
}
function __codebox_decorateParam(index, decorator) {
  return (target, key) => decorator(target, key, index);
}
function __codebox_decorateMetadata(key, value) {
  return typeof Reflect.metadata === 'function' ? Reflect.metadata(key, value) : undefined;
}
