use super::kind::MappedPath;
use super::map::{Mount, PathMap};

impl<A: MappedPath, B: MappedPath> PathMap<A, B> {
    /// Returns `text` with every outside path under a mount replaced by its inside path.
    ///
    /// Redaction is for codebox's own messages and logs, never for the output of a guest. A path is recognised if it
    /// does not continue a word and if the mount's path ends at a component boundary, so `/ws/s1-evil` is not
    /// recognised as `/ws/s1`. The deepest of nested mounts wins.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        let mut mounts: Vec<&Mount<A, B>> = self.mounts().iter().collect();
        mounts.sort_by_key(|mount| std::cmp::Reverse(mount.from.as_str().len()));
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(here) = rest.chars().next() {
            let at_start = before.is_none_or(|c| !continues_word(c) && c != '/' && c != '\\');
            let hit = mounts.iter().filter(|_| at_start).find_map(|mount| {
                let length = prefix_length(rest, &mount.from)?;
                Some((length, *mount))
            });
            match hit {
                Some((length, mount)) => {
                    let tail = path_tail(&rest[length..], mount.from.separator());
                    push_path(&mut out, mount, tail);
                    rest = &rest[length + tail.len()..];
                    before = Some('/');
                }
                None => {
                    out.push(here);
                    rest = &rest[here.len_utf8()..];
                    before = Some(here);
                }
            }
        }
        out
    }
}

/// Returns the length in bytes of `path` at the start of `text`, if the match ends at a component boundary.
///
/// The last separator of a root does not count.
fn prefix_length<P: MappedPath>(text: &str, path: &P) -> Option<usize> {
    let separator = path.separator();
    let name = path.as_str().strip_suffix(separator).unwrap_or(path.as_str());
    // Compared character by character, because two spellings of one Windows path may differ in length.
    let mut length = 0;
    let mut chars = text.chars();
    for wanted in name.chars() {
        let here = chars.next()?;
        let same = path.same_component(here.encode_utf8(&mut [0; 4]), wanted.encode_utf8(&mut [0; 4]));
        let also_separates = separator == '\\' && wanted == '\\' && here == '/';
        if !same && !also_separates {
            return None;
        }
        length += here.len_utf8();
    }
    let rest = &text[length..];
    let ends = match rest.chars().next() {
        // A single separator counts as a mounted root only if a name follows it.
        Some(c) if is_separator(c, separator) => !name.is_empty() || rest.chars().nth(1).is_some_and(continues_word),
        Some('.') => rest.chars().nth(1).is_none_or(|c| c.is_whitespace()),
        Some(c) => !name.is_empty() && !continues_word(c),
        None => !name.is_empty(),
    };
    ends.then_some(length)
}

/// Returns the part of `text` that continues a path: separators and characters that are common in names.
fn path_tail(text: &str, separator: char) -> &str {
    if !text.starts_with(|c| is_separator(c, separator)) {
        return "";
    }
    let end = text.find(|c: char| !(continues_word(c) || is_separator(c, separator))).unwrap_or(text.len());
    &text[..end]
}

fn push_path<A: MappedPath, B: MappedPath>(out: &mut String, mount: &Mount<A, B>, tail: &str) {
    let inside = mount.to.separator();
    let stem = mount.to.as_str().strip_suffix(inside).unwrap_or(mount.to.as_str());
    out.push_str(if tail.is_empty() { mount.to.as_str() } else { stem });
    let outside = mount.from.separator();
    out.extend(tail.chars().map(|c| if is_separator(c, outside) { inside } else { c }));
}

fn is_separator(c: char, separator: char) -> bool {
    c == separator || (separator == '\\' && c == '/')
}

fn continues_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::super::{Access, GuestPath, HostPath};
    use super::*;

    fn map(mounts: &[(HostPath, &str)]) -> PathMap<HostPath, GuestPath> {
        PathMap::new(mounts.iter().map(|(from, to)| Mount {
            from: from.clone(),
            to: GuestPath::new(*to).expect("a guest path"),
            access: Access::ReadOnly,
        }))
        .expect("a map")
    }

    #[test]
    fn replaces_only_host_paths() {
        let unix = |text| HostPath::unix(text).expect("a Unix path");
        let map = map(&[(unix("/ws/s1"), "/work"), (unix("/ws/s1/data"), "/data")]);
        for (text, want) in [
            ("cannot open /ws/s1/a.txt: denied", "cannot open /work/a.txt: denied"),
            ("'/ws/s1' and \"/ws/s1/data/x y\".", "'/work' and \"/data/x y\"."),
            ("see /ws/s1.", "see /work."),
            ("/ws/s1-evil /ws/s10 x/ws/s1 /ws/s1.bak", "/ws/s1-evil /ws/s10 x/ws/s1 /ws/s1.bak"),
            ("(/ws/s1/data)", "(/data)"),
            ("é/ws/s1 \u{1f600}/ws/s1/é", "é/ws/s1 \u{1f600}/work/é"),
        ] {
            assert_eq!(map.redact(text), want);
        }
    }

    #[test]
    fn finds_windows_paths_in_any_spelling() {
        let ws = HostPath::windows(r"C:\Ws").expect("a Windows path");
        let map = map(&[(ws, "/work")]);
        assert_eq!(map.redact(r"at c:\ws\a\b.py, C:/WS/c"), "at /work/a/b.py, /work/c");
        assert_eq!(map.redact(r"C:\Wsx"), r"C:\Wsx");
    }

    #[test]
    fn mounted_root_leaves_bare_slashes() {
        let root = HostPath::unix("/").expect("the root");
        let map = map(&[(root, "/host")]);
        assert_eq!(map.redact("either/or / read /etc/x"), "either/or / read /host/etc/x");
    }
}
