//! Digest that a `runtime.toml` pins.

use anyhow::{Result, bail};

use super::artifact::sha256;

const KEY: &str = "sha256 = \"";

/// Returns the description with its digest replaced by that of `module`.
///
/// # Errors
/// Fails if the description does not have exactly one digest.
pub fn pin_digest(description: &str, module: &[u8]) -> Result<String> {
    let digests: Vec<&str> = description.lines().filter(|line| line.starts_with(KEY)).collect();
    let [digest] = digests.as_slice() else {
        bail!("{} lines of a runtime.toml start with {KEY}, expected one", digests.len());
    };
    Ok(description.replacen(digest, &format!("{KEY}{}\"", sha256(module)), 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_only_the_digest() {
        let text = |digest: &str| format!("module = \"a.wasm\"\n\n[built_in]\n{KEY}{digest}\"\n\n[[image]]\n");
        let empty_digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(pin_digest(&text("0"), b"").ok(), Some(text(empty_digest)));
        assert_eq!(pin_digest(&text(empty_digest), b"").ok(), Some(text(empty_digest)));
        assert!(pin_digest("name = \"a\"\n", b"").is_err());
        assert!(pin_digest(&text("0").repeat(2), b"").is_err());
    }
}
