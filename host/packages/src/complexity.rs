//! Limits on the size of requirements' conditions: parsing one takes a stack as deep as its parentheses, and time and
//! memory that double with each pair of terms in it.

use mailparse::MailHeaderMap as _;

/// Maximum length of one requirement in bytes.
const MAX_REQUIREMENT_LENGTH: usize = 4096;

/// Maximum depth of nested parentheses.
const MAX_NESTING_DEPTH: usize = 20;

/// Maximum complexity of a condition. The parser holds the terms of a condition as a decision diagram, which has at
/// most two to the power of this many nodes for each term.
///
/// That bound applies to terms joined by `or` whose parts are joined by `and`, and to the reverse; the rarer of the two
/// words counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ComplexityLimit(usize);

impl ComplexityLimit {
    /// Limit for a requirement on the command line or in a script. It is lower, since these are also displayed, which
    /// takes longer still.
    pub(crate) const USER_REQUIREMENT: Self = Self(3);
    /// Limit for a requirement in the metadata of a package.
    pub(crate) const PACKAGE_METADATA: Self = Self(8);
}

/// Returns true if a requirement (a name with versions and a condition) can be parsed at low cost.
///
/// Text within quotes counts as well: only the parser itself can tell reliably which text is quoted.
pub(crate) fn is_allowed(requirement: &str, limit: ComplexityLimit) -> bool {
    let (mut depth, mut max_depth) = (0_usize, 0_usize);
    for c in requirement.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        max_depth = max_depth.max(depth);
    }
    let count = |word| requirement.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|one| *one == word).count();
    requirement.len() <= MAX_REQUIREMENT_LENGTH
        && max_depth <= MAX_NESTING_DEPTH
        && count("and").min(count("or")) <= limit.0
}

/// Returns true if a METADATA or PKG-INFO has valid headers and [`is_allowed`] holds for each requirement in it.
pub(crate) fn are_allowed(metadata: &[u8]) -> bool {
    // This is the resolver's own parser, which decodes headers.
    let Ok((headers, _)) = mailparse::parse_headers(metadata) else { return false };
    headers.get_all_values("Requires-Dist").iter().all(|one| is_allowed(one, ComplexityLimit::PACKAGE_METADATA))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(count: usize) -> String {
        let pairs: Vec<_> = (0..count).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
        format!("x; {}", pairs.join(" or "))
    }

    #[test]
    fn accepts_typical_requirements() {
        for text in [
            "x",
            "x[a,b] (>=1,<2); (python_version >= '3.8' and python_version < '4') and (extra == 'c' or extra == 'd')",
            "x; python_version < '3' or (os_name == 'nt' and python_version >= '3')",
            &format!("x; {}", ["extra == 'one'"; 60].join(" or ")),
            &format!("x; {}", ["extra == 'one'"; 60].join(" and ")),
        ] {
            assert!(is_allowed(text, ComplexityLimit::USER_REQUIREMENT), "{text}");
        }
    }

    #[test]
    fn rejects_expensive_requirements() {
        let deep = |depth: usize| format!("x; {}os_name == 'a'{}", "(".repeat(depth), ")".repeat(depth));
        for (text, allowed_from_user, allowed_in_metadata) in [
            (pairs(4), true, true),
            (pairs(5), false, true),
            (pairs(9), false, true),
            (pairs(10), false, false),
            (deep(20), true, true),
            (deep(21), false, false),
            // An apparent quotation does not hide the parentheses.
            (format!("x @ http://h/'a ; {}", deep(21)), false, false),
            (format!("x {}", "1".repeat(5000)), false, false),
        ] {
            assert_eq!(is_allowed(&text, ComplexityLimit::USER_REQUIREMENT), allowed_from_user, "{text}");
            assert_eq!(is_allowed(&text, ComplexityLimit::PACKAGE_METADATA), allowed_in_metadata, "{text}");
        }
    }

    #[test]
    fn decodes_headers_like_the_resolver() {
        let with = |line: &str| format!("Metadata-Version: 2.1\nName: a\n{line}\nVersion: 1\n\ntext\n");
        assert!(are_allowed(with("Requires-Dist: b; extra == 'c'").as_bytes()));
        let deep = format!("b; {}os_name == 'a'{}", "(".repeat(100), ")".repeat(100));
        assert!(!are_allowed(with(&format!("requires-dist: {deep}")).as_bytes()));
        assert!(!are_allowed(with(&format!("Requires-Dist: b;\n {}", &deep[2..])).as_bytes()));
        use base64::Engine as _;
        let coded = base64::engine::general_purpose::STANDARD.encode(&deep);
        assert!(!are_allowed(with(&format!("Requires-Dist: =?utf-8?B?{coded}?=")).as_bytes()));
        // The text after the blank line is not a header.
        assert!(are_allowed(format!("Name: a\n\nRequires-Dist: {deep}\n").as_bytes()));
    }
}
