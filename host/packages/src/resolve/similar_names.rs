//! Suggestions for names that no index has.

use codebox_core::{POPULAR_PACKAGES, package_of_module};
use strsim::osa_distance;

/// Returns up to three similar names, the most similar first.
pub(super) fn similar_names<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Vec<String> {
    // The name of a module may be mistaken for that of its package.
    if let Some(package) = package_of_module(name).filter(|package| package != name) {
        return vec![package];
    }
    let max_distance = if name.len() <= 4 { 1 } else { 2 };
    let mut found: Vec<(usize, &str)> = POPULAR_PACKAGES
        .iter()
        .copied()
        .chain(others)
        .filter(|other| *other != name)
        // Two transposed letters count as one edit.
        .map(|other| (osa_distance(name, other), other))
        .filter(|(distance, _)| *distance <= max_distance)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_packages_for_typos_and_module_names() {
        for (name, package) in [
            ("reqeusts", "requests"),
            ("request", "requests"),
            ("sklearn", "scikit-learn"),
            ("pil", "pillow"),
            ("nunpy", "numpy"),
        ] {
            assert_eq!(similar_names(name, std::iter::empty()).first().map(String::as_str), Some(package), "{name}");
        }
        assert_eq!(similar_names("frobnicate-tools", std::iter::empty()), Vec::<String>::new());
        assert_eq!(similar_names("my-tol", ["my-tool"].into_iter()), ["my-tool"]);
    }
}
