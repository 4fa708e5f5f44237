//! Web pages that agents read: text, redirects, limits, and addresses.

use axum::{
    Router,
    extract::Path,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::get,
};
use openvibe::{
    outbound::{Exemption, OwnServer},
    tool_fault::ToolErrorCode,
    web::{Fetcher, TEXT_BYTES_MAX},
};
use tokio::{net::TcpListener, task::JoinSet};

const HTML: [(&str, &str); 1] = [("content-type", "text/html; charset=utf-8")];

async fn page(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let to = |target: &str| (StatusCode::FOUND, [("location", target.to_owned())]).into_response();
    match name.as_str() {
        "fair" => (
            HTML,
            "<h1>Fair</h1><p>Two quiet days.</p><script>1</script>",
        )
            .into_response(),
        "headers" => format!(
            "cookie: {}, referer: {}",
            headers.contains_key("cookie"),
            headers.contains_key("referer")
        )
        .into_response(),
        "long" => "é".repeat(40 * 1024).into_response(),
        "flood" => "x".repeat(50 << 20).into_response(),
        "formatting" => {
            let open: Vec<String> = (0..1000).map(|n| format!("<b id={n}>")).collect();
            let open = open.concat();
            let html = format!("<p>{open}x</p>{}", "<p>x".repeat(50_000));
            (HTML, html).into_response()
        }
        "deep" => (HTML, "<div>".repeat(40_000)).into_response(),
        "pdf" => ([("content-type", "application/pdf")], "%PDF").into_response(),
        "once" => to("/headers"),
        "twice" => to("/once"),
        "thrice" => to("/twice"),
        "loop" => to("/loop"),
        "metadata" => to("http://169.254.169.254/latest/meta-data/"),
        "local" => to("http://localhost:1/"),
        "file" => to("file:///etc/passwd"),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Serves pages and returns their origin.
async fn serve() -> (String, JoinSet<()>) {
    let router = Router::new().route("/{name}", get(page));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, router).await.unwrap() });
    (origin, serving)
}

fn fetcher(exempt: &str) -> Fetcher {
    // `App` does this at startup, but these tests do not have one.
    drop(rustls::crypto::ring::default_provider().install_default());
    let own = OwnServer::new("127.0.0.1:1".parse().unwrap(), "https://chat.example");
    Fetcher::new(Exemption::parse_list(exempt).unwrap(), own)
}

#[tokio::test]
async fn a_page_is_read_as_text_after_up_to_three_redirects() {
    let (origin, _serving) = serve().await;
    let fetcher = fetcher("127.0.0.1");
    let read = fetcher.fetch(&format!("{origin}/fair#top"), 0).await;
    let fair = read.unwrap();
    assert!(fair.text.contains("Fair") && fair.text.contains("Two quiet days."));
    assert!(!fair.text.contains("script"), "{}", fair.text);
    assert_eq!(fair.url, format!("{origin}/fair"));
    for from in ["headers", "once", "twice", "thrice"] {
        let page = fetcher.fetch(&format!("{origin}/{from}"), 0).await.unwrap();
        assert_eq!(page.text, "cookie: false, referer: false", "{from}");
        assert_eq!(page.url, format!("{origin}/headers"), "{from}");
    }
}

#[tokio::test]
async fn a_long_page_is_read_in_parts_and_a_flood_is_cut() {
    let (origin, _serving) = serve().await;
    let fetcher = fetcher("127.0.0.1");
    let mut whole = String::new();
    let mut next = Some(0);
    while let Some(offset) = next {
        let read = fetcher.fetch(&format!("{origin}/long"), offset).await;
        let part = read.unwrap();
        assert!(part.text.len() <= TEXT_BYTES_MAX);
        whole.push_str(&part.text);
        next = part.next_offset;
    }
    assert_eq!(whole, "é".repeat(40 * 1024));
    let end = (2 << 20) - 10;
    let flood = fetcher
        .fetch(&format!("{origin}/flood"), end)
        .await
        .unwrap();
    assert_eq!((flood.text.len(), flood.next_offset), (10, None));
}

#[tokio::test]
async fn pages_of_very_many_elements_are_read_one_after_the_other() {
    let (origin, _serving) = serve().await;
    let fetcher = fetcher("127.0.0.1");
    // Reads more pages than the server can convert at the same time, so that each conversion must release its slot.
    for (name, begins) in [
        ("formatting", "x\n\nx"),
        ("deep", ""),
        ("formatting", "x"),
        ("deep", ""),
    ] {
        let read = fetcher.fetch(&format!("{origin}/{name}"), 0).await;
        assert!(read.unwrap().text.starts_with(begins), "{name}");
    }
    let fair = fetcher.fetch(&format!("{origin}/fair"), 0).await;
    assert!(fair.unwrap().text.contains("Fair"));
}

#[tokio::test]
async fn other_content_and_forbidden_targets_are_errors() {
    use ToolErrorCode::{NotAllowed, ToolFailed, ToolUnreachable, Unreadable};
    let (origin, _serving) = serve().await;
    let fetcher_near = fetcher("127.0.0.1");
    for (name, code) in [
        ("pdf", Unreadable),
        ("absent", ToolFailed),
        ("loop", ToolFailed),
        ("file", ToolFailed),
        ("metadata", NotAllowed),
        ("local", NotAllowed),
    ] {
        let read = fetcher_near.fetch(&format!("{origin}/{name}"), 0).await;
        assert_eq!(read.unwrap_err().code, code, "{name}");
    }
    let read = fetcher("").fetch(&format!("{origin}/fair"), 0).await;
    assert_eq!(read.unwrap_err().code, NotAllowed);
    let closed = fetcher_near.fetch("http://127.0.0.1:9/", 0).await;
    assert_eq!(closed.unwrap_err().code, ToolUnreachable);
    let fair = format!("{origin}/fair");
    let only = fetcher_near.fetch_from(&fair, 0, |host| host == "example.com");
    let denied = only.await.unwrap_err();
    assert_eq!(denied.code, NotAllowed);
}
