//! IDENTITY.md: a separate text whose name and emoji lines are kept in sync with the profile's fields.

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

use super::{Agent, Avatar, NewAgent, Profile};

const HANDLE_CHARS_MAX: usize = 64;
const EMOJI_UNITS_MAX: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Emoji,
}

/// The field that is set by a line such as `- Name: Ops` or `**Emoji:** 🛠️`, and the offset of the value.
fn field_of(line: &str) -> Option<(Field, usize)> {
    let marks = |c: char| matches!(c, '-' | '*' | '_' | ' ' | '\t');
    let start = line.len() - line.trim_start_matches(marks).len();
    let rest = &line[start..];
    let colon = rest.find(':')?;
    let field = match rest[..colon]
        .trim_matches(marks)
        .to_ascii_lowercase()
        .as_str()
    {
        "name" => Field::Name,
        "emoji" => Field::Emoji,
        _ => return None,
    };
    let after = &rest[colon + 1..];
    let value = start + colon + 1 + (after.len() - after.trim_start_matches(marks).len());
    Some((field, value))
}

/// Value of the first line that sets this field.
fn value_of(text: &str, wanted: Field) -> Option<String> {
    text.lines()
        .find_map(|line| match field_of(line) {
            Some((field, at)) if field == wanted => Some(line[at..].trim().to_owned()),
            _ => None,
        })
        .filter(|value| !value.is_empty())
}

/// Name in the text, such as `Ops` in `- Name: Ops`.
pub fn name_in(text: &str) -> Option<String> {
    value_of(text, Field::Name)
}

/// Handle made from a name, such as `quill-feather` from `Quill Feather`; `None` if nothing is left. The import in the browser makes
/// the same one (`handleFrom`).
pub fn handle_from(name: &str) -> Option<String> {
    let mut handle = String::new();
    let plain = name.replace('ß', "ss");
    let plain = plain.nfkd().filter(|c| !is_combining_mark(*c));
    for c in plain.flat_map(char::to_lowercase) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' {
            handle.push(c);
        } else if !handle.ends_with('-') {
            handle.push('-');
        }
    }
    let handle = handle.trim_start_matches(['-', '_']).trim_end_matches('-');
    let handle: String = handle.chars().take(HANDLE_CHARS_MAX).collect();
    Some(handle).filter(|handle| !handle.is_empty())
}

/// Returns the text with the given value in every line that sets this field.
fn with_value(text: &str, wanted: Field, value: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| match field_of(line) {
            Some((field, at)) if field == wanted => {
                let head = line[..at].trim_end();
                format!("{head} {value}").trim_end().to_owned()
            }
            _ => line.to_owned(),
        })
        .collect();
    lines.join("\n")
}

/// Returns the text without the values of the lines that follow the profile's fields.
pub(super) fn without_fields(text: &str) -> String {
    with_value(&with_value(text, Field::Name, ""), Field::Emoji, "")
}

/// Reconciles the text with the fields: the side that was changed wins, or the fields if both were changed.
pub(super) fn reconcile(before: Option<&Profile>, profile: &mut Profile) {
    let Some(text) = profile.identity.clone() else {
        return;
    };
    let text_changed = before.is_none_or(|old| old.identity.as_ref() != Some(&text));
    let name_changed = before.is_some_and(|old| old.display_name != profile.display_name)
        || (before.is_none() && profile.display_name.is_some());
    let emoji_of = |profile: &Profile| profile.avatar.as_ref().and_then(|a| a.emoji.clone());
    let emoji_changed = before.is_some_and(|old| emoji_of(old) != emoji_of(profile))
        || (before.is_none() && emoji_of(profile).is_some());
    let mut settled = text.clone();
    match value_of(&text, Field::Name) {
        Some(name) if text_changed && !name_changed => profile.display_name = Some(name),
        _ => {
            let name = profile.display_name.clone().unwrap_or_default();
            settled = with_value(&settled, Field::Name, &name);
        }
    }
    match value_of(&text, Field::Emoji) {
        Some(emoji)
            if text_changed
                && !emoji_changed
                && emoji.encode_utf16().count() <= EMOJI_UNITS_MAX =>
        {
            let mut avatar = profile.avatar.take().unwrap_or_default();
            avatar.emoji = Some(emoji);
            profile.avatar = Some(avatar);
        }
        _ => {
            let emoji = emoji_of(profile).unwrap_or_default();
            settled = with_value(&settled, Field::Emoji, &emoji);
        }
    }
    profile.identity = Some(settled);
}

impl Agent {
    /// Content of IDENTITY.md.
    pub fn identity_text(&self) -> String {
        let of = &self.summary;
        let own = self.identity.as_deref();
        own.map_or_else(
            || {
                made_of(
                    &of.name,
                    of.display_name.as_deref(),
                    of.avatar.as_ref(),
                    of.description.as_deref(),
                )
            },
            str::to_owned,
        )
    }
}

impl NewAgent {
    /// Content of IDENTITY.md for an agent created from this form.
    pub fn identity_text(&self) -> String {
        let own = self.identity.as_deref();
        own.map_or_else(
            || {
                made_of(
                    &self.name,
                    self.display_name.as_deref(),
                    self.avatar.as_ref(),
                    self.description.as_deref(),
                )
            },
            str::to_owned,
        )
    }
}

/// Generates the text for an agent without an identity text.
fn made_of(
    name: &str,
    display_name: Option<&str>,
    avatar: Option<&Avatar>,
    description: Option<&str>,
) -> String {
    let mut text = format!("- Name: {}\n", display_name.unwrap_or(name));
    if let Some(emoji) = avatar.and_then(|a| a.emoji.as_deref()) {
        text.push_str("- Emoji: ");
        text.push_str(emoji);
        text.push('\n');
    }
    if let Some(description) = description {
        text.push('\n');
        text.push_str(description);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(identity: &str, name: Option<&str>) -> Profile {
        Profile {
            identity: Some(identity.to_owned()),
            display_name: name.map(str::to_owned),
            ..Profile::default()
        }
    }

    #[test]
    fn name_lines_in_the_text_set_the_agents_fields() {
        let mut new = profile(
            "# Me\n- **Name:** Ops\n- Emoji: 🛠️\n- Creature: owl\n",
            None,
        );
        reconcile(Some(&Profile::default()), &mut new);
        assert_eq!(new.display_name.as_deref(), Some("Ops"));
        assert_eq!(new.avatar.unwrap().emoji.as_deref(), Some("🛠️"));
        assert_eq!(
            new.identity.as_deref(),
            Some("# Me\n- **Name:** Ops\n- Emoji: 🛠️\n- Creature: owl\n")
        );
    }

    #[test]
    fn a_changed_field_is_written_to_the_text() {
        let old = profile("- Name: Ops\n- Vibe: calm", Some("Ops"));
        let mut new = Profile {
            display_name: Some("Operations".to_owned()),
            ..old.clone()
        };
        reconcile(Some(&old), &mut new);
        assert_eq!(
            new.identity.as_deref(),
            Some("- Name: Operations\n- Vibe: calm")
        );
    }

    #[test]
    fn a_text_without_name_lines_is_unchanged() {
        let text = "Calm, exact; names things: plainly.";
        let mut new = profile(text, Some("Ops"));
        reconcile(None, &mut new);
        assert_eq!(new.identity.as_deref(), Some(text));
    }
}
