//! Packages in a configuration file.

use std::path::Path;

use serde::Deserialize;

use super::ConfigError;

/// Deserialized table, before its values are checked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Table {
    allow: Option<Vec<String>>,
    index: Option<String>,
    registry: Option<String>,
    build: Option<bool>,
}

/// Policy for building source distributions of packages without wheels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BuildSetting {
    /// Builds are never allowed, even if requested.
    Forbidden,
    /// Builds are allowed if the request asks for them.
    #[default]
    Asked,
    /// Builds are allowed for every request.
    Always,
}

/// Allowed packages and their sources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packages {
    /// Packages that may be requested; `None` allows every package. Dependencies of a requested package are always
    /// allowed.
    pub allow: Option<Vec<String>>,
    /// Only index that is queried for Python packages; without it the user's own index settings apply.
    pub index: Option<String>,
    /// Only registry that is queried for npm packages of any scope; without it the user's own registry settings apply.
    pub registry: Option<String>,
    /// Policy for building Python packages.
    pub building: BuildSetting,
}

impl Table {
    pub(super) fn read(self, file: &Path) -> Result<Packages, ConfigError> {
        let Self { allow, index, registry, build } = self;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@' | '/');
        if let Some(bad) = allow.iter().flatten().find(|name| name.is_empty() || !name.chars().all(plain)) {
            let detail = format!("{bad:?} is not a package name");
            return Err(ConfigError::new(file, "packages.allow", detail, "write names without versions"));
        }
        for (key, address) in [("packages.index", &index), ("packages.registry", &registry)] {
            let is_web = |address: &&String| address.starts_with("http://") || address.starts_with("https://");
            if let Some(bad) = address.as_ref().filter(|address| !is_web(address)) {
                let detail = format!("{bad:?} is not a URL");
                return Err(ConfigError::new(file, key, detail, "write a URL that starts with https://"));
            }
        }
        let building = match build {
            Some(true) => BuildSetting::Always,
            Some(false) => BuildSetting::Forbidden,
            None => BuildSetting::Asked,
        };
        Ok(Packages { allow, index, registry, building })
    }
}

impl Packages {
    /// Returns true if the package may be requested; its name may have any spelling.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        let name = normalized_name(name);
        self.allow.as_ref().is_none_or(|allowed| allowed.iter().any(|one| normalized_name(one) == name))
    }

    /// Restricts these settings by a project's. A project cannot choose the index or registry, and cannot require
    /// builds.
    pub(super) fn narrowed(&self, project: &Self, file: &Path) -> Result<Self, ConfigError> {
        let own = [("packages.index", &project.index), ("packages.registry", &project.registry)];
        if let Some((key, _)) = own.into_iter().find(|(_, address)| address.is_some()) {
            let fix = "remove it, or put it into your own configuration";
            return Err(ConfigError::new(file, key, "a project cannot choose where packages come from", fix));
        }
        let building = match project.building {
            BuildSetting::Asked => self.building,
            BuildSetting::Forbidden => BuildSetting::Forbidden,
            BuildSetting::Always => {
                let fix = "remove it, or put it into your own configuration";
                return Err(ConfigError::new(file, "packages.build", "a project cannot enable package builds", fix));
            }
        };
        let allow = match (&self.allow, &project.allow) {
            (Some(_), Some(theirs)) => Some(theirs.iter().filter(|name| self.allows(name)).cloned().collect()),
            (ours, theirs) => ours.clone().or_else(|| theirs.clone()),
        };
        Ok(Self { allow, building, ..self.clone() })
    }
}

/// Returns the normalized name of a package, by the rule of PEP 503.
#[must_use]
pub fn normalized_name(name: &str) -> String {
    let mut normal = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            c => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(allow: Option<&[&str]>, index: Option<&str>) -> Packages {
        let allow = allow.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        Packages { allow, index: index.map(str::to_owned), ..Packages::default() }
    }

    #[test]
    fn project_only_narrows_packages() {
        let file = Path::new("codebox.toml");
        let none = packages(None, None);
        let user = packages(Some(&["requests", "Rich"]), Some("https://index.invalid/simple"));
        let both = user.narrowed(&packages(Some(&["rich", "numpy"]), None), file).expect("it narrows");
        assert_eq!(both, packages(Some(&["rich"]), Some("https://index.invalid/simple")));
        assert!(both.allows("RICH") && !both.allows("numpy") && !both.allows("requests"));
        assert_eq!(none.narrowed(&packages(Some(&["a"]), None), file), Ok(packages(Some(&["a"]), None)));
        assert!(none.narrowed(&packages(None, Some("https://other.invalid/")), file).is_err());
        assert_eq!(user.narrowed(&none, file), Ok(user));
        let registry = Some("https://registry.invalid/".to_owned());
        let fixed = Packages { registry: registry.clone(), ..none.clone() };
        assert_eq!(fixed.narrowed(&none, file).map(|both| both.registry), Ok(registry));
        assert!(none.narrowed(&fixed, file).is_err());
        let builds = |building| Packages { building, ..none.clone() };
        for (ours, theirs, both) in [
            (BuildSetting::Asked, BuildSetting::Asked, Some(BuildSetting::Asked)),
            (BuildSetting::Always, BuildSetting::Asked, Some(BuildSetting::Always)),
            (BuildSetting::Always, BuildSetting::Forbidden, Some(BuildSetting::Forbidden)),
            (BuildSetting::Forbidden, BuildSetting::Asked, Some(BuildSetting::Forbidden)),
            (BuildSetting::Asked, BuildSetting::Always, None),
            (BuildSetting::Always, BuildSetting::Always, None),
        ] {
            let narrowed = builds(ours).narrowed(&builds(theirs), file);
            assert_eq!(narrowed.ok().map(|packages| packages.building), both, "{ours:?} {theirs:?}");
        }
        let table = Table { registry: Some("file:///x".to_owned()), ..Table::default() };
        assert!(table.read(file).is_err_and(|error| error.key == "packages.registry"));
    }
}
