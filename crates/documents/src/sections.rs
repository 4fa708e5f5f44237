//! Sections of a text with headings: each heading of the first three levels starts a part.

use crate::sink::{Draft, Sink, Step, one_line};

/// Number of levels of headings that start parts.
pub(crate) const LEVELS: usize = 3;
const SEPARATOR: &str = " › ";

pub(crate) struct Sections<'s, 'w> {
    sink: &'s mut Sink<'w>,
    /// Headings of the section, outermost first; empty ones are levels that the document left out.
    path: Vec<String>,
    text: String,
    has_body: bool,
}

impl<'s, 'w> Sections<'s, 'w> {
    /// Reads sections. If reading stops early, what was read until then stays.
    pub(crate) fn read(
        sink: &'s mut Sink<'w>,
        read: impl FnOnce(&mut Sections<'_, '_>) -> Step,
    ) -> Step {
        let mut sections = Self {
            sink,
            path: Vec::new(),
            text: String::new(),
            has_body: false,
        };
        let read = read(&mut sections);
        sections.flush()?;
        read
    }

    /// Starts a section with a heading at a level, from 1; deeper headings are text.
    pub(crate) fn heading(&mut self, level: usize, heading: &str) -> Step {
        self.raw_heading(level, heading, &one_line(heading))
    }

    /// Like `heading`, for a document that writes headings in its own way.
    pub(crate) fn raw_heading(&mut self, level: usize, heading: &str, written: &str) -> Step {
        let heading = one_line(heading);
        if heading.is_empty() {
            return Ok(());
        }
        if level == 0 || level > LEVELS {
            return self.paragraph(written);
        }
        // A heading directly above a deeper one is only in the labels of the sections below it.
        let is_above = !self.has_body && self.path.len() < level;
        if is_above {
            self.text.clear();
        } else {
            self.flush()?;
        }
        self.path.truncate(level - 1);
        self.path.resize(level - 1, String::new());
        self.path.push(heading);
        self.text.push_str(written);
        self.text.push('\n');
        Ok(())
    }

    pub(crate) fn paragraph(&mut self, text: &str) -> Step {
        if text.trim().is_empty() {
            return Ok(());
        }
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self.text.push_str(text.trim_end());
        self.text.push('\n');
        self.has_body = true;
        if self.text.len() > crate::sink::TEXT_BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds lines as they are.
    pub(crate) fn lines(&mut self, text: &str) {
        self.has_body |= text.contains(|c: char| !c.is_whitespace());
        self.text.push_str(text);
    }

    fn flush(&mut self) -> Step {
        let text = std::mem::take(&mut self.text);
        self.has_body = false;
        if text.trim().is_empty() {
            return Ok(());
        }
        let path = self.path.iter().map(String::as_str);
        let path: Vec<&str> = path.filter(|part| !part.is_empty()).collect();
        self.sink.part(Draft {
            label: path.join(SEPARATOR),
            heading: path.last().map(|heading| (*heading).to_owned()),
            header: None,
            text: text.trim_start_matches('\n').to_owned(),
        })
    }
}
