//! HTML pages, and books made of them.

use crate::{
    Reason,
    html::{HEADING_MARK, to_marked_text},
    package::{Package, resolved},
    sections::Sections,
    sink::{Sink, Step, Stop},
    xml::{Node, Xml},
};

pub(crate) fn read_page(html: &str, sink: &mut Sink<'_>) -> Step {
    Sections::read(sink, |sections| page(html, sections))
}

fn page(html: &str, sections: &mut Sections<'_, '_>) -> Step {
    let text = to_marked_text(html).ok_or(Reason::TooSlow)?;
    let mut body = String::new();
    for line in text.split_inclusive('\n') {
        let Some(heading) = line.strip_prefix(HEADING_MARK) else {
            body.push_str(line);
            continue;
        };
        sections.lines(&std::mem::take(&mut body));
        let words = heading.trim_start_matches('#');
        let level = heading.len() - words.len();
        sections.heading(level, words)?;
    }
    sections.lines(&body);
    sections.lines("\n");
    Ok(())
}

/// Reads a book in the order of its chapters.
pub(crate) fn read(document: &[u8], sink: &mut Sink<'_>) -> Step {
    let mut package = Package::open(document)?;
    if package
        .text("META-INF/encryption.xml")?
        .is_some_and(|text| {
            // Books often only obfuscate their fonts.
            text.contains("EncryptedData") && !text.contains("http://www.idpf.org/2008/embedding")
        })
    {
        return Err(Reason::Encrypted.into());
    }
    let chapters = chapters(&mut package)?;
    let mut missed = None;
    Sections::read(sink, |sections| {
        for chapter in chapters {
            match package.text(&chapter) {
                Ok(Some(html)) => page(&html, sections)?,
                Ok(None) | Err(Stop::Because(Reason::Damaged)) => missed = Some(Reason::Damaged),
                Err(stop) => return Err(stop),
            }
        }
        Ok(())
    })?;
    if let Some(reason) = missed {
        sink.missed(reason);
    }
    Ok(())
}

/// Paths of the chapters.
fn chapters(package: &mut Package<'_>) -> Result<Vec<String>, Stop> {
    let container = package.required_text("META-INF/container.xml")?;
    let mut xml = Xml::new(&container);
    let mut main = None;
    while let Some(node) = xml.next()? {
        if let Node::Start(element) = node
            && element.name() == "rootfile"
        {
            main = main.or(element.attribute("full-path"));
        }
    }
    let main = main.ok_or(Reason::Damaged)?;
    let folder = main.rsplit_once('/').map_or("", |(folder, _)| folder);
    let text = package.required_text(&main)?;
    let mut xml = Xml::new(&text);
    let mut items = std::collections::HashMap::new();
    let mut order = Vec::new();
    while let Some(node) = xml.next()? {
        let Node::Start(element) = node else { continue };
        match element.name().as_str() {
            "item" => {
                if let (Some(id), Some(href)) = (element.prefixed("id"), element.attribute("href"))
                {
                    items.insert(id, resolved(folder, &percent_decoded(&href)));
                }
            }
            "itemref" => order.extend(element.attribute("idref")),
            _ => {}
        }
    }
    Ok(order
        .iter()
        .filter_map(|id| items.get(id).cloned())
        .collect())
}

fn percent_decoded(href: &str) -> String {
    let mut bytes = Vec::with_capacity(href.len());
    let mut rest = href.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
