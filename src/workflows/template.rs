//! Variables in the texts of workflows. For example, `{{input}}` is replaced with the input of the run. There are no expressions, and
//! values are not searched for further variables.

use std::ops::Range;

use super::definition::is_step_id;

/// Maximum size of a value in bytes; longer values are cut.
pub const VALUE_BYTES_MAX: usize = 8 * 1024;
/// Maximum size of a text with its values in bytes; longer texts are cut.
pub const RENDERED_BYTES_MAX: usize = 32 * 1024;
/// Mark at the end of a value or text that was cut.
const CUT_MARK: &str = "\n[… cut]";

/// A variable of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variable<'a> {
    Input,
    /// Text of the message that started the run.
    Message,
    /// Display name of the message's author.
    Author,
    Date,
    /// Decisions since the last completed run, or in the last seven days if that is shorter.
    Decisions,
    /// Open action items since the last completed run, or from the last seven days if that is shorter.
    ActionItems,
    /// Output of an earlier step.
    Output(&'a str),
}

impl<'a> Variable<'a> {
    fn parse(name: &'a str) -> Option<Self> {
        match name {
            "input" => Some(Self::Input),
            "message" => Some(Self::Message),
            "author" => Some(Self::Author),
            "date" => Some(Self::Date),
            "decisions" => Some(Self::Decisions),
            "action_items" => Some(Self::ActionItems),
            _ => {
                let id = name.strip_prefix("steps.")?.strip_suffix(".output")?;
                is_step_id(id).then_some(Self::Output(id))
            }
        }
    }

    /// Checks whether the value is content that somebody wrote, rather than a name or a date.
    fn is_content(self) -> bool {
        !matches!(self, Self::Author | Self::Date)
    }
}

/// A text with the values of its variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    pub text: String,
    /// Byte ranges of values that are content, in order. No range is empty.
    pub contents: Vec<Range<usize>>,
}

enum Part<'a> {
    Text(&'a str),
    /// A variable as it is written in the text, and its name.
    Name {
        written: &'a str,
        name: &'a str,
    },
}

/// Splits a text at its variables. Unclosed braces are text.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("{{")
        && let Some(length) = rest[open + 2..].find("}}")
    {
        let end = open + 2 + length + 2;
        parts.push(Part::Text(&rest[..open]));
        parts.push(Part::Name {
            written: &rest[open..end],
            name: rest[open + 2..end - 2].trim(),
        });
        rest = &rest[end..];
    }
    parts.push(Part::Text(rest));
    parts
}

/// Variables of a text, in order.
///
/// # Errors
/// The first name that is not a variable.
pub fn variables(text: &str) -> Result<Vec<Variable<'_>>, &str> {
    parts(text)
        .into_iter()
        .filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Name { name, .. } => Some(Variable::parse(name).ok_or(name)),
        })
        .collect()
}

/// Replaces the variables of a text with their values, in one pass. Values are cut at `VALUE_BYTES_MAX`, and the text at
/// `RENDERED_BYTES_MAX`.
pub fn render<'a>(text: &'a str, value: impl Fn(Variable<'a>) -> &'a str) -> Rendered {
    let mut rendered = String::with_capacity(text.len());
    let mut contents: Vec<Range<usize>> = Vec::new();
    for part in parts(text) {
        match part {
            Part::Text(text) => rendered.push_str(text),
            Part::Name { written, name } => match Variable::parse(name) {
                Some(variable) => {
                    let start = rendered.len();
                    push_cut(&mut rendered, value(variable));
                    if variable.is_content() && rendered.len() > start {
                        contents.push(start..rendered.len());
                    }
                }
                None => rendered.push_str(written),
            },
        }
        if rendered.len() > RENDERED_BYTES_MAX {
            let end = rendered.floor_char_boundary(RENDERED_BYTES_MAX - CUT_MARK.len());
            rendered.truncate(end);
            for content in &mut contents {
                content.end = content.end.min(end);
            }
            contents.retain(|content| !content.is_empty());
            rendered.push_str(CUT_MARK);
            break;
        }
    }
    Rendered {
        text: rendered,
        contents,
    }
}

fn push_cut(rendered: &mut String, value: &str) {
    if value.len() <= VALUE_BYTES_MAX {
        rendered.push_str(value);
        return;
    }
    let end = value.floor_char_boundary(VALUE_BYTES_MAX);
    rendered.push_str(&value[..end]);
    rendered.push_str(CUT_MARK);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_variables_of_a_text_are_found_in_order() {
        let text = "{{input}} and {{ steps.draft.output }}, {{date}} {{ open";
        assert_eq!(
            variables(text),
            Ok(vec![
                Variable::Input,
                Variable::Output("draft"),
                Variable::Date
            ])
        );
        for (text, name) in [
            ("{{inputs}}", "inputs"),
            ("{{}}", ""),
            ("{{ 1 + 1 }}", "1 + 1"),
            ("{{steps.Draft.output}}", "steps.Draft.output"),
            ("{{steps.draft}}", "steps.draft"),
            ("{{input.length}}", "input.length"),
            ("{{{input}}}", "{input"),
        ] {
            assert_eq!(variables(text), Err(name), "{text}");
        }
    }

    #[test]
    fn a_value_is_not_searched_for_variables() {
        let rendered = render("a {{input}} b {{date}}", |variable| match variable {
            Variable::Input => "{{date}} {{",
            _ => "2026-11-23",
        });
        assert_eq!(rendered.text, "a {{date}} {{ b 2026-11-23");
    }

    #[test]
    fn values_that_somebody_wrote_are_located() {
        let text = "ä {{input}} by {{author}}, {{date}}: {{message}}{{steps.a.output}}";
        let rendered = render(text, |variable| match variable {
            Variable::Input => "disk",
            Variable::Output(_) => "full",
            Variable::Author => "Ada",
            _ => "",
        });
        let ranges = rendered.contents.iter().cloned();
        let contents: Vec<&str> = ranges.map(|range| &rendered.text[range]).collect();
        assert_eq!(contents, ["disk", "full"]);
    }

    #[test]
    fn a_long_value_is_cut_with_a_mark() {
        let long = "ä".repeat(VALUE_BYTES_MAX);
        let rendered = render("{{input}}.", |_| &long).text;
        assert!(rendered.ends_with("ä\n[… cut]."), "{rendered}");
        assert_eq!(rendered.len(), VALUE_BYTES_MAX + CUT_MARK.len() + ".".len());
        let exact = "a".repeat(VALUE_BYTES_MAX);
        assert_eq!(render("{{input}}", |_| &exact).text, exact);
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark() {
        let value = "ä".repeat(VALUE_BYTES_MAX / 2);
        let rendered = render(&"{{input}}".repeat(900), |_| &value);
        assert_eq!(
            rendered.contents.last().unwrap().end + CUT_MARK.len(),
            rendered.text.len()
        );
        let rendered = rendered.text;
        assert!(rendered.ends_with("ä\n[… cut]"), "{rendered}");
        let expected = (RENDERED_BYTES_MAX - 1)..=RENDERED_BYTES_MAX;
        assert!(expected.contains(&rendered.len()), "{}", rendered.len());
        let whole = "{{input}}".repeat(4);
        assert_eq!(render(&whole, |_| &value).text, value.repeat(4));
    }

    /// Pieces of a template; true marks a variable.
    fn pieces() -> impl Strategy<Value = Vec<(String, bool)>> {
        let text = "[a-z .ä]{1,5}".prop_map(|text| (text, false));
        let variables = ["{{input}}", "{{ date }}", "{{steps.a.output}}"];
        let variable = prop::sample::select(variables.to_vec());
        let expressions = [
            "{{ 7 * 191 }}",
            "{{input | upper}}",
            "{{input.length}}",
            "{{steps.a}}",
            "{{#if input}}",
            "{{env.HOME}}",
            "{{Input}}",
            "{{}}",
        ];
        let expression = prop::sample::select(expressions.to_vec());
        let piece = prop_oneof![
            text,
            variable.prop_map(|text| (text.to_owned(), true)),
            expression.prop_map(|text| (text.to_owned(), false)),
        ];
        prop::collection::vec(piece, 0..8)
    }

    proptest! {
        #[test]
        fn only_variables_are_replaced_and_values_stay_as_they_are(
            parts in pieces(),
            value in "([a-zä ]|\\{\\{|\\}\\}|\\{\\{input\\}\\}|\\{\\{ 7 \\* 191 \\}\\}){0,8}",
        ) {
            let template: String = parts.iter().map(|(text, _)| text.as_str()).collect();
            let expected: String = parts
                .iter()
                .map(|(text, is_variable)| if *is_variable { value.as_str() } else { text.as_str() })
                .collect();
            prop_assert_eq!(render(&template, |_| &value).text, expected);
        }

        #[test]
        fn any_template_renders_without_a_panic(
            text in "([a-z{} .ä]|\\{\\{|\\}\\}|input|date|steps\\.a\\.output){0,40}",
            value in ".{0,20}",
        ) {
            let rendered = render(&text, |_| &value).text;
            if variables(&text).is_ok_and(|found| found.is_empty()) {
                prop_assert_eq!(rendered, text);
            }
        }
    }
}
