//! The web client, embedded in the binary.

use axum::{
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{ApiError, encoding::accepts, unsent::InProgram};

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Content security policy that allows only the server's own scripts and styles, and no requests to other
/// sites.
const CSP: &str = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; \
                   connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// Policy of the service worker's own response, under which the worker runs and fetches the client's
/// files.
const WORKER_CSP: &str = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'";

/// Paths of the `OpenAI` API without `/v1`, to which clients with an incomplete base URL send requests.
const API_ROUTES: [&str; 5] = [
    "models",
    "chat/completions",
    "completions",
    "responses",
    "embeddings",
];

fn accepts_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT);
    accept.is_some_and(|accept| {
        accept
            .as_bytes()
            .windows(9)
            .any(|part| part == b"text/html")
    })
}

/// The client in the program. If tests set `OPENVIBE_WEB_DIST`, the one in that directory: a change of the client then needs no new
/// program.
fn client() -> &'static [Asset] {
    #[cfg(test_hooks)]
    if let Some(replaced) = replaced::client() {
        return replaced;
    }
    ASSETS
}

fn find(path: &str) -> Option<&'static Asset> {
    let assets = client();
    assets
        .binary_search_by(|asset| asset.path.cmp(path))
        .ok()
        .map(|i| &assets[i])
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "woff2" => "font/woff2",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}

/// Serves an asset, or the page for a client-side route.
pub async fn serve(method: Method, uri: axum::http::Uri, headers: HeaderMap) -> Response {
    let path = uri.path().trim_start_matches('/');
    // Clients that request metadata, such as OAuth metadata, parse every successful response as JSON.
    let is_metadata = path.starts_with(".well-known/");
    if path.starts_with("v1/") || path == "v1" || is_metadata {
        return ApiError::no_route().into_response();
    }
    // Browsers open pages with this path if a workspace has it as its slug.
    let is_page = method == Method::GET && accepts_page(&headers);
    if API_ROUTES.contains(&path.trim_end_matches('/')) && !is_page {
        return ApiError::no_version().into_response();
    }
    if !matches!(method, Method::GET | Method::HEAD) {
        return ApiError::wrong_method().into_response();
    }
    let asset = match path {
        "docs" => find("docs.html"),
        path => find(path),
    };
    // A path that looks like a file but is not an asset gets 404; every other path is a client-side
    // route.
    let is_file = path.starts_with("assets/")
        || path
            .rsplit('/')
            .next()
            .is_some_and(|name| name.contains('.'));
    match asset.or_else(|| if is_file { None } else { find("index.html") }) {
        Some(asset) => answer(asset, &headers),
        None => ApiError::no_route().into_response(),
    }
}

fn answer(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|v| v.to_str().ok());
    let mut response =
        if known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == asset.etag)) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let forms = [("br", asset.brotli), ("gzip", asset.gzip)];
            let accepted = forms.into_iter().find_map(|(name, bytes)| {
                bytes.filter(|_| accepts(headers, name)).map(|b| (name, b))
            });
            match accepted {
                Some((name, bytes)) => ([(header::CONTENT_ENCODING, name)], bytes).into_response(),
                None => asset.bytes.into_response(),
            }
        };
    response.extensions_mut().insert(InProgram);
    let out = response.headers_mut();
    out.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(content_type(asset.path)),
    );
    out.insert(header::ETAG, HeaderValue::from_static(asset.etag));
    out.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // Names under assets/ contain a hash of the content.
    let cache = if asset.path.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "no-cache"
    };
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    let policy = match asset.path {
        "sw.js" => Some(WORKER_CSP),
        path if content_type(path).starts_with("text/html") => Some(CSP),
        _ => None,
    };
    if let Some(policy) = policy {
        out.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(policy),
        );
    }
    response
}

#[cfg(test_hooks)]
mod replaced {
    use std::{fs, path::Path, sync::LazyLock};

    use sha2::{Digest, Sha256};

    use super::Asset;

    static CLIENT: LazyLock<Option<Vec<Asset>>> = LazyLock::new(|| {
        let dir = std::env::var_os("OPENVIBE_WEB_DIST")?;
        let dir = Path::new(&dir);
        let mut assets = Vec::new();
        read(dir, dir, &mut assets);
        assets.sort_unstable_by_key(|asset| asset.path);
        Some(assets)
    });

    pub(super) fn client() -> Option<&'static [Asset]> {
        CLIENT.as_deref()
    }

    /// Reads the files below `dir`, for as long as the process runs.
    fn read(root: &Path, dir: &Path, assets: &mut Vec<Asset>) {
        for entry in fs::read_dir(dir).expect("the client is readable").flatten() {
            let file = entry.path();
            if file.is_dir() {
                read(root, &file, assets);
                continue;
            }
            let path = file.strip_prefix(root).expect("the file is below root");
            let path: &'static str = path.to_string_lossy().into_owned().leak();
            let bytes: &'static [u8] = fs::read(&file).expect("the file is readable").leak();
            let form = |extension| {
                let form = fs::read(format!("{}.{extension}", file.display())).ok()?;
                Some(&*form.leak())
            };
            assets.push(Asset {
                path,
                etag: format!("W/\"{}\"", hex::encode(&Sha256::digest(bytes)[..8])).leak(),
                bytes,
                gzip: form("gz"),
                brotli: form("br"),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::content_type;

    #[test]
    fn the_manifest_has_its_own_media_type() {
        let path = "manifest.webmanifest";
        assert_eq!(content_type(path), "application/manifest+json");
    }
}
