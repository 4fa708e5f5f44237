//! Markdown: its text as it is, in parts that start at headings.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::{
    sections::{LEVELS, Sections},
    sink::{Sink, Step},
};

pub(crate) fn read(text: &str, sink: &mut Sink<'_>) -> Step {
    Sections::read(sink, |sections| sections_of(text, sections))
}

fn sections_of(text: &str, sections: &mut Sections<'_, '_>) -> Step {
    let mut written = 0;
    let mut depth = 0;
    // Range and words of the open heading.
    let mut open: Option<(std::ops::Range<usize>, String)> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { .. }) if depth == 0 => {
                open = Some((range, String::new()));
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(TagEnd::Heading(level)) if depth == 1 => {
                depth -= 1;
                let level = level as usize;
                if let Some((range, heading)) = open.take()
                    && level <= LEVELS
                {
                    sections.lines(&text[written..range.start]);
                    sections.raw_heading(level, &heading, text[range.clone()].trim_end())?;
                    written = range.end;
                }
            }
            Event::End(_) => depth -= 1,
            Event::Text(words) | Event::Code(words) => {
                if let Some((_, heading)) = &mut open {
                    heading.push_str(&words);
                }
            }
            _ => {}
        }
    }
    sections.lines(&text[written..]);
    Ok(())
}
