//! Record of the files that a guest missed.

use codebox_core::MissedFiles;

use crate::guest::errno;

/// Names that interpreters look for by themselves.
const OWN_LOOKUPS: [&str; 6] =
    ["__pycache__", "jsconfig.json", "node_modules", "package.json", "pyvenv.cfg", "tsconfig.json"];

/// Records the failure of a call with a path relative to the root.
pub(crate) fn record(missed: &mut MissedFiles, path: &str, result: i32) {
    let list = match result {
        errno::NOENT => &mut missed.absent,
        errno::PERM | errno::ROFS => &mut missed.unwritable,
        _ => return,
    };
    if list.len() == MissedFiles::MAX_PATHS || path.len() > MissedFiles::MAX_LEN {
        return;
    }
    let names = names(path);
    let is_private = matches!(*names, ["work", _, ..] | ["run", "codebox", _, ..]);
    // Code without a file has names such as `<string>`.
    let is_own = names.iter().any(|name| OWN_LOOKUPS.contains(name) || name.starts_with('<'));
    let path = format!("/{}", names.join("/"));
    if is_private && !is_own && !list.contains(&path) {
        list.push(path);
    }
}

/// Records that a directory is opened to list it.
pub(crate) fn record_listing(missed: &mut MissedFiles, path: &str) {
    missed.lists_work_dir |= path.len() <= MissedFiles::MAX_LEN && *names(path) == ["work"];
}

fn names(path: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        match name {
            ".." => drop(names.pop()),
            _ => names.push(name),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_program_are_recorded() {
        let mut missed = MissedFiles::default();
        for (path, result) in [
            ("work/./a.txt", errno::NOENT),
            ("work/d/../a.txt", errno::NOENT),
            ("run/codebox/b", errno::NOENT),
            ("work/out", errno::ROFS),
            ("work/out", errno::PERM),
            ("work/c", errno::SUCCESS),
            ("work", errno::NOENT),
            ("work/node_modules/x", errno::NOENT),
            ("work/<string>", errno::NOENT),
            ("etc/passwd", errno::NOENT),
            ("work/../etc/passwd", errno::NOENT),
        ] {
            record(&mut missed, path, result);
        }
        assert_eq!(missed.absent, ["/work/a.txt", "/run/codebox/b"]);
        assert_eq!(missed.unwritable, ["/work/out"]);
        for (path, listed) in [("work/a", false), ("", false), ("run/../work/.", true)] {
            record_listing(&mut missed, path);
            assert_eq!(missed.lists_work_dir, listed, "{path}");
        }
        for number in 0..1000 {
            record(&mut missed, &format!("work/{number}"), errno::NOENT);
        }
        record(&mut missed, &format!("work/{}", "x".repeat(MissedFiles::MAX_LEN)), errno::ROFS);
        assert_eq!((missed.absent.len(), missed.unwritable.len()), (MissedFiles::MAX_PATHS, 1));
    }
}
