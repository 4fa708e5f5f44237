//! HTML pages.

use crate::{
    Reason,
    html::{HEADING_MARK, to_marked_text},
    sections::Sections,
    sink::{Sink, Step},
};

pub(crate) fn read_page(html: &str, sink: &mut Sink<'_>) -> Step {
    let mut sections = Sections::new(sink);
    page(html, &mut sections)?;
    sections.finish()
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
