//! The part of `shellexpand` that `uv-netrc` names, complete.

/// Expansions in paths.
pub mod path {
    use std::borrow::Cow;
    use std::env;
    use std::path::Path;

    /// Replaces `~` as the first part of a path by the user's home directory, if that is known.
    pub fn tilde<P: AsRef<Path> + ?Sized>(path: &P) -> Cow<'_, Path> {
        let path = path.as_ref();
        let home = env::home_dir().filter(|home| !home.as_os_str().is_empty());
        match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => Cow::Owned(home.join(rest)),
            _ => Cow::Borrowed(path),
        }
    }
}
