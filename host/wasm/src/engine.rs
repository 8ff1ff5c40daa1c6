//! The engine: compiler and runtime settings shared by every code image of a process.

use std::sync::{Arc, OnceLock};

use wasmtime::Config;

use crate::code::{CodeLevel, CodePublisher};
use crate::error::WasmError;
use crate::interrupt::Ticker;
use crate::region::RegionCreator;
use crate::store::KeptCode;
use crate::sys::DIVERTS;

/// Maximum bytes of wasm stack before a guest traps with a stack overflow.
///
/// CPython's own recursion guard needs about 4 MiB at its default limit. The rest is for C code that recurses without a
/// check of that guard.
pub(crate) const MAX_WASM_STACK: usize = 8 << 20;

/// Bytes of the stack that wasm and the host functions it calls share.
///
/// The bytes beyond [`MAX_WASM_STACK`] are available to a host function that the guest calls at the end of its own share. A
/// host function that overflows them aborts the process, so the share is generous.
pub(crate) const ASYNC_STACK_SIZE: usize = MAX_WASM_STACK + (2 << 20);

/// Bytes reserved for a linear memory: the whole range of 32-bit addresses, so that no access needs a bounds check.
///
/// Smaller in Miri, which runs no guest and cannot reserve as much.
pub(crate) const MEMORY_RESERVATION: usize = if cfg!(miri) { 1 << 20 } else { 4 << 30 };

/// Bytes kept unmapped after a reservation, for accesses that add an instruction's offset to an address.
pub(crate) const MEMORY_GUARD_SIZE: usize = if cfg!(miri) { 64 << 10 } else { 32 << 20 };

/// Version of all formats on which the validity of a stored code or memory image depends.
///
/// Increase it when the split of a module, the image format or the prelude's contract changes.
pub(crate) const FORMAT_VERSION: u32 = 6;

/// The shared compiler and runtime: one for each process.
///
/// A clone is cheap and refers to the same engine. Whenever a job runs, a thread checks its limits.
#[derive(Clone)]
pub struct Engine {
    inner: wasmtime::Engine,
    level: CodeLevel,
    /// Engine of components, whose code checks for interruption itself. Created when it is needed.
    components: Arc<OnceLock<wasmtime::Engine>>,
    ticker: Arc<Ticker>,
    /// Code that stores of this engine need not load.
    kept: Arc<KeptCode>,
}

impl Engine {
    /// Creates an engine with codebox's settings for this machine's processor.
    ///
    /// # Errors
    /// [`WasmError::Engine`] if the processor or system lacks a feature that the settings need.
    pub fn new() -> Result<Self, WasmError> {
        Self::for_level(CodeLevel::Native)
    }

    /// Creates an engine whose compiler makes code for a level.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn for_level(level: CodeLevel) -> Result<Self, WasmError> {
        let inner = new_engine(!DIVERTS, level)?;
        Ok(Self { inner, level, components: Arc::default(), ticker: Arc::default(), kept: Arc::default() })
    }

    /// Returns the underlying engine of modules.
    pub(crate) fn inner(&self) -> &wasmtime::Engine {
        &self.inner
    }

    /// Returns the underlying engine of components.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn for_components(&self) -> Result<&wasmtime::Engine, WasmError> {
        if !DIVERTS {
            return Ok(&self.inner);
        }
        if self.components.get().is_none() {
            let _ = self.components.set(new_engine(true, CodeLevel::Native)?);
        }
        self.components.get().ok_or_else(|| WasmError::Prelude("the engine of components is missing".into()))
    }

    /// Returns the thread that stops running guests.
    pub(crate) fn ticker(&self) -> &Arc<Ticker> {
        &self.ticker
    }

    /// Returns the code that stores of this engine need not load.
    pub(crate) fn kept(&self) -> &KeptCode {
        &self.kept
    }

    /// Returns a key that differs for two engines of which one cannot load code that the other compiled.
    ///
    /// It covers wasmtime's version, the compiler settings, the processor features used and codebox's own format. It does not
    /// depend on the compiler's presence: a program without the compiler uses the code of one that has it. The engine
    /// refuses code with other settings than its own.
    pub fn compatibility_key(&self) -> String {
        use std::hash::{Hash, Hasher};
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        (wasmtime_environ::VERSION, SETTINGS, processor_features(), FORMAT_VERSION).hash(&mut hasher);
        self.level.to_string().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

/// The settings of the engine and of its compiler: the text of the two files that determine them.
const SETTINGS: [&str; 2] = [include_str!("engine.rs"), include_str!("code/level.rs")];

/// Returns the system, and the features of this machine's processor for which the compiler makes code if it finds them.
fn processor_features() -> (&'static str, &'static str, Vec<bool>) {
    #[cfg(target_arch = "x86_64")]
    macro_rules! features {
        ($($name:tt)*) => { vec![$(std::is_x86_feature_detected!($name)),*] };
    }
    #[cfg(target_arch = "x86_64")]
    let features = features!["sse3" "ssse3" "sse4.1" "sse4.2" "popcnt" "cmpxchg16b" "avx" "avx2" "fma" "bmi1" "bmi2"
        "lzcnt" "avx512f" "avx512vl" "avx512dq" "avx512bitalg" "avx512vbmi"];
    #[cfg(target_arch = "aarch64")]
    let features = vec![
        std::arch::is_aarch64_feature_detected!("lse"),
        std::arch::is_aarch64_feature_detected!("paca"),
        std::arch::is_aarch64_feature_detected!("fp16"),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let features = Vec::new();
    (std::env::consts::OS, std::env::consts::ARCH, features)
}

fn new_engine(checks_for_interruption: bool, level: CodeLevel) -> Result<wasmtime::Engine, WasmError> {
    let mut config = Config::new();
    #[cfg(feature = "compiler")]
    config.cranelift_opt_level(wasmtime::OptLevel::Speed);
    config
        .wasm_exceptions(true)
        .wasm_threads(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        // Their defaults depend on the features of the engine's crate, which an embedding program may extend.
        .collector(wasmtime::Collector::DeferredReferenceCounting)
        .concurrency_support(false)
        .epoch_interruption(checks_for_interruption)
        .max_wasm_stack(MAX_WASM_STACK)
        .async_stack_size(ASYNC_STACK_SIZE)
        .async_stack_zeroing(false)
        .memory_reservation(MEMORY_RESERVATION as u64)
        .memory_guard_size(MEMORY_GUARD_SIZE as u64)
        .memory_may_move(false)
        // Memories are regions that codebox maps, and the engine cannot map its own images over them.
        .memory_init_cow(false)
        .native_unwind_info(false)
        .generate_address_map(false)
        .wasm_backtrace_max_frames(None)
        .with_host_memory(Arc::new(RegionCreator::default()))
        .with_host_stack(Arc::new(crate::region::StackPool::default()))
        .with_custom_code_memory(Some(Arc::new(CodePublisher)));
    level.configure(&mut config).map_err(WasmError::engine("set up the engine"))?;
    wasmtime::Engine::new(&config).map_err(WasmError::engine("set up the engine"))
}
