//! Products whose webhooks are recognized, and templates for their messages, read from `seeds/hooks`.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::Value;

use super::template::{Document, HookTemplate};

const SEEDS: &[&str] = &[
    include_str!("../../seeds/hooks/github.yaml"),
    include_str!("../../seeds/hooks/gitlab.yaml"),
    include_str!("../../seeds/hooks/sentry.yaml"),
    // Alerts of Grafana have all members of alerts of Alertmanager.
    include_str!("../../seeds/hooks/grafana.yaml"),
    include_str!("../../seeds/hooks/alertmanager.yaml"),
];

static PRODUCTS: LazyLock<Vec<Product>> =
    LazyLock::new(|| SEEDS.iter().filter_map(|seed| parse(seed).ok()).collect());

fn parse(seed: &str) -> Result<Product, serde_yaml_ng::Error> {
    serde_yaml_ng::from_str(seed)
}

/// Values that a document must have: for each path, the accepted texts, or none if any text that is not empty is accepted.
type Conditions = BTreeMap<String, Vec<String>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Product {
    /// Name of a product that is recognized by `members`.
    #[serde(default)]
    name: String,
    #[serde(default)]
    members: Conditions,
    /// Headers that contain the event, most specific first.
    #[serde(default)]
    headers: Vec<EventHeader>,
    /// The first one that fits is used.
    messages: Vec<Choice>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EventHeader {
    name: String,
    product: String,
}

#[derive(Debug, Deserialize)]
struct Choice {
    #[serde(default)]
    when: Conditions,
    #[serde(flatten)]
    template: HookTemplate,
}

/// A template for a document, and the name of the product that sent it.
#[derive(Debug)]
pub(super) struct Recognized<'a> {
    pub(super) product: &'a str,
    pub(super) template: &'a HookTemplate,
    pub(super) document: Document<'a>,
}

fn fits(conditions: &Conditions, document: Document<'_>) -> bool {
    conditions.iter().all(|(path, accepted)| {
        let text = document.text(path, None);
        if accepted.is_empty() {
            !text.is_empty()
        } else {
            accepted.contains(&text)
        }
    })
}

/// Names of the headers that contain an event.
pub fn event_headers() -> impl Iterator<Item = &'static str> {
    let headers = PRODUCTS.iter().flat_map(|product| &product.headers);
    headers.map(|header| header.name.as_str())
}

/// Finds the product that sent a document, by the event headers of the request or by the members of the document.
pub(super) fn recognize<'a>(
    json: &'a Value,
    events: &'a BTreeMap<String, String>,
) -> Option<Recognized<'a>> {
    PRODUCTS.iter().find_map(|product| {
        let headers = product.headers.iter();
        let mut found = headers.filter_map(|header| Some((header, events.get(&header.name)?)));
        let (name, event) = match found.next() {
            Some((header, event)) => (&header.product, event.as_str()),
            None if product.members.is_empty() => return None,
            None => (&product.name, ""),
        };
        let document = Document { json, event };
        if !fits(&product.members, document) {
            return None;
        }
        let mut choices = product.messages.iter();
        let choice = choices.find(|choice| fits(&choice.when, document))?;
        Some(Recognized {
            product: name,
            template: &choice.template,
            document,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_products_have_valid_templates() {
        for seed in SEEDS {
            let product = parse(seed).unwrap();
            assert!(!product.headers.is_empty() || !product.members.is_empty());
            let last = product.messages.last().unwrap();
            assert!(last.when.is_empty(), "every document of a product is shown");
            for choice in &product.messages {
                choice.template.check().unwrap();
            }
        }
    }
}
