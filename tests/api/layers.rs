//! Imports point down (docs/architecture.md): no folder imports from a higher layer, and files do not import each other in a cycle.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Folders and files of `src` from the bottom to the top. Entries in the same row do not import from each other.
const LAYERS: &[&[&str]] = &[
    &["blocking", "proxy"],
    &["trust"],
    &[
        "cursor",
        "disk",
        "environment",
        "failpoint",
        "ids",
        "model",
        "networks",
        "outbound",
        "patch",
        "poll",
        "rate",
        "share",
        "text_enum",
        "time",
    ],
    &[
        "poster",
        "release",
        "storage",
        "telemetry",
        "tls_settings",
        "tool_fault",
    ],
    &["mcp", "web"],
    &["db"],
    &["secrets"],
    &["mail"],
    &["backup", "config", "lock", "permissions", "realtime"],
    &["inbox"],
    &["http", "tasks"],
    &["auth"],
    &["files", "openapi", "providers", "registry"],
    &["agents", "meaning"],
    &["workflows"],
    &["chat"],
    &["collections", "hooks", "memory", "push"],
    &["slack", "tools"],
    &["code", "outgoing", "schedules"],
    &["replies"],
    &["forks", "responses"],
    &["imports"],
    &["exports", "personal", "runs"],
    &["nodes", "tls"],
    &["server"],
    &["upkeep"],
    &["doctor"],
    &["routes"],
    &["socket"],
    &["router"],
    &["app"],
    &["cli"],
];

/// The crate's modules and their code without comments and tests, by path (such as `chat/post/insert`; a folder's `mod.rs` has the
/// folder's path).
struct Crate {
    code: BTreeMap<String, String>,
    /// Paths of the names that each module exports, by module and name.
    exports: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
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

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn without_comments_and_tests(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    code.lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Expands a use tree: `a::{b, c::d}` becomes `a::b` and `a::c::d`.
fn expand(prefix: &str, tree: &str, into: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let path = tree.split(" as ").next().unwrap().trim();
        let path = format!("{prefix}{path}");
        into.push(path.split("::").map(str::to_owned).collect());
        return;
    };
    let prefix = format!("{prefix}{}", tree[..open].trim());
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

/// `true` if a `use` statement exports its names, and the paths of the names.
type Use = (bool, Vec<Vec<String>>);

/// The `use` statements of a module, and its code without them.
fn statements(code: &str) -> (Vec<Use>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut from = 0;
    for (at, _) in code.match_indices("use ") {
        let line = code[..at].rfind('\n').map_or(0, |line| line + 1);
        let before = code[line..at].trim();
        let exports = before.starts_with("pub");
        if line < from || code[..at].ends_with(is_name) || !(before.is_empty() || exports) {
            continue;
        }
        let end = at + code[at..].find(';').unwrap();
        let mut paths = Vec::new();
        expand("", &code[at + "use ".len()..end], &mut paths);
        found.push((exports, paths));
        rest.push_str(&code[from..line]);
        from = end + 1;
    }
    rest.push_str(&code[from..]);
    (found, rest)
}

/// Returns the paths that begin with this segment in code without `use` statements, except for `$crate` paths in macros.
fn paths_from<'a>(code: &'a str, first: &'a str) -> impl Iterator<Item = Vec<String>> + 'a {
    code.match_indices(first).filter_map(move |(at, _)| {
        let rest = &code[at + first.len()..];
        if code[..at].ends_with(|c| is_name(c) || matches!(c, ':' | '$')) || !rest.starts_with("::")
        {
            return None;
        }
        let end = rest
            .find(|c| !(is_name(c) || c == ':'))
            .unwrap_or(rest.len());
        let path = format!("{first}{}", rest[..end].trim_end_matches(':'));
        Some(path.split("::").map(str::to_owned).collect())
    })
}

/// Checks whether code uses a name. A function must be called, so words in strings and methods do not count.
fn is_named(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_type = name.starts_with(char::is_uppercase);
        !before.ends_with(|c| is_name(c) || matches!(c, '.' | ':'))
            && !after.starts_with(is_name)
            && (is_type || (after.starts_with('(') && !before.ends_with("fn ")))
    })
}

impl Crate {
    fn read() -> Self {
        Self::read_from(&root().join("src"))
    }

    fn read_from(source: &Path) -> Self {
        let mut files = Vec::new();
        rust_files(source, &mut files);
        let code = files
            .iter()
            .map(|file| {
                let module = file.strip_prefix(source).unwrap().with_extension("");
                let module = module.to_str().unwrap();
                let module = module.strip_suffix("/mod").unwrap_or(module).to_owned();
                let text = fs::read_to_string(file).unwrap();
                (module, without_comments_and_tests(&text))
            })
            .collect();
        let mut this = Self {
            code,
            exports: BTreeMap::new(),
        };
        for (module, code) in &this.code {
            let exported = statements(code).0.into_iter().filter(|(is, _)| *is);
            let names = exported
                .flat_map(|(_, paths)| paths)
                .filter_map(|path| this.absolute(module, &path))
                .filter_map(|path| Some((path.last()?.clone(), path)))
                .collect();
            this.exports.insert(module.clone(), names);
        }
        this
    }

    /// Returns a path relative to the crate's root; `None` for other crates and local names.
    fn absolute(&self, module: &str, path: &[String]) -> Option<Vec<String>> {
        let mut at: Vec<String> = module.split('/').map(str::to_owned).collect();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => {
                at.clear();
                rest = &rest[1..];
            }
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            child if self.code.contains_key(&format!("{module}/{child}")) => {}
            _ => return None,
        }
        at.extend(rest.iter().filter(|name| *name != "self").cloned());
        Some(at)
    }

    /// The module that a path names, and the rest of the path.
    fn split<'a>(&self, path: &'a [String]) -> Option<(String, &'a [String])> {
        (1..=path.len()).rev().find_map(|n| {
            let module = path[..n].join("/");
            self.code
                .contains_key(&module)
                .then(|| (module, &path[n..]))
        })
    }

    /// Follows a path through all exports. Returns the module that it leads to, and the name in it; no name if the path is the module
    /// itself.
    fn resolve(&self, path: &[String]) -> Option<(String, Option<String>)> {
        let (module, rest) = self.split(path)?;
        let Some(name) = rest.first() else {
            return Some((module, None));
        };
        match self.exports[&module].get(name) {
            Some(target) if target.as_slice() != path => {
                self.resolve(&[target.as_slice(), &rest[1..]].concat())
            }
            _ => Some((module, Some(name.clone()))),
        }
    }

    /// Returns the modules that this one uses: those that define the names that it uses, and those from which it imports them.
    /// Exporting a name counts only if the code also uses it.
    fn uses(&self, module: &str) -> BTreeSet<String> {
        let (statements, rest) = statements(&self.code[module]);
        let mut used: Vec<Vec<String>> = ["crate", "super", "self"]
            .into_iter()
            .flat_map(|first| paths_from(&rest, first))
            .filter_map(|path| self.absolute(module, &path))
            .collect();
        for (exports, paths) in statements {
            for path in paths {
                let Some(path) = self.absolute(module, &path) else {
                    continue;
                };
                let Some(name) = path.last().cloned() else {
                    continue;
                };
                if self.resolve(&path).is_some_and(|(_, name)| name.is_none()) {
                    let below = paths_from(&rest, &name);
                    used.extend(below.map(|below| [path.as_slice(), &below[1..]].concat()));
                } else if !exports || is_named(&rest, &name) {
                    used.push(path);
                }
            }
        }
        used.iter()
            .filter_map(|path| Some((self.split(path)?.0, self.resolve(path)?)))
            .filter_map(|(named, (target, name))| name.map(|_| [named, target]))
            .flatten()
            .filter(|target| target != module)
            .collect()
    }

    /// Returns the modules that each module uses.
    fn graph(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.code
            .keys()
            .filter(|module| !matches!(module.as_str(), "lib" | "main"))
            .map(|module| (module.clone(), self.uses(module)))
            .collect()
    }
}

fn folder(module: &str) -> &str {
    module.split('/').next().unwrap()
}

fn layer_of(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|row| row.contains(&folder(module)))
        .unwrap_or_else(|| panic!("`{module}` has no place in LAYERS"))
}

#[test]
fn folders_use_only_folders_below_them() {
    let graph = Crate::read().graph();
    let edges = graph
        .iter()
        .flat_map(|(module, used)| used.iter().map(move |target| (module, target)));
    let across: Vec<_> = edges
        .filter(|(module, target)| folder(module) != folder(target))
        .collect();
    assert!(across.len() > 500, "no imports found: {}", across.len());
    let wrong: Vec<String> = across
        .into_iter()
        .filter(|(module, target)| layer_of(target) >= layer_of(module))
        .map(|(module, target)| format!("{module} uses {target}"))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

/// Returns the cycles of a graph.
fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<&String>> {
    let reached_from = |start: &String| {
        let mut reached = BTreeSet::new();
        let mut open = vec![start];
        while let Some(module) = open.pop() {
            for target in graph.get(module).into_iter().flatten() {
                if reached.insert(target) {
                    open.push(target);
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|module| (module, reached_from(module)))
        .collect();
    reached
        .iter()
        .map(|(module, below)| {
            let returns =
                |other: &&&String| reached.get(**other).is_some_and(|r| r.contains(module));
            below.iter().filter(returns).copied().collect()
        })
        .filter(|circle: &Vec<&String>| !circle.is_empty())
        .collect()
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    for path in crates.chain([root().to_owned()]) {
        let graph = Crate::read_from(&path.join("src")).graph();
        assert_eq!(circles(&graph), BTreeSet::new(), "{}", path.display());
    }
}

#[test]
fn the_model_module_imports_only_how_its_clients_begin() {
    for (module, used) in Crate::read().graph() {
        let is_foreign = |used: &&String| !["model", "trust"].contains(&folder(used));
        let foreign: Vec<_> = used.iter().filter(is_foreign).collect();
        assert!(
            folder(&module) != "model" || foreign.is_empty(),
            "{module} uses {foreign:?}"
        );
    }
}

#[test]
fn only_the_edges_import_the_web_framework() {
    // Realtime modules are included, because the hub passes the framework's encoded frames to sockets.
    let edges = [
        "app", "http", "realtime", "router", "routes", "server", "socket",
    ];
    for (module, code) in Crate::read().code {
        assert!(
            edges.contains(&folder(&module)) || !code.contains("axum::"),
            "{module} mentions axum"
        );
    }
}
