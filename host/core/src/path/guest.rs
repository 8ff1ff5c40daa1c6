use super::kind::{MappedPath, PathError, posix_path, sealed};

posix_path! {
    /// Path as the guest sees it: absolute, `/`-separated, UTF-8, the same in every tier.
    ///
    /// ```
    /// use codebox_core::GuestPath;
    /// assert_eq!(GuestPath::new("/work/a b.txt").unwrap().file_name(), Some("a b.txt"));
    /// assert!(GuestPath::new("/work/../etc").is_err());
    /// ```
    GuestPath, "guest"
}

impl GuestPath {
    /// Returns `/work`, the guest's working directory.
    #[must_use]
    pub fn work() -> Self {
        Self("/work".to_owned())
    }

    /// Returns `/tmp`, which is private to the guest.
    #[must_use]
    pub fn tmp() -> Self {
        Self("/tmp".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_unusual_names() {
        let names = [
            "/",
            "/a",
            "/a b/%20",
            "/a:b,c=d",
            "/'\"",
            "/a\nb",
            "/-rf",
            "/~",
            "/$VAR",
            "/C:\\x",
            "/caf\u{e9}",
            "/cafe\u{301}",
            "/...",
            "/.hidden",
        ];
        for name in names {
            assert_eq!(GuestPath::new(name).map(|p| p.to_string()), Ok(name.to_owned()));
        }
        assert_ne!(GuestPath::new("/caf\u{e9}"), GuestPath::new("/cafe\u{301}"));
    }

    #[test]
    fn rejects_relative_and_escaping_paths() {
        for bad in ["", "a", "./a", "~", "//", "/a//b", "/a/", "/.", "/..", "/a/../b", "/a\0"] {
            assert!(GuestPath::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn joins_components_and_returns_parents() {
        let path = GuestPath::work().join("a/b").expect("plain components");
        assert_eq!(path.parent().and_then(|p| p.parent()), Some(GuestPath::work()));
        assert_eq!(GuestPath::work().parent(), Some(GuestPath::root()));
        assert_eq!(GuestPath::root().parent(), None);
        assert_eq!(GuestPath::root().join("a").map(|p| p.to_string()), Ok("/a".to_owned()));
        for bad in ["", "/a", "../a", "a//b", "a/"] {
            assert!(GuestPath::work().join(bad).is_err(), "{bad:?}");
        }
    }
}
