//! Windows rules for path names.

use super::kind::posix_component_fault;

/// Returns `text` with `\` as the only separator and without the verbatim prefix `\\?\`.
pub(super) fn normalized(text: &str) -> String {
    let flat = text.replace('/', "\\");
    match flat.strip_prefix(r"\\?\") {
        Some(rest) => match rest.get(..4) {
            Some(unc) if unc.eq_ignore_ascii_case(r"UNC\") => format!(r"\\{}", &rest[4..]),
            _ => rest.to_owned(),
        },
        None => flat,
    }
}

/// Returns true if two names are the same entry of a directory.
pub(super) fn same_name(one: &str, other: &str) -> bool {
    one.chars().flat_map(char::to_uppercase).eq(other.chars().flat_map(char::to_uppercase))
}

/// Returns the text below `ancestor` of a path that lies within it. Both are a root and the text below it.
pub(super) fn rest_below<'a>(path: (&str, &'a str), ancestor: (&str, &str)) -> Option<&'a str> {
    if !same_name(path.0, ancestor.0) {
        return None;
    }
    let mut rest = path.1;
    for wanted in ancestor.1.split('\\').filter(|part| !part.is_empty()) {
        let (name, below) = rest.split_once('\\').unwrap_or((rest, ""));
        if !same_name(name, wanted) {
            return None;
        }
        rest = below;
    }
    Some(rest)
}

/// Splits `C:\a\b` or `\\server\share\a` into its root, in canonical spelling, and the rest.
pub(super) fn root(text: &str) -> Result<(String, &str), &'static str> {
    if let Some(unc) = text.strip_prefix(r"\\") {
        let mut parts = unc.splitn(3, '\\');
        let server = parts.next().filter(|s| !s.is_empty());
        let share = parts.next().filter(|s| !s.is_empty());
        let (Some(server), Some(share)) = (server, share) else {
            return Err("a network path must name a server and a share");
        };
        for name in [server, share] {
            // The check also rejects `\\.\` and `\\?\`, which name devices.
            fault(name).map_or(Ok(()), Err)?;
        }
        return Ok((format!(r"\\{server}\{share}\"), parts.next().unwrap_or("")));
    }
    let mut chars = text.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some(drive), Some(':'), Some('\\')) if drive.is_ascii_alphabetic() => {
            Ok((format!(r"{}:\", drive.to_ascii_uppercase()), &text[3..]))
        }
        (Some(drive), Some(':'), _) if drive.is_ascii_alphabetic() => {
            Err("a drive without a following '\\' depends on that drive's current directory")
        }
        _ => Err("it does not start with a drive or a share"),
    }
}

/// Returns the rule that `name` violates as an entry of a Windows directory.
pub(super) fn fault(name: &str) -> Option<&'static str> {
    const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    if let Some(rule) = posix_component_fault(name) {
        return Some(rule);
    }
    if name.chars().any(|c| c < ' ' || r#"<>:"|?*\"#.contains(c)) {
        return Some("it contains a character that Windows reserves");
    }
    if name.ends_with(['.', ' ']) {
        return Some("Windows drops a '.' or space at the end of a name");
    }
    let stem = name.split('.').next().unwrap_or("").trim_end_matches(' ').to_uppercase();
    let numbered = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let port = numbered.is_some_and(|n| {
        let mut chars = n.chars();
        matches!(chars.next(), Some('0'..='9' | '¹' | '²' | '³')) && chars.next().is_none()
    });
    (port || DEVICES.contains(&stem.as_str())).then_some("it names a device on Windows")
}
