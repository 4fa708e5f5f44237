//! The process that reads documents, as the server starts it.

#![allow(clippy::unwrap_used, reason = "test helpers")]

use std::{
    io::{Read, Write},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, ExitStatus, Stdio},
    thread,
};

use openvibe_documents::{End, Line, Part, Reason, State};
use zip::{ZipWriter, write::SimpleFileOptions};

const SIGSYS: i32 = 31;
const SIGABRT: i32 = 6;

struct Extracted {
    parts: Vec<Part>,
    end: Option<End>,
    status: ExitStatus,
}

impl Extracted {
    fn state(&self) -> (State, Option<Reason>) {
        let end = self.end.as_ref().unwrap();
        (end.state, end.reason)
    }

    fn labels(&self) -> Vec<&str> {
        self.parts.iter().map(|part| &*part.label).collect()
    }

    fn texts(&self) -> Vec<&str> {
        self.parts.iter().map(|part| &*part.text).collect()
    }
}

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.parent().unwrap().parent().unwrap();
    target.join("examples/extract")
}

fn extract(ending: &str, document: &[u8]) -> Extracted {
    let mut child = Command::new(program())
        .arg(ending)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let document = document.to_vec();
    let feeding = thread::spawn(move || {
        // A process that was killed does not read to the end.
        let _ = input.write_all(&document);
    });
    let mut output = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut output)
        .unwrap();
    feeding.join().unwrap();
    let (mut parts, mut end) = (Vec::new(), None);
    for line in output.lines() {
        match Line::parse(line.as_bytes()).unwrap() {
            Line::Part(part) => parts.push(part),
            Line::End(last) => end = Some(last),
        }
    }
    Extracted {
        parts,
        end,
        status: child.wait().unwrap(),
    }
}

/// An archive with these entries.
fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let mut archive = ZipWriter::new(&mut bytes);
    for (path, text) in entries {
        archive
            .start_file(*path, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
    bytes.into_inner()
}

const RELATIONS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// The relations of an Office document: `(ID, type, target)`.
fn relations(all: &[(&str, &str, &str)]) -> String {
    let all = all.iter().map(|(id, kind, target)| {
        format!(r#"<Relationship Id="{id}" Type="{RELATIONS}/{kind}" Target="{target}"/>"#)
    });
    format!("<Relationships>{}</Relationships>", all.collect::<String>())
}

fn word(body: &str) -> Vec<u8> {
    let styles = r#"<w:styles><w:style w:styleId="Heading1"><w:name w:val="heading 1"/></w:style>
        <w:style w:styleId="H2"><w:name w:val="x"/><w:pPr><w:outlineLvl w:val="1"/></w:pPr></w:style></w:styles>"#;
    archive(&[
        (
            "_rels/.rels",
            &relations(&[("r1", "officeDocument", "word/document.xml")]),
        ),
        (
            "word/_rels/document.xml.rels",
            &relations(&[("r1", "styles", "styles.xml")]),
        ),
        ("word/styles.xml", styles),
        (
            "word/document.xml",
            &format!("<?xml version=\"1.0\"?><w:document><w:body>{body}</w:body></w:document>"),
        ),
    ])
}

fn paragraph(style: &str, text: &str) -> String {
    format!(r#"<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"#)
}

/// A PDF whose pages have these content streams; an `Image` is a picture of one pixel.
fn pdf(pages: &[&str]) -> Vec<u8> {
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        String::new(),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
        "<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>stream\nx\nendstream"
            .to_owned(),
    ];
    let mut kids = String::new();
    for content in pages {
        let page = objects.len() + 1;
        kids.push_str(&page.to_string());
        kids.push_str(" 0 R ");
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>/XObject<</I 4 0 R>>>>/Contents {} 0 R>>",
            page + 1
        ));
        objects.push(format!(
            "<</Length {}>>stream\n{content}\nendstream",
            content.len()
        ));
    }
    objects[1] = format!("<</Type/Pages/Kids[{kids}]/Count {}>>", pages.len());
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend(format!("{} 0 obj\n{object}\nendobj\n", n + 1).bytes());
    }
    let xref = out.len();
    out.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        out.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    out.extend(
        format!(
            "trailer<</Size {}/Root 1 0 R>>\nstartxref\n{xref}\n%%EOF",
            objects.len() + 1
        )
        .bytes(),
    );
    out
}

#[test]
fn a_word_document_has_a_part_for_each_heading() {
    let body = [
        "<w:p><w:r><w:t>Before all &amp; &#228;.</w:t></w:r></w:p>".to_owned(),
        paragraph("Heading1", "Travel"),
        paragraph("H2", "Trains"),
        "<w:p><w:r><w:t>First </w:t></w:r><w:r><w:t>class.</w:t></w:r></w:p>".to_owned(),
        "<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>hidden</w:t></w:r><w:del><w:r><w:delText>deleted</w:delText></w:r></w:del>\
         <w:r><w:t>kept</w:t></w:r></w:p>"
            .to_owned(),
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
            .to_owned(),
        paragraph("H2", "Planes"),
        "<w:p><w:r><w:t>Economy.</w:t></w:r></w:p>".to_owned(),
    ];
    let read = extract("docx", &word(&body.concat()));
    assert_eq!(read.state(), (State::Ready, None));
    assert_eq!(read.labels(), ["", "Travel › Trains", "Travel › Planes"]);
    assert_eq!(
        read.texts(),
        [
            "Before all & ä.",
            "Trains\n\nFirst class.\n\nkept\na | b",
            "Planes\n\nEconomy."
        ]
    );
    assert_eq!(read.parts[1].heading.as_deref(), Some("Trains"));
    assert_eq!(read.parts[2].part, 3);
}

#[test]
fn a_word_document_without_styles_has_headings_by_their_usual_names() {
    let document = format!(
        "<w:document><w:body>{}{}</w:body></w:document>",
        paragraph("Heading2", "Trains"),
        paragraph("Normal", "First class.")
    );
    let read = extract(
        "docx",
        &archive(&[
            (
                "_rels/.rels",
                &relations(&[("r1", "officeDocument", "word/document.xml")]),
            ),
            ("word/document.xml", &document),
        ]),
    );
    assert_eq!(read.labels(), ["Trains"]);
    assert_eq!(read.texts(), ["Trains\n\nFirst class."]);
}

#[test]
fn slides_have_numbers_titles_and_notes() {
    let slide = |show: &str, title: &str, text: &str| {
        format!(
            r#"<p:sld show="{show}"><p:sp><p:nvPr><p:ph type="title"/></p:nvPr><a:p><a:r><a:t>{title}</a:t></a:r></a:p></p:sp>
            <p:sp><p:nvPr><p:ph type="sldNum"/></p:nvPr><a:p><a:r><a:t>7</a:t></a:r></a:p></p:sp>
            <p:sp><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:sp></p:sld>"#
        )
    };
    let document = archive(&[
        (
            "_rels/.rels",
            &relations(&[("r1", "officeDocument", "ppt/presentation.xml")]),
        ),
        (
            "ppt/presentation.xml",
            r#"<p:presentation><p:sldIdLst><p:sldId id="256" r:id="r9"/><p:sldId id="257" r:id="r2"/><p:sldId id="258" r:id="r3"/></p:sldIdLst></p:presentation>"#,
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            &relations(&[
                ("r9", "slide", "slides/slide3.xml"),
                ("r2", "slide", "slides/slide1.xml"),
                ("r3", "slide", "/ppt/slides/slide2.xml"),
            ]),
        ),
        ("ppt/slides/slide3.xml", &slide("1", "Start", "Words")),
        ("ppt/slides/slide1.xml", &slide("0", "Secret", "hidden")),
        ("ppt/slides/slide2.xml", &slide("1", "End", "Bye")),
        (
            "ppt/slides/_rels/slide3.xml.rels",
            &relations(&[("r1", "notesSlide", "../notesSlides/n1.xml")]),
        ),
        (
            "ppt/notesSlides/n1.xml",
            r#"<p:notes><p:sp><p:nvPr><p:ph type="body"/></p:nvPr><a:p><a:r><a:t>Say hello.</a:t></a:r></a:p></p:sp></p:notes>"#,
        ),
    ]);
    let read = extract("pptx", &document);
    assert_eq!(read.state(), (State::Ready, None));
    assert_eq!(read.labels(), ["slide 1", "slide 3"]);
    assert_eq!(
        read.texts(),
        ["Start\nWords\n\nNotes:\nSay hello.", "End\nBye"]
    );
    assert_eq!(read.parts[0].heading.as_deref(), Some("Start"));
}

fn sheets(sheet: &str) -> Vec<u8> {
    archive(&[
        (
            "[Content_Types].xml",
            "<Types><Default Extension=\"xml\" ContentType=\"application/xml\"/></Types>",
        ),
        (
            "_rels/.rels",
            &relations(&[("r1", "officeDocument", "xl/workbook.xml")]),
        ),
        (
            "xl/workbook.xml",
            r#"<workbook xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets>
            <sheet name="Q3" sheetId="1" r:id="r1"/><sheet name="Old" sheetId="2" state="hidden" r:id="r2"/></sheets></workbook>"#,
        ),
        (
            "xl/_rels/workbook.xml.rels",
            &relations(&[
                ("r1", "worksheet", "worksheets/sheet1.xml"),
                ("r2", "worksheet", "worksheets/sheet1.xml"),
            ]),
        ),
        ("xl/worksheets/sheet1.xml", sheet),
    ])
}

#[test]
fn a_sheet_has_its_values_and_far_cells_cost_nothing() {
    let cell =
        |at: &str, value: &str| format!(r#"<c r="{at}" t="inlineStr"><is><t>{value}</t></is></c>"#);
    let sheet = format!(
        r#"<worksheet><sheetData><row r="2">{}{}</row><row r="3">{}<c r="B3"><v>12.5</v></c></row><row r="1048576">{}</row></sheetData></worksheet>"#,
        cell("A2", "Region"),
        cell("B2", "Sales"),
        cell("A3", "North"),
        cell("XFD1048576", "far")
    );
    let read = extract("xlsx", &sheets(&sheet));
    assert_eq!(read.state(), (State::Ready, None));
    assert_eq!(read.labels(), ["sheet Q3, rows 2–1048576"]);
    assert!(
        read.parts[0]
            .text
            .starts_with("Region | Sales\nNorth | 12.5\n"),
        "{:?}",
        read.parts[0].text
    );
    assert!(read.parts[0].text.ends_with("far"));
    assert_eq!(read.parts[0].header.as_deref(), Some("Region | Sales"));
}

#[test]
fn pages_of_a_pdf_keep_their_numbers() {
    let text = |words: &str| format!("BT /F1 12 Tf 72 720 Td ({words}) Tj ET");
    let read = extract(
        "pdf",
        &pdf(&[&text("Hello pages"), "", &text("Third page")]),
    );
    assert_eq!(read.state(), (State::Ready, None));
    assert_eq!(read.labels(), ["page 1", "page 2", "page 3"]);
    assert_eq!(read.texts(), ["Hello pages", "", "Third page"]);

    let picture = "q 100 0 0 100 0 0 cm /I Do Q";
    let read = extract("pdf", &pdf(&[picture, picture]));
    assert_eq!(read.state(), (State::Failed, Some(Reason::Scanned)));
    let read = extract("pdf", &pdf(&[&text("Cover"), picture]));
    assert_eq!(read.state(), (State::Partial, Some(Reason::Scanned)));
    assert_eq!(read.end.unwrap().unread_parts, [2]);
}

#[test]
fn open_documents_and_books_are_read() {
    let content = r#"<office:document-content><office:automatic-styles><style:style style:name="T1"><style:text-properties text:display="none"/>
        </style:style></office:automatic-styles><office:body><office:text><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>
        <text:h text:outline-level="1">One</text:h><text:p>a<text:s text:c="2"/>b<text:span text:style-name="T1">no</text:span></text:p>
        <table:table><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell><table:table-cell><text:p>y</text:p></table:table-cell>
        </table:table-row></table:table></office:text></office:body></office:document-content>"#;
    let mimetype = "application/vnd.oasis.opendocument.text";
    let read = extract(
        "odt",
        &archive(&[("mimetype", mimetype), ("content.xml", content)]),
    );
    assert_eq!(read.state(), (State::Ready, None));
    assert_eq!(read.labels(), ["One"]);
    assert_eq!(read.texts(), ["One\n\na  b\nx | y"]);

    let slides = r#"<o><office:body><draw:page><draw:frame presentation:class="title"><text:p>Hi</text:p></draw:frame><text:p>there</text:p>
        <presentation:notes><text:p>note</text:p></presentation:notes></draw:page></office:body></o>"#;
    let mimetype = "application/vnd.oasis.opendocument.presentation";
    let read = extract(
        "odp",
        &archive(&[("mimetype", mimetype), ("content.xml", slides)]),
    );
    assert_eq!(read.labels(), ["slide 1"]);
    assert_eq!(read.texts(), ["Hi\nthere\n\nNotes:\nnote"]);

    let encrypted = "<manifest:encryption-data/>";
    let read = extract(
        "odt",
        &archive(&[
            ("mimetype", "application/vnd.oasis.opendocument.text"),
            ("content.xml", "x"),
            ("META-INF/manifest.xml", encrypted),
        ]),
    );
    assert_eq!(read.state(), (State::Failed, Some(Reason::Encrypted)));

    let read = extract(
        "epub",
        &archive(&[
            ("mimetype", "application/epub+zip"),
            (
                "META-INF/container.xml",
                r#"<container><rootfiles><rootfile full-path="O/c.opf"/></rootfiles></container>"#,
            ),
            (
                "O/c.opf",
                r#"<package><manifest><item id="b" href="b%20b.xhtml"/><item id="a" href="a.xhtml"/></manifest>
                <spine><itemref idref="a"/><itemref idref="b"/></spine></package>"#,
            ),
            (
                "O/a.xhtml",
                "<html><body><h1>A</h1><p>first</p></body></html>",
            ),
            (
                "O/b b.xhtml",
                "<html><body><h1>B</h1><p>second</p></body></html>",
            ),
        ]),
    );
    assert_eq!(read.labels(), ["A", "B"]);
    assert_eq!(
        read.texts(),
        ["# A\n\nfirst", "# B\n\nsecond"].map(|text| text.replace("# ", ""))
    );
}

#[test]
fn texts_are_distinguished_by_their_content_and_name() {
    let read = extract(
        "md",
        "# Top\n\n```\n# no heading\n```\n\n## Sub *x*\n\ntext\n".as_bytes(),
    );
    assert_eq!(read.labels(), ["Top", "Top › Sub x"]);
    assert!(read.parts[0].text.contains("# no heading"));

    let rows: Vec<String> = (1..=401).map(|n| format!("row {n}")).collect();
    let lines = rows.join("\n");
    let read = extract("rs", lines.as_bytes());
    assert_eq!(read.labels(), ["lines 1–200", "lines 201–400", "line 401"]);
    let read = extract("csv", format!("name,age\n{lines}").as_bytes());
    assert_eq!(read.parts[1].header.as_deref(), Some("name,age"));

    let read = extract(
        "html",
        b"<!doctype html><h1>Fair</h1><p>Rain <script>x()</script>today",
    );
    assert_eq!(read.labels(), ["Fair"]);
    assert_eq!(read.texts(), ["Fair\n\nRain today"]);
    let fragment = b"<h1>Fair</h1><p>Rain today";
    assert_eq!(extract("", fragment).texts(), ["Fair\n\nRain today"]);
    assert_eq!(extract("vue", fragment).labels(), ["line 1"]);

    let mail = "From: Ada <ada@example.org>\r\nTo: bo@example.org\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\nMIME-Version: 1.0\r\n\
        Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nSee you.\r\n\
        --b\r\nContent-Disposition: attachment; filename=\"plan.pdf\"\r\n\r\nx\r\n--b--\r\n";
    let read = extract("eml", mail.as_bytes());
    assert_eq!(read.labels(), ["mail"]);
    assert_eq!(
        read.texts(),
        [
            "From: Ada <ada@example.org>\nTo: bo@example.org\nSubject: Café\n\nSee you.\n\nAttachments:\n- plan.pdf"
        ]
    );

    let utf16: Vec<u8> = "\u{feff}Grüße"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(extract("txt", &utf16).texts(), ["Grüße"]);
    let latin = b"Sch\xf6ne Gr\xfc\xdfe aus M\xfcnchen, f\xfcr alle";
    assert_eq!(
        extract("txt", latin).texts(),
        ["Schöne Grüße aus München, für alle"]
    );
}

#[test]
fn elements_of_a_page_that_are_not_shown_are_left_out() {
    for (html, expected) in [
        ("<p>one<p hidden>no<p>two", "one\n\ntwo"),
        ("<div><p hidden>no</div>two", "two"),
        (
            "one <div style='color: red; Display : none'>no<div>no</div><script>'</div>'</script>no</div>two",
            "one two",
        ),
        ("one <span style=visibility:hidden>no</span>two", "one two"),
        ("one <img hidden alt=no src=x><br hidden>two", "one two"),
        (
            "<ul><li hidden>no<ul><li>no</li></ul>no</li><li>two</ul>",
            "* two",
        ),
        (
            "<ol><li>one<li hidden>no<li>two</ol>end",
            "1. one\n2. two\n\nend",
        ),
        ("<ul><li hidden>no</ul>two", "two"),
        (
            "<dl><dt>one<dd hidden>no<p>no<dt>two<dd hidden>no</dl>end",
            "one\ntwo\n\nend",
        ),
        (
            "<table><tr><td>a<td hidden>no<td>b<tr hidden><td>no<td>no<tr><td>c</table>",
            "a | b\nc",
        ),
        (
            "<table><tr><td hidden>no<table><tr><td>no</table>no</tr><tr><td>a</table>",
            "a",
        ),
        (
            "<table><caption hidden>no<colgroup hidden><col><tr><td>a</table>",
            "a",
        ),
        ("<body hidden><p>one", "one"),
        ("one<div hidden>no", "one"),
    ] {
        let read = extract("html", html.as_bytes());
        assert_eq!(read.texts(), [expected], "{html}");
    }
}

#[test]
fn files_without_text_and_old_formats_are_named() {
    for (document, expected) in [
        (
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".as_slice(),
            (State::None, None),
        ),
        (b"\0\x01\x02\x03", (State::None, None)),
        (
            &archive(&[("a.txt", "text in an archive")]),
            (State::None, None),
        ),
        (b"{\\rtf1 x}", (State::Failed, Some(Reason::OldFormat))),
        (b"", (State::Ready, None)),
        (b"%PDF-1.7\nnothing", (State::Failed, Some(Reason::Damaged))),
    ] {
        assert_eq!(extract("", document).state(), expected, "{document:?}");
    }
}

#[test]
fn archives_that_unpack_too_far_are_stopped() {
    // 20 MiB in a document of 20 KiB.
    let bomb = word(&format!(
        "<w:p><w:r><w:t>{}</w:t></w:r></w:p>",
        "0".repeat(20 << 20)
    ));
    let read = extract("docx", &bomb);
    assert_eq!(read.state(), (State::Failed, Some(Reason::TooLarge)));

    let many: Vec<String> = (0..2_001).map(|n| format!("{n}.xml")).collect();
    let mut many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "x")).collect();
    // Only documents are read, however large another archive is.
    assert_eq!(extract("zip", &archive(&many)).state(), (State::None, None));
    many.push(("_rels/.rels", "x"));
    assert_eq!(
        extract("docx", &archive(&many)).state(),
        (State::Failed, Some(Reason::TooLarge))
    );
}

#[test]
fn the_text_before_notes_that_are_too_large_stays() {
    let notes = format!("<w:footnotes>{}</w:footnotes>", " ".repeat(30 << 20));
    let document = archive(&[
        (
            "_rels/.rels",
            &relations(&[("r1", "officeDocument", "word/document.xml")]),
        ),
        (
            "word/_rels/document.xml.rels",
            &relations(&[("r1", "footnotes", "footnotes.xml")]),
        ),
        ("word/footnotes.xml", &notes),
        (
            "word/document.xml",
            "<w:document><w:p><w:r><w:t>The text</w:t></w:r></w:p></w:document>",
        ),
    ]);
    let read = extract("docx", &document);
    assert_eq!(read.state(), (State::Partial, Some(Reason::TooLarge)));
    assert_eq!(read.texts(), ["The text"]);
}

#[test]
fn hostile_xml_is_neither_expanded_nor_followed() {
    let entities = "<!DOCTYPE x [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\"><!ENTITY f SYSTEM \"file:///etc/passwd\">]>";
    let document = archive(&[
        (
            "_rels/.rels",
            &relations(&[("r1", "officeDocument", "word/document.xml")]),
        ),
        (
            "word/document.xml",
            &format!(
                "{entities}<w:document><w:p><w:r><w:t>x&b;&f;y</w:t></w:r></w:p></w:document>"
            ),
        ),
    ]);
    let read = extract("docx", &document);
    assert_eq!(read.texts(), ["xy"]);

    let deep = format!(
        "<w:p><w:r><w:t>before</w:t></w:r></w:p>{}",
        "<w:x>".repeat(100_000)
    );
    let read = extract("docx", &word(&deep));
    assert_eq!(read.state(), (State::Partial, Some(Reason::TooLarge)));
    assert_eq!(read.texts(), ["before"]);
}

#[test]
fn what_was_read_before_a_limit_stays() {
    let lines = "x\n".repeat(200 * 5_001);
    let read = extract("txt", lines.as_bytes());
    assert_eq!(read.state(), (State::Partial, Some(Reason::TooLarge)));
    assert_eq!(read.parts.len(), 5_000);

    let long = "word ".repeat(5 << 20);
    let read = extract("txt", long.as_bytes());
    assert_eq!(read.state(), (State::Partial, Some(Reason::TooLarge)));
    let bytes: usize = read.parts.iter().map(|part| part.text.len()).sum();
    assert!(bytes <= 20 << 20 && bytes > 19 << 20, "{bytes}");
}

#[test]
fn no_broken_document_brings_the_process_down() {
    let text = "BT /F1 12 Tf 72 720 Td (Hello pages) Tj ET";
    let seeds = [
        ("pdf", pdf(&[text, text, text])),
        ("docx", word(&paragraph("Heading1", "Travel"))),
        (
            "xlsx",
            sheets(
                "<worksheet><sheetData><row r=\"1\"><c r=\"A1\"><v>1</v></c></row></sheetData></worksheet>",
            ),
        ),
    ];
    // A fixed sequence, so that a failure can be repeated.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    for (ending, seed) in seeds {
        for _ in 0..60 {
            let mut broken = seed.clone();
            for _ in 0..=next(12) {
                let at = next(broken.len());
                match next(3) {
                    0 => broken[at] = u8::try_from(next(256)).unwrap(),
                    1 => broken.truncate(at.max(1)),
                    _ => {
                        let piece = broken[at..(at + next(200)).min(broken.len())].to_vec();
                        let to = next(broken.len());
                        broken.splice(to..to, piece);
                    }
                }
            }
            let read = extract(ending, &broken);
            assert!(read.end.is_some(), "{ending}: {:?}", read.status);
        }
    }
}

#[test]
fn the_process_can_do_nothing_else() {
    let escape = |how: &str| {
        Command::new(program())
            .args(["--escape", how])
            .env_clear()
            .stderr(Stdio::null())
            .status()
            .unwrap()
    };
    // The example ends with 10 if an attempt failed, and with 11 if it succeeded.
    for how in ["open", "write", "thread"] {
        assert_eq!(escape(how).code(), Some(10), "{how}");
    }
    for how in ["connect", "fork"] {
        assert_eq!(escape(how).signal(), Some(SIGSYS), "{how}");
    }
    assert_eq!(escape("memory").signal(), Some(SIGABRT));
}
