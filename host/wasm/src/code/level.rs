//! The processors for which code is compiled.

use std::fmt;
use std::str::FromStr;

use wasmtime::Config;

/// A set of processors for which code is compiled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CodeLevel {
    /// Processors with the features of this machine's processor.
    #[default]
    Native,
    /// Processors of the level x86-64-v2, with SSE 4.2.
    X86V2,
    /// Processors of the level x86-64-v3, with AVX2 and BMI2.
    X86V3,
    /// All 64-bit Arm processors.
    Arm,
}

/// Error for a text that names no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown level {0:?}; use native, x86-64-v2, x86-64-v3 or aarch64")]
pub struct UnknownLevel(String);

/// Levels from the highest to the lowest.
const ALL: [CodeLevel; 4] = [CodeLevel::Native, CodeLevel::X86V3, CodeLevel::X86V2, CodeLevel::Arm];

impl CodeLevel {
    /// Returns the levels whose code this machine can run, the best first.
    pub(crate) fn usable() -> impl Iterator<Item = Self> {
        ALL.into_iter().filter(|level| level.is_usable())
    }

    /// Returns true if this machine can run code of the level.
    pub(crate) fn is_usable(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            use std::is_x86_feature_detected as has;

            let is_v2 = || has!("sse4.2") && has!("ssse3") && has!("popcnt") && has!("cmpxchg16b");
            let is_v3 = || has!("avx2") && has!("bmi1") && has!("bmi2") && has!("fma") && has!("lzcnt");
            match self {
                Self::Native => true,
                Self::X86V2 => is_v2(),
                Self::X86V3 => is_v2() && is_v3(),
                Self::Arm => false,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match self {
            Self::Native => true,
            Self::X86V2 | Self::X86V3 => false,
            Self::Arm => cfg!(target_arch = "aarch64"),
        }
    }

    /// Does nothing: without the compiler, code of all usable levels can be loaded.
    #[cfg(not(feature = "compiler"))]
    #[expect(clippy::unused_self, reason = "the level matters to the compiler alone")]
    pub(crate) fn configure(self, _: &mut Config) -> wasmtime::Result<()> {
        Ok(())
    }

    /// Sets the features of the processors in the compiler's configuration.
    ///
    /// # Errors
    /// The engine's error if it does not support this machine's system.
    #[cfg(feature = "compiler")]
    pub(crate) fn configure(self, config: &mut Config) -> wasmtime::Result<()> {
        let flags: &[&str] = match self {
            // The compiler detects them itself, unless the target is named.
            Self::Native => return Ok(()),
            Self::X86V2 => &["x86-64-v2"],
            Self::X86V3 => &["x86-64-v3", "has_avx"],
            Self::Arm => &[],
        };
        config.target(&target_lexicon::Triple::host().to_string())?;
        for flag in flags {
            // SAFETY: the flags only name instructions that the compiler may use. Code with instructions that a processor
            // lacks is refused when it is loaded: the engine compares the flags of code with the processor.
            unsafe { config.cranelift_flag_enable(flag) };
        }
        Ok(())
    }
}

impl fmt::Display for CodeLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::X86V2 => "x86-64-v2",
            Self::X86V3 => "x86-64-v3",
            Self::Arm => "aarch64",
        })
    }
}

impl FromStr for CodeLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        ALL.into_iter().find(|level| level.to_string() == text).ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    #[test]
    fn loads_code_of_usable_levels() {
        // (func (export "f") (param i64) (result i64) local.get 0 i64.popcnt)
        let wasm = b"\0asm\x01\0\0\0\x01\x06\x01\x60\x01\x7e\x01\x7e\x03\x02\x01\0\x07\x05\x01\x01f\0\0\x0a\x07\x01\x05\0\x20\0\x7b\x0b";
        let native = Engine::new().expect("an engine");
        for level in CodeLevel::usable() {
            let code = Engine::for_level(level).and_then(|engine| {
                engine.inner().precompile_module(wasm).map_err(crate::WasmError::engine("compile the module"))
            });
            let code = code.expect("the module is valid");
            // SAFETY: the compiler has just made this code.
            unsafe { wasmtime::Module::deserialize(native.inner(), &code) }.expect("this machine can run the code");
        }
    }

    #[test]
    fn reads_back_names() {
        for level in ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert!("x86-64-v9".parse::<CodeLevel>().is_err());
    }
}
