//! Links of a message to the domains of a bot.

use serde::Serialize;

use crate::outbound::{Url, is_in_domain};

/// Maximum number of links in an event.
const LINKS_MAX: usize = 20;

/// A link in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct SharedLink {
    /// The domain of the bot.
    pub(super) domain: String,
    pub(super) url: String,
}

/// Links to these domains or their subdomains, in the order of the text, without repetitions.
pub(super) fn links_in(content: &str, domains: &[String]) -> Vec<SharedLink> {
    let mut found: Vec<SharedLink> = Vec::new();
    if domains.is_empty() {
        return found;
    }
    // A link ends where the next one can begin, so that a long text without spaces is read once.
    let mut end = 0;
    for (at, _) in content.match_indices("http") {
        let rest = &content[at..];
        if at < end
            || content[..at].ends_with(char::is_alphanumeric)
            || !(rest.starts_with("http://") || rest.starts_with("https://"))
        {
            continue;
        }
        let is_end = |c: char| c.is_whitespace() || ")>]\"'<,;|`*".contains(c);
        let text = rest.split(is_end).next().unwrap_or_default();
        end = at + text.len();
        let text = text.trim_end_matches(['.', '!', '?', ':']);
        let host = Url::parse(text)
            .ok()
            .and_then(|url| url.host_str().map(str::to_lowercase));
        let Some(host) = host else { continue };
        let Some(domain) = domains.iter().find(|domain| is_in_domain(&host, domain)) else {
            continue;
        };
        let link = SharedLink {
            domain: domain.clone(),
            url: text.to_owned(),
        };
        if !found.contains(&link) {
            found.push(link);
        }
        if found.len() == LINKS_MAX {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_a_domain_and_its_subdomains_are_found() {
        let domains = ["example.com".to_owned(), "git.test".to_owned()];
        let text = "See https://example.com/a, (http://docs.example.com/b?x=1). Not https://badexample.com or xhttps://example.com/no; \
                    **<https://git.test/7>** and again https://example.com/a!";
        let urls: Vec<String> = links_in(text, &domains)
            .into_iter()
            .map(|link| format!("{} {}", link.domain, link.url))
            .collect();
        assert_eq!(
            urls,
            [
                "example.com https://example.com/a",
                "example.com http://docs.example.com/b?x=1",
                "git.test https://git.test/7",
            ]
        );
        assert!(links_in(text, &[]).is_empty());
        let nested = links_in("https://example.com/?next=https://example.com/b", &domains);
        assert_eq!(nested.len(), 1, "{nested:?}");
        let many: Vec<String> = (0..50)
            .map(|n| format!("https://example.com/{n}"))
            .collect();
        assert_eq!(links_in(&many.join(" "), &domains).len(), LINKS_MAX);
    }
}
