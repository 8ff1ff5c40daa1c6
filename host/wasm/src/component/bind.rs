//! Bindings of the contract's world, generated from the WIT package.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "codebox:guest/runtime",
    imports: { "codebox:guest/network": async | trappable },
    exports: { default: async },
    with: { "codebox:guest/network.connection": super::network::Connection },
});
