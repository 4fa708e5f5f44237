//! Check `push`: conditions under which devices get notifications.

use super::{finding::Finding, subject::CheckedServer};
use crate::{push::vapid::Subject, server::hosts::is_loopback_url};

pub(super) fn check(s: &CheckedServer) -> Finding {
    let url = &s.public_url;
    if is_loopback_url(url) {
        return Finding::skipped("the public URL is that of this machine");
    }
    if !url.starts_with("https://") {
        return Finding::warning(
            format!("browsers offer notifications only with HTTPS, and {url} has none"),
            "set OPENVIBE_DOMAIN, or put a proxy with HTTPS in front",
        );
    }
    let subject = Subject::new(s.config.push_subject.as_deref(), url);
    if subject.is_accepted {
        return Finding::ok(format!("notifications name {} as contact", subject.text));
    }
    Finding::warning(
        format!("iPhones and Macs will refuse notifications, because {url} has no public name"),
        "set OPENVIBE_PUSH_SUBJECT to mailto:YOU@YOUR-DOMAIN",
    )
}
