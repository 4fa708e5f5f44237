//! A resolution as Markdown: the text of the resolution message, for other clients and for agents.

use super::resolution::Resolution;

/// Headline, conclusion, key points, action items, open questions, and deferred items; empty parts
/// are omitted.
pub(super) fn markdown(result: &Resolution) -> String {
    let mut parts = vec![format!("**{}**", result.headline)];
    if !result.conclusion.is_empty() {
        parts.push(result.conclusion.clone());
    }
    let texts = |points: &[super::resolution::SourcedText]| -> Vec<String> {
        points.iter().map(|point| point.text.clone()).collect()
    };
    parts.extend(list("", &texts(&result.key_points)));
    let items: Vec<String> = result
        .action_items
        .iter()
        .map(|item| {
            let details: Vec<String> = [
                item.owner_name.clone(),
                item.due.as_ref().map(|day| format!("due {day}")),
                item.done.then(|| "done".to_owned()),
            ]
            .into_iter()
            .flatten()
            .collect();
            if details.is_empty() {
                item.text.clone()
            } else {
                format!("{} ({})", item.text, details.join(", "))
            }
        })
        .collect();
    parts.extend(list("Action items", &items));
    parts.extend(list("Open questions", &texts(&result.open_questions)));
    parts.extend(list("Postponed", &texts(&result.deferred_items)));
    parts.join("\n\n")
}

fn list(heading: &str, lines: &[String]) -> Option<String> {
    if lines.is_empty() {
        return None;
    }
    let lines: Vec<String> = lines.iter().map(|line| format!("- {line}")).collect();
    let lines = lines.join("\n");
    Some(if heading.is_empty() {
        lines
    } else {
        format!("**{heading}**\n{lines}")
    })
}
