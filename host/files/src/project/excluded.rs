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

/// Names of private keys of SSH, which can follow another name.
const SSH_KEYS: [&str; 4] = ["id_dsa", "id_ecdsa", "id_ed25519", "id_rsa"];

/// Returns true for the name of a private key of SSH, of a user or of a machine.
fn is_ssh_key(name: &str) -> bool {
    let name = name.strip_suffix("_sk").unwrap_or(name);
    let before = SSH_KEYS.iter().find_map(|key| name.strip_suffix(key));
    let is_own = before.is_some_and(|before| before.is_empty() || before.ends_with(['_', '-', '.', ' ']));
    is_own || name.starts_with("ssh_host_") && name.ends_with("_key")
}

/// Returns the name of which this one is a copy, as `a` is of `a (1)`, `a copy 2` and `a.bak`.
fn original(name: &str) -> Option<&str> {
    if let Some(original) = COPIES.iter().find_map(|end| name.strip_suffix(end)) {
        return Some(original.trim_end_matches('~'));
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    if let Some((original, number)) = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (")) {
        return is_number(number).then_some(original);
    }
    let (copy, number) = name.rsplit_once(' ')?;
    (is_number(number) && copy.ends_with(" copy")).then_some(copy)
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
    let mut name = name.trim_matches(['#', '~']).to_owned();
    // The mark of a copy may be before the extension.
    let of_stem = |name: &str| {
        let (stem, extension) = name.rsplit_once('.')?;
        Some(format!("{}.{extension}", original(stem)?))
    };
    while let Some(other) = original(&name).map(str::to_owned).or_else(|| of_stem(&name)) {
        name = other;
    }
    let name = name.as_str();
    let rest = name.strip_prefix(".env").filter(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']));
    let is_variables = rest.is_some() && !TEMPLATES.iter().any(|end| name.ends_with(end));
    // The name may have the format after it, as in `prod.tfvars.json`.
    let name_of_data = name.strip_suffix(".json").unwrap_or(name);
    let extension = |name: &str| name.rsplit_once('.').is_some_and(|(_, end)| SECRET_EXTENSIONS.contains(&end));
    let is_key = !is_dir && (extension(name) || extension(name_of_data));
    let is_ssh = !is_dir && is_ssh_key(name);
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
            ("id_rsa copy 2", false, Some(Secret)),
            ("service-account (1).json", false, Some(Secret)),
            ("secrets copy.yaml", false, Some(Secret)),
            ("credentials - Copy.json", false, Some(Secret)),
            (".env copy.local", false, Some(Secret)),
            ("valid_rsa", false, None),
            ("my_id_rsa", true, None),
            ("public_rsa_key", false, None),
            ("photocopy.py", false, None),
            ("chapter 2.txt", false, None),
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
