//! How large the conditions of requirements may be: reading one takes a stack as deep as its parentheses, and time and memory
//! that double with each pair of terms in it.

use mailparse::MailHeaderMap as _;

/// The most bytes of one requirement.
const LONGEST: usize = 4096;

/// The deepest parentheses.
const DEEPEST: usize = 20;

/// Terms as a reader holds them: a diagram, which has at most two to the power of this many nodes for each.
///
/// That holds of terms joined by `or` whose parts are joined by `and`, and the other way round; the fewer of the two words
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tangle(usize);

impl Tangle {
    /// What is typed, or stands in a script: it is shown as well, which takes longer still.
    pub(crate) const OF_USERS: Self = Self(3);
    /// What packages say of themselves.
    pub(crate) const OF_PACKAGES: Self = Self(8);
}

/// Whether a requirement, a name with versions and a condition, can be read at no great cost.
///
/// Also what is quoted counts: nobody but the reader itself knows for sure what is.
pub(crate) fn is_plain(requirement: &str, most: Tangle) -> bool {
    let (mut depth, mut deepest) = (0_usize, 0_usize);
    for c in requirement.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    let count = |word| requirement.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|one| *one == word).count();
    requirement.len() <= LONGEST && deepest <= DEEPEST && count("and").min(count("or")) <= most.0
}

/// Whether that is so of each requirement in a METADATA or PKG-INFO, and it has headers at all.
pub(crate) fn are_plain(metadata: &[u8]) -> bool {
    // As the resolver's reader does it, which decodes headers.
    let Ok((headers, _)) = mailparse::parse_headers(metadata) else { return false };
    headers.get_all_values("Requires-Dist").iter().all(|one| is_plain(one, Tangle::OF_PACKAGES))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(count: usize) -> String {
        let pairs: Vec<_> = (0..count).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
        format!("x; {}", pairs.join(" or "))
    }

    #[test]
    fn what_packages_say_is_plain() {
        for text in [
            "x",
            "x[a,b] (>=1,<2); (python_version >= '3.8' and python_version < '4') and (extra == 'c' or extra == 'd')",
            "x; python_version < '3' or (os_name == 'nt' and python_version >= '3')",
            &format!("x; {}", ["extra == 'one'"; 60].join(" or ")),
            &format!("x; {}", ["extra == 'one'"; 60].join(" and ")),
        ] {
            assert!(is_plain(text, Tangle::OF_USERS), "{text}");
        }
    }

    #[test]
    fn what_takes_a_reader_too_much_is_not() {
        let deep = |depth: usize| format!("x; {}os_name == 'a'{}", "(".repeat(depth), ")".repeat(depth));
        for (text, of_users, of_packages) in [
            (pairs(4), true, true),
            (pairs(5), false, true),
            (pairs(9), false, true),
            (pairs(10), false, false),
            (deep(20), true, true),
            (deep(21), false, false),
            // Who hides it behind what could be a quotation is seen too.
            (format!("x @ http://h/'a ; {}", deep(21)), false, false),
            (format!("x {}", "1".repeat(5000)), false, false),
        ] {
            assert_eq!(is_plain(&text, Tangle::OF_USERS), of_users, "{text}");
            assert_eq!(is_plain(&text, Tangle::OF_PACKAGES), of_packages, "{text}");
        }
    }

    #[test]
    fn metadata_is_read_as_the_resolver_reads_it() {
        let with = |line: &str| format!("Metadata-Version: 2.1\nName: a\n{line}\nVersion: 1\n\ntext\n");
        assert!(are_plain(with("Requires-Dist: b; extra == 'c'").as_bytes()));
        let deep = format!("b; {}os_name == 'a'{}", "(".repeat(100), ")".repeat(100));
        assert!(!are_plain(with(&format!("requires-dist: {deep}")).as_bytes()));
        assert!(!are_plain(with(&format!("Requires-Dist: b;\n {}", &deep[2..])).as_bytes()));
        use base64::Engine as _;
        let coded = base64::engine::general_purpose::STANDARD.encode(&deep);
        assert!(!are_plain(with(&format!("Requires-Dist: =?utf-8?B?{coded}?=")).as_bytes()));
        // What the text goes on with is no header.
        assert!(are_plain(format!("Name: a\n\nRequires-Dist: {deep}\n").as_bytes()));
    }
}
