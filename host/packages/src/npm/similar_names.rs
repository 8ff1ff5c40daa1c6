//! Suggestions for names that a registry does not have.

use strsim::osa_distance;

/// Names of popular packages, suggested for misspelt names.
const POPULAR_PACKAGES: &str = "ajv async axios bluebird chalk cheerio chokidar classnames colors commander cors cross-env csv-parse \
    date-fns dayjs debug dotenv ejs eslint esbuild execa express fastify fast-glob fs-extra glob got graphql handlebars \
    highlight.js immer immutable inquirer jest joi js-yaml jsonwebtoken jsdom lodash lodash-es luxon lru-cache marked mathjs \
    mime minimatch minimist mkdirp mocha moment ms nanoid node-fetch nodemailer openai ora p-limit papaparse pino prettier \
    prop-types qs ramda react react-dom request rimraf rxjs semver sharp socket.io sqlite3 string-width strip-ansi superagent \
    tslib typescript underscore uuid validator vite vue webpack winston ws xml2js yaml yargs zod";

/// Returns up to three popular names within an edit distance of two.
pub(super) fn similar_names(name: &str) -> Vec<String> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '_', '.'], "");
    let mut found: Vec<(usize, &str)> = POPULAR_PACKAGES
        .split_whitespace()
        .filter(|popular| *popular != name)
        .map(|popular| (osa_distance(&plain(name), &plain(popular)), popular))
        .filter(|(distance, popular)| *distance <= 2.min(popular.len() / 3))
        .collect();
    found.sort_unstable();
    found.into_iter().take(3).map(|(_, popular)| popular.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_popular_names_for_typos() {
        assert_eq!(similar_names("lodahs"), ["lodash", "lodash-es"]);
        assert_eq!(similar_names("comander"), ["commander"]);
        assert_eq!(similar_names("node_fetch"), ["node-fetch"]);
        assert!(similar_names("a-name-that-no-package-has").is_empty());
    }
}
