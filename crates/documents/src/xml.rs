//! Elements and texts of an XML document, one after the other.
//!
//! Only the five entities of XML and references to characters are replaced: document types are ignored, and nothing is loaded.

use quick_xml::{
    Reader,
    events::{BytesStart, Event},
};

use crate::{Reason, sink::Stop};

const DEPTH_MAX: usize = 256;

pub(crate) struct Xml<'t> {
    reader: Reader<&'t [u8]>,
    depth: usize,
    /// Name of an element without content, whose end comes next.
    closing: Option<String>,
}

pub(crate) struct Element<'t>(BytesStart<'t>);

pub(crate) enum Node<'t> {
    Start(Element<'t>),
    /// Local name of the element that ends.
    End(String),
    Text(String),
}

impl Element<'_> {
    /// Name without its prefix.
    pub(crate) fn name(&self) -> String {
        self.0.local_name().as_ref().to_owned()
    }

    /// Value of the attribute with this name, prefixes ignored.
    pub(crate) fn attribute(&self, name: &str) -> Option<String> {
        self.find(|key| key.rsplit(':').next() == Some(name))
    }

    /// Value of the attribute with this name and prefix.
    pub(crate) fn prefixed(&self, name: &str) -> Option<String> {
        self.find(|key| key == name)
    }

    fn find(&self, is_wanted: impl Fn(&str) -> bool) -> Option<String> {
        let mut attributes = self.0.attributes();
        attributes.with_checks(false);
        let found = attributes
            .flatten()
            .find(|attribute| is_wanted(attribute.key.as_ref()))?;
        let value: &str = &found.value;
        Some(unescaped(value))
    }
}

impl<'t> Xml<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        Self {
            reader,
            depth: 0,
            closing: None,
        }
    }

    /// The next node; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Node<'t>>, Stop> {
        if let Some(name) = self.closing.take() {
            return Ok(Some(Node::End(name)));
        }
        loop {
            let event = self.reader.read_event().map_err(|_| Reason::Damaged)?;
            return Ok(Some(match event {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > DEPTH_MAX {
                        return Err(Reason::TooLarge.into());
                    }
                    Node::Start(Element(start))
                }
                Event::Empty(start) => {
                    let element = Element(start);
                    self.closing = Some(element.name());
                    Node::Start(element)
                }
                Event::End(end) => {
                    self.depth = self.depth.saturating_sub(1);
                    Node::End(end.local_name().as_ref().to_owned())
                }
                Event::Text(text) => Node::Text(text.into_inner().into_owned()),
                Event::CData(text) => Node::Text(text.into_inner().into_owned()),
                Event::GeneralRef(reference) => {
                    Node::Text(replaced(&reference.into_inner()).unwrap_or_default())
                }
                Event::Eof => return Ok(None),
                Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => continue,
            }));
        }
    }

    /// Skips the rest of the element that has just started.
    pub(crate) fn skip(&mut self) -> Result<(), Stop> {
        let mut open = 1;
        while open > 0 {
            match self.next()? {
                Some(Node::Start(_)) => open += 1,
                Some(Node::End(_)) => open -= 1,
                Some(Node::Text(_)) => {}
                None => return Ok(()),
            }
        }
        Ok(())
    }
}

/// The character of a reference, given without `&` and `;`.
fn replaced(name: &str) -> Option<String> {
    let c = match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let number = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(number.ok()?)?
        }
    };
    Some(c.to_string())
}

fn unescaped(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let (name, after_name) = after.split_once(';').unwrap_or((after, ""));
        out.push_str(&replaced(name).unwrap_or_default());
        rest = after_name;
    }
    out.push_str(rest);
    out
}
