//! PDF, page by page. A page whose content makes the library fail does not stop the others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pdf_oxide::PdfDocument;

use crate::{
    Reason,
    sink::{Draft, PARTS_MAX, Sink, Step},
};

pub(crate) fn read(document: Vec<u8>, sink: &mut Sink<'_>) -> Step {
    let open = || -> Result<(PdfDocument, usize), Reason> {
        let pdf = PdfDocument::from_bytes(document).map_err(|e| reason(&e))?;
        // Many files are encrypted without a password, only to forbid changes.
        if pdf.is_encrypted() && !pdf.authenticate(b"").map_err(|e| reason(&e))? {
            return Err(Reason::Encrypted);
        }
        let count = pdf.page_count().map_err(|e| reason(&e))?;
        Ok((pdf, count))
    };
    let (pdf, count) = catch_unwind(AssertUnwindSafe(open)).unwrap_or(Err(Reason::Damaged))?;
    if count == 0 {
        return Err(Reason::Damaged.into());
    }
    for page in 0..count {
        let label = format!("page {}", page + 1);
        if u32::try_from(page).is_ok_and(|page| page >= PARTS_MAX) {
            return Err(Reason::TooLarge.into());
        }
        let read = catch_unwind(AssertUnwindSafe(|| pdf.extract_text(page)));
        match read {
            Ok(Ok(text)) if !text.trim().is_empty() => sink.part(Draft {
                label,
                text,
                ..Draft::default()
            })?,
            Ok(Ok(_)) if has_pictures(&pdf, page) => sink.unread(&label, Reason::Scanned)?,
            Ok(Ok(_)) => sink.part(Draft {
                label,
                ..Draft::default()
            })?,
            Ok(Err(e)) => sink.unread(&label, reason(&e))?,
            Err(_) => sink.unread(&label, Reason::Damaged)?,
        }
    }
    Ok(())
}

fn has_pictures(pdf: &PdfDocument, page: usize) -> bool {
    let found = catch_unwind(AssertUnwindSafe(|| {
        pdf.page_image_handles(page)
            .is_ok_and(|pictures| !pictures.is_empty())
    }));
    found.unwrap_or(false)
}

fn reason(e: &pdf_oxide::Error) -> Reason {
    match e {
        pdf_oxide::Error::EncryptedPdf => Reason::Encrypted,
        _ => Reason::Damaged,
    }
}
