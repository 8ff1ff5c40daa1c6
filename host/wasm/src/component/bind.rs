//! Bindings of the contract's world, generated from the WIT package.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "codebox:guest/runtime",
    exports: { default: async },
});
