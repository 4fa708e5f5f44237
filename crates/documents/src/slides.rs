//! PPTX: a part for each slide, with its notes. Hidden slides are left out, but count.

use crate::{
    Reason,
    package::Package,
    sink::{Draft, Sink, Step, Stop},
    xml::{Node, Xml},
};

pub(crate) fn read(document: &[u8], sink: &mut Sink<'_>) -> Step {
    let mut package = Package::open(document)?;
    let main = package.main_part()?;
    let relations = package.relations(&main)?;
    let text = package.required_text(&main)?;
    let mut order = Vec::new();
    let mut xml = Xml::new(&text);
    while let Some(node) = xml.next()? {
        if let Node::Start(element) = node
            && element.name() == "sldId"
        {
            order.extend(element.prefixed("r:id"));
        }
    }
    for (n, id) in order.iter().enumerate() {
        let label = format!("slide {}", n + 1);
        let path = relations.get(id).map(|relation| relation.target.clone());
        let read = match path {
            Some(path) => slide(&mut package, &path),
            None => Err(Reason::Damaged.into()),
        };
        match read {
            Ok(Some(slide)) => sink.part(Draft { label, ..slide })?,
            Ok(None) => {}
            Err(Stop::Because(reason @ Reason::Damaged)) => sink.unread(&label, reason)?,
            Err(stop) => return Err(stop),
        }
    }
    Ok(())
}

/// Text of a slide; `None` if the slide is hidden.
fn slide(package: &mut Package<'_>, path: &str) -> Result<Option<Draft>, Stop> {
    let xml = package.required_text(path)?;
    let Some(Shapes { title, mut text }) = shapes(&xml)? else {
        return Ok(None);
    };
    let relations = package.relations(path)?;
    let notes = relations
        .values()
        .find(|relation| relation.kind == "notesSlide");
    if let Some(notes) = notes
        && let Some(xml) = package.text(&notes.target)?
        && let Some(notes) = shapes(&xml)?
        && !notes.text.trim().is_empty()
    {
        text.push_str("\nNotes:\n");
        text.push_str(&notes.text);
    }
    Ok(Some(Draft {
        heading: title,
        text,
        ..Draft::default()
    }))
}

#[derive(Default)]
struct Shapes {
    title: Option<String>,
    text: String,
}

/// Text of the shapes of a slide or of its notes; `None` if it is hidden.
fn shapes(text: &str) -> Result<Option<Shapes>, Stop> {
    let mut xml = Xml::new(text);
    let mut all = Shapes::default();
    let mut paragraph = String::new();
    let mut row: Option<Vec<String>> = None;
    let mut shape_start = 0;
    let mut place = String::new();
    let mut is_hidden = false;
    let mut is_text = false;
    while let Some(node) = xml.next()? {
        match node {
            Node::Start(element) => match element.name().as_str() {
                "sld" if element.attribute("show").as_deref() == Some("0") => return Ok(None),
                "Fallback" => xml.skip()?,
                "sp" | "graphicFrame" | "pic" => {
                    shape_start = all.text.len();
                    place.clear();
                    is_hidden = false;
                }
                "cNvPr" => {
                    is_hidden =
                        matches!(element.attribute("hidden").as_deref(), Some("1" | "true"));
                }
                "ph" => {
                    place = element
                        .attribute("type")
                        .unwrap_or_else(|| "body".to_owned());
                }
                "tr" => row = Some(Vec::new()),
                "t" => is_text = true,
                "br" => paragraph.push('\n'),
                _ => {}
            },
            Node::Text(text) if is_text => paragraph.push_str(&text),
            Node::Text(_) => {}
            Node::End(name) => match name.as_str() {
                "t" => is_text = false,
                "p" if row.is_some() => paragraph.push(' '),
                "p" => {
                    let line = std::mem::take(&mut paragraph);
                    if !line.trim().is_empty() {
                        all.text.push_str(line.trim_end());
                        all.text.push('\n');
                    }
                }
                "tc" => {
                    let cell = crate::sheets::cell(&std::mem::take(&mut paragraph));
                    if let Some(row) = &mut row {
                        row.push(cell);
                    }
                }
                "tr" => {
                    let row = row.take().unwrap_or_default();
                    all.text.push_str(&row.join(" | "));
                    all.text.push('\n');
                }
                "sp" | "graphicFrame" | "pic" => {
                    // Numbers, dates, and footers repeat on every slide.
                    let repeats = matches!(place.as_str(), "sldNum" | "dt" | "ftr" | "hdr");
                    if is_hidden || repeats {
                        all.text.truncate(shape_start);
                    } else if matches!(place.as_str(), "title" | "ctrTitle") {
                        let title = all.text[shape_start..].trim();
                        all.title = Some(title.to_owned()).filter(|title| !title.is_empty());
                    }
                    is_hidden = false;
                }
                _ => {}
            },
        }
    }
    Ok(Some(all))
}
