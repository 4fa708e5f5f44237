//! DOCX. Hidden text and tracked deletions are left out.

use std::collections::HashMap;

use crate::{
    package::Package,
    sections::Sections,
    sink::{Sink, Step, Stop},
    xml::{Element, Node, Xml},
};

/// Levels of headings by the IDs of styles, starting at 1.
type Levels = HashMap<String, usize>;

pub(crate) fn read(document: &[u8], sink: &mut Sink<'_>) -> Step {
    let mut package = Package::open(document)?;
    let main = package.main_part()?;
    let relations = package.relations(&main)?;
    let path_of = |kind: &str| {
        let mut found = relations.values().filter(|relation| relation.kind == kind);
        found.next().map(|relation| relation.target.clone())
    };
    let styles = match path_of("styles") {
        Some(path) => package.text(&path)?.unwrap_or_default(),
        None => String::new(),
    };
    let levels = levels(&styles)?;
    let text = package.required_text(&main)?;
    let notes = ["footnotes", "endnotes"].map(path_of);
    Sections::read(sink, |sections| {
        body(&text, &levels, sections)?;
        for path in notes.iter().flatten() {
            if let Some(notes) = package.text(path)? {
                body(&notes, &Levels::new(), sections)?;
            }
        }
        Ok(())
    })
}

/// Levels of the styles that are headings, by their outline level or by their name.
fn levels(styles: &str) -> Result<Levels, Stop> {
    // Usual IDs, for documents without styles.
    let mut levels: Levels = (1..=3).map(|n| (format!("Heading{n}"), n)).collect();
    let mut based_on: HashMap<String, String> = HashMap::new();
    let mut style = String::new();
    let mut xml = Xml::new(styles);
    while let Some(node) = xml.next()? {
        let Node::Start(element) = node else { continue };
        match element.name().as_str() {
            "style" => style = element.attribute("styleId").unwrap_or_default(),
            "basedOn" => {
                based_on.insert(style.clone(), element.attribute("val").unwrap_or_default());
            }
            "name" => {
                let name = element.attribute("val").unwrap_or_default().to_lowercase();
                let level = name.strip_prefix("heading ");
                let level = level.and_then(|level| level.trim().parse().ok());
                let level = level.or((name == "title").then_some(1));
                if let Some(level) = level {
                    levels.insert(style.clone(), level);
                }
            }
            "outlineLvl" => {
                if let Some(level) = outline_level(&element) {
                    levels.insert(style.clone(), level);
                }
            }
            _ => {}
        }
    }
    for (style, base) in based_on {
        if let Some(level) = levels.get(&base).copied() {
            levels.entry(style).or_insert(level);
        }
    }
    Ok(levels)
}

/// Level of an `outlineLvl`, starting at 1; `None` for text.
fn outline_level(element: &Element<'_>) -> Option<usize> {
    let level: usize = element.attribute("val")?.parse().ok()?;
    Some(level)
        .filter(|level| *level < 9)
        .map(|level| level + 1)
}

/// State of the paragraph and the table that are being read.
#[derive(Default)]
struct Body {
    text: String,
    level: Option<usize>,
    is_in_properties: bool,
    is_hidden: bool,
    is_text: bool,
    /// Cells of the open rows, innermost last.
    rows: Vec<Vec<String>>,
}

fn body(text: &str, levels: &Levels, sections: &mut Sections<'_, '_>) -> Step {
    let mut xml = Xml::new(text);
    let mut body = Body::default();
    while let Some(node) = xml.next()? {
        match node {
            Node::Start(element) => {
                let name = element.name();
                // Deleted text, its former place, the other form of a drawing, and notes that only separate.
                let is_left_out = matches!(
                    name.as_str(),
                    "del" | "moveFrom" | "Fallback" | "delText" | "instrText"
                ) || (matches!(name.as_str(), "footnote" | "endnote")
                    && element.attribute("type").is_some());
                // In the properties of a paragraph, `del` marks its end as deleted.
                if is_left_out {
                    xml.skip()?;
                } else {
                    body.start(&name, &element, levels);
                }
            }
            Node::End(name) => body.end(&name, sections)?,
            Node::Text(text) if body.is_text && !body.is_hidden => body.text.push_str(&text),
            Node::Text(_) => {}
        }
    }
    Ok(())
}

impl Body {
    fn start(&mut self, name: &str, element: &Element<'_>, levels: &Levels) {
        let is_on = || {
            let value = element.attribute("val");
            !matches!(value.as_deref(), Some("0" | "false" | "off" | "none"))
        };
        match name {
            "p" if self.rows.is_empty() => {
                self.text.clear();
                self.level = None;
            }
            "pPr" => self.is_in_properties = true,
            "pStyle" => {
                let style = element.attribute("val").unwrap_or_default();
                self.level = levels.get(&style).copied();
            }
            "outlineLvl" if self.is_in_properties => {
                self.level = outline_level(element);
            }
            "r" => self.is_hidden = false,
            "vanish" | "webHidden" if !self.is_in_properties => {
                self.is_hidden |= name == "vanish" && is_on();
            }
            "t" => self.is_text = true,
            "tab" if !self.is_in_properties && !self.is_hidden => self.text.push('\t'),
            "br" | "cr" if !self.is_hidden => self.text.push('\n'),
            "noBreakHyphen" if !self.is_hidden => self.text.push('-'),
            "tr" => {
                self.rows.push(Vec::new());
                self.text.clear();
            }
            "tc" => self.text.clear(),
            _ => {}
        }
    }

    fn end(&mut self, name: &str, sections: &mut Sections<'_, '_>) -> Step {
        match name {
            "pPr" => self.is_in_properties = false,
            "t" => self.is_text = false,
            "r" => self.is_hidden = false,
            "p" if self.rows.is_empty() => {
                let text = std::mem::take(&mut self.text);
                match self.level {
                    Some(level) => sections.heading(level, &text)?,
                    None => sections.paragraph(&text)?,
                }
            }
            // Paragraphs of a cell are in one line of the table.
            "p" if !self.text.ends_with(' ') => self.text.push(' '),
            "tc" => {
                let cell = std::mem::take(&mut self.text);
                if let Some(row) = self.rows.last_mut() {
                    row.push(crate::sheets::cell(&cell));
                }
            }
            "tr" => {
                let row = self.rows.pop().unwrap_or_default().join(" | ");
                if self.rows.is_empty() {
                    sections.lines(&row);
                    sections.lines("\n");
                } else {
                    self.text = row + " ";
                }
            }
            _ => {}
        }
        Ok(())
    }
}
