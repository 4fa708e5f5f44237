//! Builds the web client and embeds it in the binary, so that `cargo build` builds everything. Uses only std.
//!
//! Sources of the client:
//! 1. `OPENVIBE_WEB_DIST=dir`: prebuilt assets (container stage, release archive), without Node.
//! 2. Otherwise: `npm ci` in `web/` if the lockfile changed, then a Vite build into `OUT_DIR/web`.
//!
//! The output is `OUT_DIR/assets.rs`, for `include!`: a struct and a table sorted by path.
//!
//! ```text
//! pub(crate) struct Asset {
//!     path: &'static str,            // "index.html", "assets/index-B2x9.js": no leading slash
//!     etag: &'static str,            // `W/"0123456789abcdef"`, from the content
//!     bytes: &'static [u8],
//!     gzip: Option<&'static [u8]>,   // compressed content; `None` if not worthwhile
//!     brotli: Option<&'static [u8]>, // the same
//! }
//! pub(crate) static ASSETS: &[Asset]
//! ```
//!
//! `x.gz` and `x.br` next to `x` are compressed forms of `x`, not separate assets.

use std::{
    env,
    fmt::Write,
    fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

/// Entries of `web/` that are not part of the client, so that changes there do not trigger a rebuild.
const NOT_INPUTS: &[&str] = &[
    "node_modules",
    "dist",
    "e2e",
    "tests",
    "test-artifacts",
    ".npm-ci.lock",
];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=build.rs");
    // Failpoints and settings that only tests use.
    println!("cargo::rustc-check-cfg=cfg(test_hooks)");
    if env::var("PROFILE").expect("set by cargo") == "debug" {
        println!("cargo::rustc-cfg=test_hooks");
    }
    println!("cargo::rerun-if-env-changed=OPENVIBE_WEB_DIST");
    println!("cargo::rerun-if-env-changed=OPENVIBE_NOTICES");
    fs::write(out.join("notices.gz"), notices()).expect("OUT_DIR is writable");

    let ready = env::var_os("OPENVIBE_WEB_DIST").filter(|dir| !dir.is_empty());
    let assets = if let Some(ready) = ready {
        let ready = root.join(ready);
        assert!(
            ready.join("index.html").is_file(),
            "OPENVIBE_WEB_DIST is {}, which has no index.html. Build the client \
             (`npm run build` in web/) or unset the variable.",
            ready.display()
        );
        println!("cargo::rerun-if-changed={}", ready.display());
        list_assets(&ready)
    } else {
        build_client(&root, &out.join("web"));
        list_assets(&out.join("web"))
    };
    fs::write(out.join("assets.rs"), table(&assets)).expect("OUT_DIR is writable");
}

/// Licenses of dependencies, compressed; `make release` sets `OPENVIBE_NOTICES` to their file. Other builds have none.
fn notices() -> Vec<u8> {
    match env::var_os("OPENVIBE_NOTICES").filter(|path| !path.is_empty()) {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", Path::new(&path).display());
            fs::read(&path).expect("the file in OPENVIBE_NOTICES is readable")
        }
        None => Vec::new(),
    }
}

fn build_client(root: &Path, to: &Path) {
    let web = root.join("web");
    for entry in fs::read_dir(&web).expect("web/ is readable").flatten() {
        if !NOT_INPUTS.iter().any(|skip| entry.file_name() == *skip) {
            println!("cargo::rerun-if-changed={}", entry.path().display());
        }
    }
    let precompress = root.join("scripts/precompress.mjs");
    println!("cargo::rerun-if-changed={}", precompress.display());

    let tools = Tools::find(root);
    install_packages(&tools, &web);
    let mut vite = tools.command("node");
    vite.arg("node_modules/vite/bin/vite.js")
        .args(["build", "--logLevel", "warn", "--emptyOutDir", "--outDir"])
        .arg(to)
        .current_dir(&web);
    run(vite, "the Vite build");
    let mut compress = tools.command("node");
    compress.arg(precompress).arg(to);
    run(compress, "compressing the client");
}

/// Runs `npm ci` if the lockfile changed. The stamp is in `node_modules`, which `npm ci` empties first, so an
/// interrupted install leaves no stamp.
fn install_packages(tools: &Tools, web: &Path) {
    // Builds with different target directories share web/node_modules, so installs are serialized.
    let lock = File::create(web.join(".npm-ci.lock")).expect("web/ is writable");
    lock.lock().expect("the file system supports locks");
    let wanted = fs::read(web.join("package-lock.json")).expect("package-lock.json is readable");
    let stamp = web.join("node_modules/.openvibe-lockfile");
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return;
    }
    let mut npm = tools.command("npm");
    // Vite is a development dependency, which NODE_ENV=production would omit.
    npm.args([
        "ci",
        "--include=dev",
        "--no-audit",
        "--no-fund",
        "--prefer-offline",
    ])
    .current_dir(web);
    run(npm, "npm ci");
    fs::write(stamp, wanted).expect("npm ci created node_modules");
}

/// Node and npm: from `.tools` (see `scripts/ensure-node.sh`) if available, otherwise from the system.
struct Tools {
    path: std::ffi::OsString,
}

impl Tools {
    fn find(root: &Path) -> Self {
        let system = env::var_os("PATH").unwrap_or_default();
        let places = [root.join(".tools/bin")]
            .into_iter()
            .chain(env::split_paths(&system));
        let tools = Self {
            path: env::join_paths(places).expect("the checkout path has no colon"),
        };
        let answer = tools.command("node").arg("--version").output();
        let version = answer.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
        match &version {
            Ok(version) if node_fits(version) => tools,
            found => panic!(
                "The build of the web client needs Node 20.19, or 22.12 or newer; found {}. Run \
                 scripts/ensure-node.sh, or set OPENVIBE_WEB_DIST to the directory of a prebuilt client.",
                found.as_ref().map_or("none", |v| v.as_str()),
            ),
        }
    }

    fn command(&self, program: &str) -> Command {
        // `Command` looks up a program name in the PATH that is set for the child.
        let mut command = Command::new(program);
        command.env("PATH", &self.path);
        command
    }
}

/// Checks the Node version (such as `v20.19.4`) against the requirement of Vite 8; the same check is in scripts/ensure-node.sh.
fn node_fits(text: &str) -> bool {
    let mut parts = text
        .trim_start_matches('v')
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    match (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) {
        (20, minor) => minor >= 19,
        (22, minor) => minor >= 12,
        (major, _) => major > 22,
    }
}

fn run(mut command: Command, what: &str) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{what} failed ({status}): see its output above"),
        Err(error) => panic!("could not start {what}: {error}"),
    }
}

struct Asset {
    path: String,
    file: PathBuf,
    gzip: Option<PathBuf>,
    brotli: Option<PathBuf>,
}

/// Lists all files below `dir`, by relative path.
fn list_assets(dir: &Path) -> Vec<Asset> {
    let mut files = Vec::new();
    walk(dir, &mut files);
    let mut assets: Vec<Asset> = files
        .into_iter()
        .filter(|file| !is_compressed_form(file))
        .map(|file| {
            let path = file.strip_prefix(dir).expect("the file is below dir");
            let path = path
                .to_str()
                .expect("asset names are UTF-8")
                .replace('\\', "/");
            let form = |extension| Some(beside(&file, extension)).filter(|form| form.is_file());
            let (gzip, brotli) = (form("gz"), form("br"));
            Asset {
                path,
                file,
                gzip,
                brotli,
            }
        })
        .collect();
    assets.sort_by(|a, b| a.path.cmp(&b.path));
    assets
}

fn walk(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir)
        .expect("asset directories are readable")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            walk(&path, files);
        } else {
            files.push(path);
        }
    }
}

fn beside(file: &Path, extension: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

fn is_compressed_form(file: &Path) -> bool {
    file.extension().is_some_and(|e| e == "gz" || e == "br") && file.with_extension("").is_file()
}

fn table(assets: &[Asset]) -> String {
    let mut rows = String::new();
    for asset in assets {
        let Asset { path, file, .. } = asset;
        let etag = format!(
            "W/\"{:016x}\"",
            fnv1a(&fs::read(file).expect("listed files are readable"))
        );
        let bytes = include(file);
        let form = |form: &Option<PathBuf>| {
            form.as_deref()
                .map_or("None".into(), |form| format!("Some({})", include(form)))
        };
        let (gzip, brotli) = (form(&asset.gzip), form(&asset.brotli));
        writeln!(
            rows,
            "    Asset {{ path: {path:?}, etag: {etag:?}, bytes: {bytes}, gzip: {gzip}, brotli: {brotli} }},"
        )
        .expect("writing to a String cannot fail");
    }
    format!(
        "/// File of the web client. Generated by `build.rs`, which documents the fields.\n\
         pub(crate) struct Asset {{\n    \
             pub(crate) path: &'static str,\n    \
             pub(crate) etag: &'static str,\n    \
             pub(crate) bytes: &'static [u8],\n    \
             pub(crate) gzip: Option<&'static [u8]>,\n    \
             pub(crate) brotli: Option<&'static [u8]>,\n\
         }}\n\n\
         /// Sorted by path.\n\
         pub(crate) static ASSETS: &[Asset] = &[\n{rows}];\n"
    )
}

fn include(file: &Path) -> String {
    format!(
        "include_bytes!({:?})",
        file.to_str().expect("the checkout path is UTF-8")
    )
}

/// 64-bit FNV-1a hash. It distinguishes versions of a file and does not need to be secure.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
