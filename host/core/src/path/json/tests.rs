use proptest::prelude::*;
use serde_json::json;

use super::super::{Access, GuestPath, HostPath, Mount};
use super::*;

fn map() -> PathMap<HostPath, GuestPath> {
    let mount = |from, to| Mount {
        from: HostPath::unix(from).expect("a Unix path"),
        to: GuestPath::new(to).expect("a guest path"),
        access: Access::ReadOnly,
    };
    PathMap::new([mount("/ws/s 1", "/work"), mount("/ws/data", "/data")]).expect("a map")
}

fn to_host(value: &Value) -> Value {
    map().map_json(value.clone(), Direction::ToHost, MaxDepth::default()).expect("shallow")
}

#[test]
fn maps_path_strings_at_any_depth() {
    let value = json!({"a": ["/work/x y.csv", {"/work": "/data/"}], "n": 1, "t": true, "z": null, "w": "/work"});
    let mapped = to_host(&value);
    let want = json!({
        "a": ["/ws/s 1/x y.csv", {"/work": "/ws/data/"}], "n": 1, "t": true, "z": null, "w": "/ws/s 1",
    });
    assert_eq!(mapped, want);
    let back = map().map_json(mapped, Direction::ToGuest, MaxDepth::default());
    assert_eq!(back, Ok(value));
}

#[test]
fn maps_paths_with_empty_components() {
    let mapped = to_host(&json!(["/work//x", "/work/./x/.", "/data//", "/work/.x/..y"]));
    assert_eq!(mapped, json!(["/ws/s 1/x", "/ws/s 1/x", "/ws/data/", "/ws/s 1/.x/..y"]));
}

#[test]
fn leaves_other_strings_unchanged() {
    for text in [
        "",
        "work/x",
        "./work/x",
        "https://example.org/work/x",
        "file:///work/x",
        "//work/x",
        "-I/work",
        "--out=/work/x",
        "/work/*.py",
        "/work/**",
        "/work/a?",
        "/work/[ab]",
        "/work/{a,b}",
        "^/work/x$",
        "/work/.*",
        "/work/.+",
        "/work/x$",
        "/work/(a|b)",
        "/work/\\d",
        "see /work/x",
        "/work/x\n/work/y",
        "/work/a:/work/b",
        "/work/../etc/passwd",
        "/work/./../x",
        "/workshop/x",
        "/etc/passwd",
        "~/work",
        "$WORK/x",
        "/",
        "s|/work|/x|",
        "/work/x;/work/y",
        "C:\\work",
        "\\\\work\\x",
    ] {
        assert_eq!(to_host(&json!(text)), json!(text));
    }
    for text in ["/work/a(1).csv", "/work/$VAR", "/work/c++", "/work/a:b", "/work/'q'", "/work/-rf", "/work/ü"] {
        assert_ne!(to_host(&json!(text)), json!(text));
    }
}

#[test]
fn maps_windows_paths() {
    let mount = Mount {
        from: HostPath::windows(r"C:\ws").expect("a Windows path"),
        to: GuestPath::work(),
        access: Access::ReadOnly,
    };
    let map = PathMap::new([mount]).expect("a map");
    let inside = map.map_json(json!([r"c:\WS\a", "C:/ws/b/"]), Direction::ToGuest, MaxDepth(1));
    assert_eq!(inside, Ok(json!(["/work/a", "/work/b/"])));
    let outside = map.map_json(json!(["/work/a", "/work/NUL"]), Direction::ToHost, MaxDepth(1));
    assert_eq!(outside, Ok(json!([r"C:\ws\a", "/work/NUL"])));
}

#[test]
fn rejects_excessive_depth() {
    let nested = |depth| (0..depth).fold(json!("/work"), |value, _| json!([value]));
    assert!(map().map_json(nested(128), Direction::ToHost, MaxDepth::default()).is_ok());
    let deep = map().map_json(nested(129), Direction::ToHost, MaxDepth::default());
    assert_eq!(deep, Err(MapJsonError::TooDeep { max: MaxDepth(128) }));
    assert!(map().map_json(json!("/work"), Direction::ToHost, MaxDepth(0)).is_ok());
}

proptest! {
    #[test]
    fn maps_any_text_only_within_mounts(text in "[/a-zé:\\\\ .*$~-]{0,12}") {
        for text in [format!("/work{text}"), text] {
            let mapped = to_host(&json!(text));
            if mapped != json!(text) {
                let mapped = mapped.as_str().unwrap_or_default().to_owned();
                prop_assert!(text == "/work" || text.starts_with("/work/") || text.starts_with("/data"));
                prop_assert!(mapped.starts_with("/ws/"));
                prop_assert!(!mapped.split('/').any(|part| part == ".."));
            }
        }
    }
}

#[test]
fn schemas_mark_paths() {
    let schema = json!({
        "properties": {
            "file": { "type": "string", "x-codebox-path": true },
            "pattern": { "type": "string", "x-codebox-path": false },
            "files": { "type": "array", "items": { "x-codebox-path": true } },
            "pair": { "prefixItems": [{ "x-codebox-path": true }, { "x-codebox-path": false }] },
            "any": { "anyOf": [{ "type": "null" }, { "type": "string", "x-codebox-path": true }] },
        },
        "additionalProperties": { "x-codebox-path": true },
    });
    let marks = PathMarks::of_schema(&schema);
    let map = |value: Value| map().map_marked_json(value, Direction::ToGuest, MaxDepth::default(), &marks);
    let value = json!({
        "file": "/ws/data/a*b", "pattern": "/ws/data/x", "files": ["/ws/data", "/ws/data/[1]"],
        "pair": ["/ws/data/1", "/ws/data/2"], "any": "/ws/data/;", "other": "/ws/data/o", "number": 1,
    });
    let mapped = json!({
        "file": "/data/a*b", "pattern": "/ws/data/x", "files": ["/data", "/data/[1]"],
        "pair": ["/data/1", "/ws/data/2"], "any": "/data/;", "other": "/data/o", "number": 1,
    });
    assert_eq!(map(value), Ok(mapped));
    for (value, pointer) in [
        (json!({ "file": "/etc/passwd" }), "/file"),
        (json!({ "file": "data/x" }), "/file"),
        (json!({ "file": "/ws/data/../secret" }), "/file"),
        (json!({ "files": ["/ws/data", "/ws/database"] }), "/files/1"),
        (json!({ "any": "" }), "/any"),
        (json!({ "a/b~c": "/etc" }), "/a~1b~0c"),
    ] {
        match map(value.clone()) {
            Err(MapJsonError::NotMapped { pointer: found, .. }) => assert_eq!(found, pointer, "{value}"),
            other => panic!("{value}: {other:?}"),
        }
    }
    assert_eq!(map(json!({ "any": null, "file": 3 })), Ok(json!({ "any": null, "file": 3 })));
}

#[test]
fn marks_below_the_maximum_depth_are_ignored() {
    let schema = (0..300).fold(json!({ "x-codebox-path": true }), |schema, _| json!({ "items": schema }));
    let depth = |marks: &PathMarks| std::iter::successors(Some(marks), |marks| marks.items.as_deref()).count();
    assert_eq!(depth(&PathMarks::of_schema(&schema)), MaxDepth::default().0 + 1);
}
