//! Bindings of the contract's world, made from the WIT package itself.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "codebox:guest/runtime",
    exports: { default: async },
});
