//! Signatures of requests to bots.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::hmac::{self, HMAC_SHA256, Key};

/// `webhook-signature` of Standard Webhooks, with each of the secrets.
pub(super) fn standard_signature(secrets: &[String], id: &str, at_s: i64, body: &[u8]) -> String {
    let mut signed = format!("{id}.{at_s}.").into_bytes();
    signed.extend_from_slice(body);
    let signatures = secrets.iter().map(|secret| {
        let bytes = secret
            .strip_prefix("whsec_")
            .and_then(|text| STANDARD.decode(text).ok())
            .unwrap_or_else(|| secret.as_bytes().to_vec());
        let tag = hmac::sign(&Key::new(HMAC_SHA256, &bytes), &signed);
        format!("v1,{}", STANDARD.encode(tag))
    });
    signatures.collect::<Vec<_>>().join(" ")
}

/// `X-Slack-Signature`. The key is the text of the secret, as Slack's libraries expect.
pub(super) fn slack_signature(secret: &str, at_s: i64, body: &[u8]) -> String {
    let mut signed = format!("v0:{at_s}:").into_bytes();
    signed.extend_from_slice(body);
    let tag = hmac::sign(&Key::new(HMAC_SHA256, secret.as_bytes()), &signed);
    format!("v0={}", hex::encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_those_of_the_published_examples() {
        // The example of the Standard Webhooks specification.
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned();
        let body = br#"{"test": 2432232314}"#;
        let signed = standard_signature(
            std::slice::from_ref(&secret),
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            body,
        );
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let two = [secret.clone(), secret];
        let both = standard_signature(&two, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(both, format!("{signed} {signed}"));
        // The example of Slack's documentation.
        let body = b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        assert_eq!(
            slack_signature("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, body),
            "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"
        );
    }
}
