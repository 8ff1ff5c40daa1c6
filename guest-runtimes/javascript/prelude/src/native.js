// What the shim gives: set once, before anything else of the prelude runs.
export let native;

export function setNative(given) {
  native = given;
}
