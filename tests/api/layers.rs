//! Imports point down (docs/architecture.md): no file imports from a higher layer.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Folders and files from the bottom to the top; the longest match determines a file's layer. Entries of one row can
/// be imported by each other only within their own folder.
const LAYERS: &[&[&str]] = &[
    &[
        "ids",
        "time",
        "patch",
        "text_enum",
        "rate",
        "share",
        "disk",
        "cursor",
        "failpoint",
        "model",
        "telemetry",
    ],
    &["telemetry/calls"],
    &["db"],
    &["http/error"],
    &[
        "config",
        "lock",
        "permissions",
        "realtime/catch_up",
        "realtime/log",
        "realtime/hub",
    ],
    &["auth", "tasks"],
    &["files"],
    &["agents"],
    &["chat"],
    &["replies"],
    &["forks", "responses"],
    &["personal"],
    &["http"],
    &["routes"],
    &["socket"],
    &["http/router", "http/health", "http/openapi"],
    &["app", "backup"],
    &["cli"],
];

/// Layer of a module. A `mod.rs` that only collects its folder is in the highest layer of its parts, and its own
/// imports are within its folder.
fn layer_of(module: &str) -> usize {
    LAYERS
        .iter()
        .enumerate()
        .flat_map(|(n, row)| row.iter().map(move |name| (n, *name)))
        .filter(|(_, name)| module == *name || module.starts_with(&format!("{name}/")))
        .max_by_key(|(_, name)| name.len())
        .unwrap_or_else(|| panic!("`{module}` has no place in LAYERS"))
        .0
}

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

/// Expands a use tree: `a::{b, c::d}` becomes `a/b` and `a/c/d`.
fn expand(prefix: &str, tree: &str, into: &mut BTreeSet<String>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap().trim().replace("::", "/");
        into.insert(format!("{prefix}{path}"));
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim().replace("::", "/"));
    let inner = &tree[open + 1..tree.rfind('}').unwrap()];
    let (mut depth, mut from) = (0, 0);
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = &inner[from..at];
                if !part.trim().is_empty() {
                    expand(&prefix, part, into);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// Modules and items of this crate that a file imports.
fn uses(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let code: String = text
        .split("#[cfg(test)]")
        .next()
        .unwrap()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let is_use = code[..at].trim_end().ends_with("use");
        let end = if is_use {
            rest.find(';').unwrap()
        } else {
            rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
                .unwrap_or(rest.len())
        };
        expand("", rest[..end].trim_end_matches(':'), &mut found);
    }
    found
}

/// Module of an imported path: the longest prefix that is a file.
fn module_of(root: &Path, used: &str) -> Option<String> {
    let parts: Vec<&str> = used.split('/').collect();
    (1..=parts.len())
        .rev()
        .map(|n| parts[..n].join("/"))
        .find(|module| {
            root.join(format!("{module}.rs")).is_file()
                || root.join(module).join("mod.rs").is_file()
        })
}

#[test]
fn imports_point_down() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in files {
        let module = file.strip_prefix(&root).unwrap().with_extension("");
        let module = module.to_str().unwrap().trim_end_matches("/mod").to_owned();
        if matches!(module.as_str(), "lib" | "main") {
            continue;
        }
        for used in uses(&fs::read_to_string(&file).unwrap()) {
            let Some(target) = module_of(&root, &used) else {
                continue;
            };
            seen += 1;
            // The root of a folder (`chat`, `realtime`, …) reexports items from lower layers; their files are not
            // visible here.
            let is_face = root.join(&target).join("mod.rs").is_file() && !target.contains('/');
            let folder = |module: &str| module.split('/').next().unwrap().to_owned();
            if is_face || folder(&target) == folder(&module) {
                continue;
            }
            if layer_of(&target) >= layer_of(&module) {
                wrong.push(format!("{module} uses {target}"));
            }
        }
    }
    assert!(seen > 100, "no imports found");
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_model_module_imports_no_other_module() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root.join("model"), &mut files);
    for file in files {
        for used in uses(&fs::read_to_string(&file).unwrap()) {
            let is_own = used.starts_with("model") || used == "corpus";
            assert!(is_own, "{} uses {used}", file.display());
        }
    }
}

#[test]
fn only_the_edges_import_the_web_framework() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    for file in files {
        let module = file
            .strip_prefix(&root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let is_edge = module.starts_with("http/")
            || module.contains("routes")
            || module.starts_with("realtime/")
            || module.starts_with("socket/")
            || module == "app.rs";
        let code = fs::read_to_string(&file).unwrap();
        let code = code.split("#[cfg(test)]").next().unwrap();
        assert!(
            is_edge || !code.contains("axum::"),
            "{module} mentions axum"
        );
    }
}
