//! Requests to push services.

use reqwest::header::{AUTHORIZATION, CONTENT_ENCODING};

use crate::{
    outbound::Url,
    poster::{Answer, Poster},
    text_enum::text_enum,
};

/// Time for which a push service keeps a message for a device that is not reachable, in seconds.
const TTL_S: &str = "86400";
/// Maximum length of an answer; the rest is not read.
const ANSWER_BYTES_MAX: usize = 4096;

text_enum! {
    /// Importance of a message, by which a phone decides whether to wake up.
    pub(super) enum Urgency {
        High = "high",
        Normal = "normal",
    }
}

/// An encrypted message.
pub(super) struct PushRequest<'a> {
    pub(super) url: Url,
    pub(super) authorization: &'a str,
    pub(super) topic: &'a str,
    pub(super) urgency: Urgency,
    pub(super) body: Vec<u8>,
}

/// Name of the company that runs a push service.
pub(super) fn service_of(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default();
    if host.ends_with("push.apple.com") {
        "Apple"
    } else if host.ends_with("googleapis.com") {
        "Google"
    } else if host.ends_with("mozilla.com") {
        "Mozilla"
    } else if host.ends_with("windows.com") {
        "Microsoft"
    } else {
        host
    }
}

/// An answer in JSON, as Apple sends them.
#[derive(serde::Deserialize)]
struct Reasoned {
    reason: String,
}

/// The reason that an answer gives, or the whole answer, as people see it.
fn shown(mut answer: Answer) -> Answer {
    if let Ok(Reasoned { reason }) = serde_json::from_str(&answer.text) {
        answer.text = reason;
    }
    answer.text = answer.shown();
    answer
}

/// Sends a message, and returns the answer or the reason why there is none.
pub(super) async fn send(poster: &Poster, request: PushRequest<'_>) -> Answer {
    let build = |sent: reqwest::RequestBuilder| {
        sent.header(AUTHORIZATION, request.authorization)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header("TTL", TTL_S)
            .header("Urgency", request.urgency.as_str())
            .header("Topic", request.topic)
            .body(request.body)
    };
    shown(poster.post(request.url, build, ANSWER_BYTES_MAX).await)
}

#[cfg(test)]
mod tests {
    use super::{Answer, shown};

    #[test]
    fn an_answer_is_its_reason_or_a_line() {
        for (answer, text) in [
            (r#"{"reason":"BadJwtToken"}"#, "BadJwtToken"),
            (r#"{"code": 403}"#, r#"{"code": 403}"#),
            ("permission\r\n denied\u{7}", "permission denied"),
            ("", ""),
        ] {
            assert_eq!(shown(Answer::lost(answer)).text, text);
        }
        assert_eq!(shown(Answer::lost(&"x".repeat(300))).text.len(), 200);
    }
}
