// Functions of the shim, set once before the rest of the prelude runs.
export let native;

export function setNative(given) {
  native = given;
}
