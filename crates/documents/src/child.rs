//! The process that reads one document.

use std::{
    io::{Read, Write},
    process::ExitCode,
    thread,
};

use crate::{
    Reason, kind,
    kind::Kind,
    picture::{self, PICTURE},
    sandbox,
    sink::{Sink, Step, Stop},
};

/// Exit status of a process that could not limit itself, and read nothing.
pub const NO_SANDBOX: u8 = 3;
/// Stack of the thread that reads: nested structures of hostile files are limited, but not to the usual stack.
const STACK_BYTES: usize = 64 << 20;
/// Maximum size of a document.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Limits this process, then reads a document from the standard input and writes its parts to the standard output. `ending` is the
/// end of the file's name, which distinguishes kinds of text, or `PICTURE` to scale a picture.
pub fn run(ending: &str) -> ExitCode {
    // A panic becomes the result of a page. Its message could contain text of the document.
    std::panic::set_hook(Box::new(|_| {}));
    let ending = ending.to_ascii_lowercase();
    let reader = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            if sandbox::enter().is_err() {
                return ExitCode::from(NO_SANDBOX);
            }
            let mut document = Vec::new();
            let input = std::io::stdin().lock();
            if input
                .take(FILE_BYTES_MAX)
                .read_to_end(&mut document)
                .is_err()
            {
                return ExitCode::FAILURE;
            }
            let mut out = std::io::stdout().lock();
            if ending == PICTURE {
                return match picture::write(&document, &mut out) {
                    Some(()) => ExitCode::SUCCESS,
                    None => ExitCode::FAILURE,
                };
            }
            extract(document, &ending, &mut out);
            ExitCode::SUCCESS
        });
    reader
        .ok()
        .and_then(|reader| reader.join().ok())
        .unwrap_or(ExitCode::FAILURE)
}

/// Writes the parts of a document, and the result.
pub(crate) fn extract(document: Vec<u8>, ending: &str, out: &mut dyn Write) {
    let mut sink = Sink::new(out);
    if document.len() as u64 >= FILE_BYTES_MAX {
        return sink.end(Err(Reason::TooLarge.into()));
    }
    let Some(kind) = kind::of(&document, ending) else {
        return sink.end_without_text();
    };
    sink.kind = kind.reported();
    let read = std::panic::AssertUnwindSafe(|| read(kind, document, &mut sink));
    let ended = std::panic::catch_unwind(read).unwrap_or(Err(Stop::Because(Reason::Damaged)));
    sink.end(ended);
}

fn read(kind: Kind, document: Vec<u8>, sink: &mut Sink<'_>) -> Step {
    match kind {
        Kind::Pdf => crate::pdf::read(document, sink),
        Kind::Word => crate::word::read(&document, sink),
        Kind::Slides => crate::slides::read(&document, sink),
        Kind::OpenText => crate::open_document::read_text(&document, sink),
        Kind::OpenSlides => crate::open_document::read_slides(&document, sink),
        Kind::Book => crate::book::read(&document, sink),
        Kind::Sheets(format) => crate::sheets::read(document, format, sink),
        Kind::Mail => crate::mail::read(&document, sink),
        Kind::Html(text) => crate::book::read_page(&text, sink),
        Kind::Markdown(text) => crate::markdown::read(&text, sink),
        Kind::Table(text) => crate::lines::read_table(&text, sink),
        Kind::Lines(text) => crate::lines::read(&text, sink),
        Kind::Unreadable(reason) => Err(reason.into()),
    }
}
