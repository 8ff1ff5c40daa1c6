//! Suggestions for names that no index has.

use strsim::osa_distance;

/// Names of popular packages, including those of frequently imported modules.
const POPULAR_PACKAGES: &[&str] = &[
    "aiohttp",
    "anyio",
    "arrow",
    "attrs",
    "beautifulsoup4",
    "black",
    "boto3",
    "botocore",
    "cachetools",
    "certifi",
    "cffi",
    "chardet",
    "charset-normalizer",
    "click",
    "colorama",
    "cryptography",
    "dask",
    "django",
    "docutils",
    "duckdb",
    "fastapi",
    "flask",
    "fsspec",
    "geopandas",
    "gunicorn",
    "h11",
    "httpcore",
    "httpx",
    "idna",
    "importlib-metadata",
    "ipython",
    "jinja2",
    "jmespath",
    "jsonschema",
    "jupyter",
    "keras",
    "langchain",
    "loguru",
    "lxml",
    "markdown",
    "markupsafe",
    "matplotlib",
    "mypy",
    "nltk",
    "numba",
    "numpy",
    "openai",
    "opencv-python",
    "openpyxl",
    "orjson",
    "packaging",
    "pandas",
    "pillow",
    "pip",
    "platformdirs",
    "plotly",
    "polars",
    "protobuf",
    "psutil",
    "psycopg",
    "pyarrow",
    "pycparser",
    "pydantic",
    "pygments",
    "pyjwt",
    "pymongo",
    "pymysql",
    "pyparsing",
    "pytest",
    "python-dateutil",
    "python-docx",
    "python-dotenv",
    "pytz",
    "pyyaml",
    "redis",
    "regex",
    "requests",
    "rich",
    "ruff",
    "scikit-image",
    "scikit-learn",
    "scipy",
    "scrapy",
    "seaborn",
    "selenium",
    "setuptools",
    "shapely",
    "six",
    "soupsieve",
    "spacy",
    "sqlalchemy",
    "starlette",
    "statsmodels",
    "sympy",
    "tabulate",
    "tenacity",
    "tensorflow",
    "tiktoken",
    "tomli",
    "torch",
    "tornado",
    "tqdm",
    "transformers",
    "typer",
    "typing-extensions",
    "tzdata",
    "urllib3",
    "uvicorn",
    "websockets",
    "werkzeug",
    "wheel",
    "wrapt",
    "xgboost",
    "xlsxwriter",
    "xmltodict",
    "zipp",
];

/// Module names that are mistaken for package names, and the packages of these modules.
const MODULE_PACKAGES: &[(&str, &str)] = &[
    ("bs4", "beautifulsoup4"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("jwt", "pyjwt"),
    ("pil", "pillow"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("yaml", "pyyaml"),
];

/// Returns up to three similar names, the most similar first.
pub(super) fn similar_names<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Vec<String> {
    if let Some((_, package)) = MODULE_PACKAGES.iter().find(|(module, _)| *module == name) {
        return vec![(*package).to_owned()];
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
        for (name, package) in
            [("reqeusts", "requests"), ("request", "requests"), ("sklearn", "scikit-learn"), ("nunpy", "numpy")]
        {
            assert_eq!(similar_names(name, std::iter::empty()).first().map(String::as_str), Some(package), "{name}");
        }
        assert_eq!(similar_names("frobnicate-tools", std::iter::empty()), Vec::<String>::new());
        assert_eq!(similar_names("my-tol", ["my-tool"].into_iter()), ["my-tool"]);
    }
}
