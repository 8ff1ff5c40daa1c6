//! Names of entries that no copy of a project has.

use super::LeftOutReason;
use crate::git::is_git_name;

/// Directories of version control systems, besides `.git`.
const VERSION_CONTROL: [&str; 4] = [".hg", ".jj", ".svn", ".bzr"];

/// Directories of installed packages and of caches.
const GENERATED: [&str; 10] = [
    "node_modules",
    ".venv",
    "venv",
    "__pycache__",
    "__pypackages__",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
];

/// Names of files and directories that have keys, passwords and tokens.
const SECRETS: [&str; 22] = [
    ".aws",
    ".azure",
    ".docker",
    ".gnupg",
    ".kube",
    ".ssh",
    ".terraform",
    ".dockercfg",
    ".envrc",
    ".git-credentials",
    ".htpasswd",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".vault-token",
    ".yarnrc.yml",
    "_netrc",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "id_rsa",
];

/// Extensions of files with keys, and of stores of passwords.
const SECRET_EXTENSIONS: [&str; 11] =
    ["pem", "key", "p12", "pfx", "p8", "jks", "keystore", "kdbx", "ppk", "tfstate", "tfvars"];

/// Ends of the names of files that show the form of a file of variables, without its values.
const TEMPLATES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];

/// Returns the reason that an entry with this name is left out, whatever the project's own rules are. Upper and lower case are the same.
pub(super) fn excluded(name: &str, is_dir: bool) -> Option<LeftOutReason> {
    let name = name.to_ascii_lowercase();
    if is_git_name(&name) || VERSION_CONTROL.contains(&name.as_str()) {
        return Some(LeftOutReason::VersionControl);
    }
    if is_dir && GENERATED.contains(&name.as_str()) {
        return Some(LeftOutReason::Generated);
    }
    let is_variables = name == ".env" || name.starts_with(".env.") && !TEMPLATES.iter().any(|end| name.ends_with(end));
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let is_key = !is_dir && extension.is_some_and(|extension| SECRET_EXTENSIONS.contains(&extension));
    (is_variables || is_key || SECRETS.contains(&name.as_str())).then_some(LeftOutReason::Secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_and_generated_files_are_excluded() {
        use LeftOutReason::{Generated, Secret, VersionControl};
        for (name, is_dir, reason) in [
            (".env", false, Some(Secret)),
            (".ENV", false, Some(Secret)),
            (".env.production", false, Some(Secret)),
            (".env.example", false, None),
            (".environment", false, None),
            ("server.key", false, Some(Secret)),
            ("server.PEM", false, Some(Secret)),
            ("id_rsa", false, Some(Secret)),
            ("id_rsa.pub", false, None),
            (".ssh", true, Some(Secret)),
            ("keys.py", false, None),
            ("pem", false, None),
            ("a.key", true, None),
            (".git", true, Some(VersionControl)),
            (".git", false, Some(VersionControl)),
            (".gitignore", false, None),
            ("node_modules", true, Some(Generated)),
            ("venv", false, None),
            ("src", true, None),
        ] {
            assert_eq!(excluded(name, is_dir), reason, "{name}");
        }
    }
}
