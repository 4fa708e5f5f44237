//! ODT and ODP. Hidden text, hidden slides, tracked deletions, and comments are left out.

use std::collections::HashSet;

use crate::{
    package::Package,
    sections::Sections,
    sink::{Draft, Sink, Step, Stop},
    xml::{Element, Node, Xml},
};

const SPACES_MAX: usize = 100;

/// Styles that hide what they are applied to.
type Hidden = HashSet<String>;

pub(crate) fn read_text(document: &[u8], sink: &mut Sink<'_>) -> Step {
    let mut package = Package::open(document)?;
    let text = package.required_text("content.xml")?;
    let hidden = hidden(&text)?;
    Sections::read(sink, |sections| body(&text, &hidden, sections))
}

fn body(text: &str, hidden: &Hidden, sections: &mut Sections<'_, '_>) -> Step {
    let mut xml = Xml::new(text);
    let mut writer = Writer::default();
    let mut level = None;
    while let Some(node) = xml.next()? {
        match node {
            Node::Start(element) => {
                let name = element.name();
                if name == "h" && !writer.is_in_row() {
                    let outline = element.attribute("outline-level");
                    level = Some(outline.and_then(|level| level.parse().ok()).unwrap_or(1));
                }
                writer.start(&mut xml, &element, hidden)?;
            }
            Node::Text(text) => writer.text(&text),
            Node::End(name) => {
                if let Some(line) = writer.end(&name) {
                    match level.take().filter(|_| name == "h") {
                        Some(level) => sections.heading(level, &line)?,
                        None if name == "table-row" => {
                            sections.lines(&line);
                            sections.lines("\n");
                        }
                        None => sections.paragraph(&line)?,
                    }
                }
            }
        }
    }
    Ok(())
}

pub(crate) fn read_slides(document: &[u8], sink: &mut Sink<'_>) -> Step {
    let mut package = Package::open(document)?;
    let text = package.required_text("content.xml")?;
    let hidden = hidden(&text)?;
    let mut xml = Xml::new(&text);
    let mut writer = Writer::default();
    let mut slide = 0;
    let mut draft = Draft::default();
    let mut is_title = false;
    while let Some(node) = xml.next()? {
        match node {
            Node::Start(element) => match element.name().as_str() {
                "page"
                    if element
                        .attribute("style-name")
                        .is_some_and(|s| hidden.contains(&s)) =>
                {
                    slide += 1;
                    xml.skip()?;
                }
                "page" => {
                    slide += 1;
                    draft = Draft {
                        label: format!("slide {slide}"),
                        ..Draft::default()
                    };
                }
                "frame" => is_title = element.attribute("class").as_deref() == Some("title"),
                "notes" => draft.text.push_str("\nNotes:\n"),
                _ => writer.start(&mut xml, &element, &hidden)?,
            },
            Node::Text(text) => writer.text(&text),
            Node::End(name) => match name.as_str() {
                "notes" => {
                    if let Some(before) = draft.text.strip_suffix("\nNotes:\n") {
                        draft.text.truncate(before.len());
                    }
                }
                "page" => sink.part(std::mem::take(&mut draft))?,
                "frame" => is_title = false,
                _ => {
                    let Some(line) = writer.end(&name).filter(|line| !line.trim().is_empty())
                    else {
                        continue;
                    };
                    if is_title && draft.heading.is_none() {
                        draft.heading = Some(line.clone());
                    }
                    draft.text.push_str(line.trim_end());
                    draft.text.push('\n');
                }
            },
        }
    }
    Ok(())
}

/// Names of automatic styles that hide text or slides.
fn hidden(text: &str) -> Result<Hidden, Stop> {
    let mut hidden = Hidden::new();
    let mut style = String::new();
    let mut xml = Xml::new(text);
    while let Some(node) = xml.next()? {
        let Node::Start(element) = node else { continue };
        match element.name().as_str() {
            "style" => style = element.prefixed("style:name").unwrap_or_default(),
            "text-properties" | "section-properties"
                if element.prefixed("text:display").as_deref() == Some("none") =>
            {
                hidden.insert(style.clone());
            }
            "drawing-page-properties"
                if element.attribute("visibility").as_deref() == Some("hidden") =>
            {
                hidden.insert(style.clone());
            }
            "body" => break,
            _ => {}
        }
    }
    Ok(hidden)
}

/// The open paragraphs and tables.
#[derive(Default)]
struct Writer {
    line: String,
    /// Open paragraphs; notes and text boxes have their own in the outer one.
    open: usize,
    rows: Vec<Vec<String>>,
}

impl Writer {
    fn is_in_row(&self) -> bool {
        !self.rows.is_empty()
    }

    fn start(&mut self, xml: &mut Xml<'_>, element: &Element<'_>, hidden: &Hidden) -> Step {
        let is_hidden = || {
            let style = element.attribute("style-name");
            let by_style = style.is_some_and(|style| hidden.contains(&style));
            by_style || element.prefixed("text:display").as_deref() == Some("none")
        };
        match element.name().as_str() {
            "tracked-changes" | "annotation" | "annotation-end" | "hidden-text"
            | "hidden-paragraph" | "note-citation" | "settings" | "forms" => xml.skip()?,
            "span" | "section" | "p" | "h" if is_hidden() => xml.skip()?,
            "p" | "h" => {
                if self.open > 0 && !self.line.ends_with(' ') {
                    self.line.push(' ');
                }
                self.open += 1;
            }
            "s" => {
                let count = element.attribute("c").and_then(|count| count.parse().ok());
                let count = count.unwrap_or(1).min(SPACES_MAX);
                self.line.extend(std::iter::repeat_n(' ', count));
            }
            "tab" => self.line.push('\t'),
            "line-break" => self.line.push('\n'),
            "table-row" => {
                self.rows.push(Vec::new());
                self.line.clear();
            }
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        if self.open > 0 {
            self.line.push_str(text);
        }
    }

    /// The line that ends with an element.
    fn end(&mut self, name: &str) -> Option<String> {
        match name {
            "p" | "h" => {
                self.open = self.open.saturating_sub(1);
                if self.open > 0 || self.is_in_row() {
                    self.line.push(' ');
                    return None;
                }
                Some(std::mem::take(&mut self.line))
            }
            "table-cell" => {
                let cell = crate::sheets::cell(&std::mem::take(&mut self.line));
                if let Some(row) = self.rows.last_mut() {
                    row.push(cell);
                }
                None
            }
            "table-row" => {
                let row = self.rows.pop()?.join(" | ");
                if self.is_in_row() {
                    self.line = row;
                    return None;
                }
                Some(row)
            }
            _ => None,
        }
    }
}
