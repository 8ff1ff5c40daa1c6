//! `PathMap`: single paths, and every path in a document.

use std::hint::black_box;

use codebox::{Access, DirGrant, GuestPath, HostPath};
use codebox_core::PathMap;
use codebox_core::path::{Direction, MaxDepth, PathMarks};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::{Value, json};

/// Grants `count` directories; some names are prefixes of others, but no directory is inside another.
fn grants(count: usize) -> Vec<DirGrant> {
    let grant = |index: usize| DirGrant {
        host: HostPath::unix(&format!("/home/ada/projects/number {index}")).expect("a host path"),
        guest: GuestPath::new(format!("/work/{index}")).expect("a guest path"),
        access: Access::ReadOnly,
    };
    (0..count).map(grant).collect()
}

/// Creates a typical tool response: `count` records with paths, prose, URLs and numbers.
fn document(count: usize) -> Value {
    let record = |index: usize| {
        json!({
            "path": format!("/work/{}/src/main.py", index % 8),
            "url": "https://example.org/work/0/src",
            "message": "undefined name in /work/0, see the log",
            "line": index,
            "related": ["/work/1/a.txt", "/outside/b.txt", "*.py"],
        })
    };
    Value::Array((0..count).map(record).collect())
}

/// Returns a schema that marks the paths of the document.
fn schema_of_document() -> Value {
    json!({ "items": { "properties": { "path": { "type": "string", "x-codebox-path": true } } } })
}

fn path_map(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("path_map");
    for count in [1, 8, 64] {
        let dirs = grants(count);
        let map = PathMap::from_grants(&dirs).expect("the grants do not overlap");
        let last = count - 1;
        let host = HostPath::unix(&format!("/home/ada/projects/number {last}/src/main.py")).expect("a host path");
        let guest = GuestPath::new(format!("/work/{last}/src/main.py")).expect("a guest path");
        assert_eq!(map.to_guest(&host).as_ref(), Ok(&guest));
        assert_eq!(map.to_host(&guest).as_ref(), Ok(&host));

        group.bench_with_input(BenchmarkId::new("new", count), &dirs, |bencher, dirs| {
            bencher.iter(|| PathMap::from_grants(black_box(dirs)));
        });
        group.bench_with_input(BenchmarkId::new("to_guest", count), &host, |bencher, host| {
            bencher.iter(|| map.to_guest(black_box(host)));
        });
        group.bench_with_input(BenchmarkId::new("to_host", count), &guest, |bencher, guest| {
            bencher.iter(|| map.to_host(black_box(guest)));
        });
    }

    let map = PathMap::from_grants(&grants(8)).expect("the grants do not overlap");
    let map_all = |value: Value| map.map_json(value, Direction::ToHost, MaxDepth::default()).expect("not too deep");
    for count in [1, 100, 10_000] {
        let value = document(count);
        let mapped = map_all(value.clone());
        assert_eq!(mapped[0]["path"], "/home/ada/projects/number 0/src/main.py");
        assert_eq!(mapped[0]["url"], value[0]["url"]);
        group.bench_with_input(BenchmarkId::new("map_json", count), &value, |bencher, value| {
            bencher.iter_batched(|| value.clone(), |value| map_all(black_box(value)), BatchSize::LargeInput);
        });
    }
    let max = MaxDepth::default();
    let both = |value: Value, marks: &PathMarks| {
        let mapped = map.map_marked_json(value, Direction::ToHost, max, marks).expect("every path is in a mount");
        map.map_marked_json(mapped, Direction::ToGuest, max, marks).expect("every path is in a mount")
    };
    // 10,000 paths in a megabyte, for the input and the output of a tool.
    let paths: Vec<Value> = (0..10_000)
        .map(|index| json!(format!("/work/{}/{}{index:05}.py", index % 8, "directory/".repeat(8))))
        .collect();
    let paths = json!({ "paths": paths });
    assert!((900_000..1_200_000).contains(&paths.to_string().len()));
    let schema = json!({ "properties": { "paths": { "items": { "type": "string", "x-codebox-path": true } } } });
    for (name, marks) in [("marked", PathMarks::of_schema(&schema)), ("by_form", PathMarks::default())] {
        assert_eq!(both(paths.clone(), &marks), paths);
        group.bench_function(BenchmarkId::new("both_ways", name), |bencher| {
            bencher.iter_batched(|| paths.clone(), |paths| both(black_box(paths), &marks), BatchSize::LargeInput);
        });
    }
    // 50,000 strings in 10,000 records.
    let (records, marks) = (document(10_000), PathMarks::of_schema(&schema_of_document()));
    assert_eq!(both(records.clone(), &marks), records);
    group.bench_function("both_ways/records", |bencher| {
        bencher.iter_batched(|| records.clone(), |records| both(black_box(records), &marks), BatchSize::LargeInput);
    });
    let log = "error in /home/ada/projects/number 3/src/main.py, line 7\n".repeat(100);
    assert!(!map.redact(&log).contains("ada"));
    group.bench_function("redact/100", |bencher| bencher.iter(|| map.redact(black_box(&log))));
    group.finish();
}

criterion_group!(benches, path_map);
criterion_main!(benches);
