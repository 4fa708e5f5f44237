//! Filters: comparisons with `eq`, joined by `and`.

use serde_json::Value;

use super::fault::{ScimFault, ScimType};

/// Maximum length of a filter.
const FILTER_CHARS_MAX: usize = 1000;
const TERMS_MAX: usize = 10;
/// Attributes of the elements of lists that filters in brackets can compare.
pub(super) const SUB_ATTRIBUTES: &[&str] = &["value", "type", "primary", "display"];

/// Value of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Text(String),
    Flag(bool),
}

/// One comparison: an attribute in lowercase, and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Term {
    pub attribute: String,
    /// Elements of the list whose attribute is compared, as in `emails[type eq "work"].value`.
    pub elements: Option<Filter>,
    pub value: Literal,
}

/// Comparisons that all have to be true.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Filter(pub Vec<Term>);

fn bad(text: impl Into<String>) -> ScimFault {
    ScimFault::Bad(ScimType::InvalidFilter, text.into())
}

/// Splits the next word or quoted text off `rest`. Brackets are part of a word, with the spaces in them.
fn token(rest: &str) -> Option<(Token, &str)> {
    let rest = rest.trim_start();
    if rest.starts_with('"') {
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let end = end?.0 + 1;
        let text = serde_json::from_str(&rest[..end]).ok()?;
        return Some((Token::Quoted(text), &rest[end..]));
    }
    let mut depth = 0_usize;
    let end = rest.find(|c: char| {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && c.is_whitespace()
    });
    let end = end.unwrap_or(rest.len());
    (end > 0).then(|| (Token::Word(rest[..end].to_owned()), &rest[end..]))
}

enum Token {
    Word(String),
    Quoted(String),
}

/// Attribute without the URN of a schema, in lowercase.
pub(super) fn attribute_name(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    for urn in [
        "urn:ietf:params:scim:schemas:core:2.0:user:",
        "urn:ietf:params:scim:schemas:core:2.0:group:",
    ] {
        if let Some(rest) = lower.strip_prefix(urn) {
            return rest.to_owned();
        }
    }
    lower
}

impl Filter {
    /// # Errors
    /// `invalidFilter` for anything except comparisons of `known` attributes.
    pub(crate) fn parse(text: &str, known: &[&str]) -> Result<Self, ScimFault> {
        if text.chars().count() > FILTER_CHARS_MAX {
            return Err(bad(format!(
                "a filter has at most {FILTER_CHARS_MAX} characters"
            )));
        }
        let form = || bad("a filter compares attributes with `eq`, joined by `and`");
        let mut terms = Vec::new();
        let mut rest = text;
        loop {
            let (Token::Word(attribute), after) = token(rest).ok_or_else(form)? else {
                return Err(form());
            };
            let (Token::Word(operator), after) = token(after).ok_or_else(form)? else {
                return Err(form());
            };
            if !operator.eq_ignore_ascii_case("eq") {
                return Err(form());
            }
            let (value, after) = token(after).ok_or_else(form)?;
            let value = match value {
                Token::Quoted(text) => Literal::Text(text),
                Token::Word(word) if word.eq_ignore_ascii_case("true") => Literal::Flag(true),
                Token::Word(word) if word.eq_ignore_ascii_case("false") => Literal::Flag(false),
                Token::Word(_) => return Err(form()),
            };
            // Entra looks for the work address so.
            let (attribute, elements) = match attribute.split_once('[') {
                Some((list, inside)) => {
                    let (inside, sub) = inside.rsplit_once("].").ok_or_else(form)?;
                    let elements = Self::parse(inside, SUB_ATTRIBUTES)?;
                    (format!("{list}.{sub}"), Some(elements))
                }
                None => (attribute, None),
            };
            let attribute = attribute_name(&attribute);
            if !known.contains(&attribute.as_str()) {
                return Err(bad(format!(
                    "a filter can compare {}, not `{attribute}`",
                    known.join(", ")
                )));
            }
            terms.push(Term {
                attribute,
                elements,
                value,
            });
            if terms.len() > TERMS_MAX {
                return Err(bad(format!("a filter has at most {TERMS_MAX} comparisons")));
            }
            if after.trim().is_empty() {
                return Ok(Self(terms));
            }
            let (Token::Word(and), after) = token(after).ok_or_else(form)? else {
                return Err(form());
            };
            if !and.eq_ignore_ascii_case("and") {
                return Err(form());
            }
            rest = after;
        }
    }

    /// Checks whether an element of a list has these values.
    pub(super) fn selects(&self, element: &Value) -> bool {
        self.0
            .iter()
            .all(|term| match (&term.value, element.get(&term.attribute)) {
                (Literal::Text(text), Some(Value::String(known))) => {
                    known.eq_ignore_ascii_case(text)
                }
                // Entra also sends true and false as texts.
                (Literal::Text(text), Some(Value::Bool(known))) => {
                    text.eq_ignore_ascii_case(&known.to_string())
                }
                (Literal::Text(_), _) => false,
                (Literal::Flag(flag), known) => {
                    known.and_then(Value::as_bool).unwrap_or(false) == *flag
                }
            })
    }

    /// Text that an attribute must equal.
    pub(super) fn text_of(&self, attribute: &str) -> Option<&str> {
        self.0.iter().find_map(|term| match &term.value {
            Literal::Text(text) if term.attribute == attribute => Some(text.as_str()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["id", "username", "emails.value", "active"];

    #[test]
    fn comparisons_are_parsed_in_any_case() {
        let parse = |text| Filter::parse(text, KNOWN);
        let text = |text: &str| Literal::Text(text.to_owned());
        let one = parse(r#"userName eq "ada@example.org""#).unwrap();
        assert_eq!(one.text_of("username"), Some("ada@example.org"));
        let two = parse(
            r#"urn:ietf:params:scim:schemas:core:2.0:User:userName EQ "a \"b\" and c" And active eq True"#,
        )
        .unwrap();
        assert_eq!(two.0[0].value, text(r#"a "b" and c"#));
        assert_eq!(two.0[1].value, Literal::Flag(true));
        let home = parse(r#"emails[type eq "home" and primary eq false].value eq "a@b.org""#);
        let home = home.unwrap();
        assert_eq!(home.text_of("emails.value"), Some("a@b.org"));
        let elements = home.0[0].elements.as_ref().unwrap();
        assert!(elements.selects(&serde_json::json!({"type": "Home"})));
        assert!(!elements.selects(&serde_json::json!({"type": "work"})));
        for wrong in [
            "",
            "userName",
            "userName eq",
            "userName eq ada",
            r#"userName co "a""#,
            r#"userName eq "a" or id eq "b""#,
            r#"title eq "a""#,
            r#"(userName eq "a")"#,
            r#"userName eq "a"#,
            r#"userName eq "a" and"#,
            r#"emails[type eq "work"] eq "a""#,
            r#"emails[type co "w"].value eq "a""#,
            r#"emails[type eq "work".value eq "a""#,
            r#"userName[type eq "work"].value eq "a""#,
        ] {
            let fault = parse(wrong).unwrap_err();
            assert!(
                matches!(fault, ScimFault::Bad(ScimType::InvalidFilter, _)),
                "{wrong}"
            );
        }
    }
}
