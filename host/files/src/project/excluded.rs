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
const SECRETS: [&str; 46] = [
    ".aws",
    ".azure",
    ".docker",
    ".gnupg",
    ".kube",
    ".ssh",
    ".terraform",
    ".terraform.d",
    ".gem",
    ".credentials",
    ".dev.vars",
    ".flaskenv",
    ".secrets",
    "credentials.db",
    "credentials.tfrc.json",
    "deploy_key",
    "secrets.json",
    "secrets.toml",
    "secrets.yaml",
    "secrets.yml",
    "service-account.json",
    "service_account.json",
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
    ".bash_history",
    ".boto",
    ".my.cnf",
    ".password-store",
    ".python_history",
    ".s3cfg",
    ".terraformrc",
    ".vault_pass",
    ".zsh_history",
    "application_default_credentials.json",
    "credentials.json",
    "credentials.toml",
    "kubeconfig",
];

/// Extensions of files with keys, and of stores of passwords.
const SECRET_EXTENSIONS: [&str; 14] = [
    "env", "pem", "key", "keytab", "p12", "pkcs12", "pfx", "p8", "jks", "keystore", "kdbx", "ppk", "tfstate", "tfvars",
];

/// Ends of the names of files that show the form of a file of variables, without its values.
const TEMPLATES: [&str; 5] = [".example", ".sample", ".template", ".dist", ".defaults"];

/// Ends of the names of copies that editors and people make.
const COPIES: [&str; 9] = [".bak", ".backup", ".old", ".orig", ".save", ".swp", "~", " - copy", " copy"];

/// Ends of the names of private keys of SSH.
const SSH_KEYS: [&str; 8] =
    ["id_dsa", "id_ecdsa", "id_ed25519", "id_rsa", "_dsa_key", "_ecdsa_key", "_ed25519_key", "_rsa_key"];

/// Returns the name of which this one is a copy with a number, as `a (1)` is of `a`.
fn numbered(name: &str) -> Option<&str> {
    let (original, number) = name.strip_suffix(')')?.rsplit_once(" (")?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then_some(original)
}

/// Returns the reason that an entry with this name is left out, whatever the project's own rules are. Upper and lower case are the same.
pub fn excluded(name: &str, is_dir: bool) -> Option<LeftOutReason> {
    let name = name.to_ascii_lowercase();
    if is_git_name(&name) || VERSION_CONTROL.contains(&name.as_str()) {
        return Some(LeftOutReason::VersionControl);
    }
    if is_dir && GENERATED.contains(&name.as_str()) {
        return Some(LeftOutReason::Generated);
    }
    let mut name = name.trim_matches(['#', '~']);
    while let Some(original) = COPIES.iter().find_map(|end| name.strip_suffix(end)).or_else(|| numbered(name)) {
        name = original.trim_end_matches('~');
    }
    let rest = name.strip_prefix(".env").filter(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']));
    let is_variables = rest.is_some() && !TEMPLATES.iter().any(|end| name.ends_with(end));
    // The name may have the format after it, as in `prod.tfvars.json`.
    let name_of_data = name.strip_suffix(".json").unwrap_or(name);
    let extension = |name: &str| name.rsplit_once('.').is_some_and(|(_, end)| SECRET_EXTENSIONS.contains(&end));
    let is_key = !is_dir && (extension(name) || extension(name_of_data));
    let is_ssh = SSH_KEYS.iter().any(|key| name.strip_suffix("_sk").unwrap_or(name).ends_with(key));
    (is_variables || is_key || is_ssh || SECRETS.contains(&name)).then_some(LeftOutReason::Secret)
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
            (".env~", false, Some(Secret)),
            (".env-prod", false, Some(Secret)),
            ("prod.env", false, Some(Secret)),
            ("id_ed25519_sk", false, Some(Secret)),
            ("server.key.bak", false, Some(Secret)),
            ("a.tfvars.json", false, Some(Secret)),
            ("terraform.tfstate.backup", false, Some(Secret)),
            ("package.json", false, None),
            ("server.key", false, Some(Secret)),
            ("server.PEM", false, Some(Secret)),
            ("id_rsa", false, Some(Secret)),
            ("id_rsa copy", false, Some(Secret)),
            ("id_rsa (1)", false, Some(Secret)),
            (".env - Copy (2)", false, Some(Secret)),
            ("my_id_rsa", false, Some(Secret)),
            ("ssh_host_rsa_key", false, Some(Secret)),
            ("secrets.yaml", false, Some(Secret)),
            ("secrets.py", false, None),
            ("a (1)", false, None),
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
