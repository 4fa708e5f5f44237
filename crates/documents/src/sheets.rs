//! Workbooks: a part for each sheet, with the values of its cells. Hidden sheets are left out.

use std::io::Cursor;

use calamine::{Data, DataRef, ExcelDateTime, Ods, Reader, SheetType, SheetVisible, Xls, Xlsx};

use crate::{
    Reason,
    kind::Workbook,
    package::Package,
    sink::{Draft, Sink, Step, Stop, TEXT_BYTES_MAX},
};

const SEPARATOR: &str = " | ";
/// Maximum number of empty cells before a value; the others in between are left out.
const GAP_MAX: u32 = 50;

pub(crate) fn read(document: Vec<u8>, format: Workbook, sink: &mut Sink<'_>) -> Step {
    if format != Workbook::Xls {
        Package::open(&document)?.check_all()?;
    }
    let source = Cursor::new(document);
    match format {
        Workbook::Xlsx => {
            let book: Result<Xlsx<_>, _> = calamine::open_workbook_from_rs(source);
            let mut book = book.map_err(|e| xlsx_reason(&e))?;
            for name in visible(&book) {
                let label = format!("sheet {name}");
                match streamed(&mut book, &name) {
                    Ok(sheet) => sheet.write(label, sink)?,
                    Err(Stop::Because(reason)) => sink.unread(&label, reason)?,
                    Err(stop) => return Err(stop),
                }
            }
            Ok(())
        }
        Workbook::Xls => {
            let book: Result<Xls<_>, _> = calamine::open_workbook_from_rs(source);
            ranges(
                book.map_err(|e| match e {
                    calamine::XlsError::Password => Reason::Encrypted,
                    _ => Reason::Damaged,
                })?,
                sink,
            )
        }
        Workbook::Ods => {
            let book: Result<Ods<_>, _> = calamine::open_workbook_from_rs(source);
            ranges(
                book.map_err(|e| match e {
                    calamine::OdsError::Password => Reason::Encrypted,
                    _ => Reason::Damaged,
                })?,
                sink,
            )
        }
    }
}

fn xlsx_reason(e: &calamine::XlsxError) -> Stop {
    Stop::Because(match e {
        calamine::XlsxError::Password => Reason::Encrypted,
        _ => Reason::Damaged,
    })
}

/// Names of the sheets that are read.
fn visible<R: Reader<Cursor<Vec<u8>>>>(book: &R) -> Vec<String> {
    let sheets = book.sheets_metadata().iter();
    sheets
        .filter(|sheet| sheet.visible == SheetVisible::Visible)
        .filter(|sheet| matches!(sheet.typ, SheetType::WorkSheet | SheetType::DialogSheet))
        .map(|sheet| sheet.name.clone())
        .collect()
}

/// Reads sheets that the library holds in memory as a whole.
fn ranges<R: Reader<Cursor<Vec<u8>>>>(mut book: R, sink: &mut Sink<'_>) -> Step {
    for name in visible(&book) {
        let label = format!("sheet {name}");
        let Ok(range) = book.worksheet_range(&name) else {
            sink.unread(&label, Reason::Damaged)?;
            continue;
        };
        let (first_row, first_column) = range.start().unwrap_or((0, 0));
        let mut sheet = Sheet::default();
        for (row, column, value) in range.used_cells() {
            let at = |offset: usize, first: u32| u32::try_from(offset).unwrap_or(0) + first;
            sheet.put(at(row, first_row), at(column, first_column), &shown(value));
        }
        sheet.write(label, sink)?;
    }
    Ok(())
}

/// Reads a sheet cell by cell, because the library would fill the space between far cells.
fn streamed(book: &mut Xlsx<Cursor<Vec<u8>>>, name: &str) -> Result<Sheet, Stop> {
    let mut sheet = Sheet::default();
    let mut cells = book
        .worksheet_cells_reader(name)
        .map_err(|e| xlsx_reason(&e))?;
    while let Some(cell) = cells.next_cell().map_err(|e| xlsx_reason(&e))? {
        let (row, column) = cell.get_position();
        let value = match cell.get_value() {
            DataRef::SharedString(text) => (*text).to_owned(),
            other => shown(&Data::from(other.clone())),
        };
        sheet.put(row, column, &value);
        if sheet.text.len() > TEXT_BYTES_MAX {
            break;
        }
    }
    Ok(sheet)
}

#[derive(Default)]
struct Sheet {
    text: String,
    header_bytes: Option<usize>,
    /// First and last row with a value, starting at 0.
    rows: Option<(u32, u32)>,
    column: u32,
}

impl Sheet {
    fn put(&mut self, row: u32, column: u32, value: &str) {
        let value = cell(value);
        if value.is_empty() {
            return;
        }
        match self.rows {
            None => {
                self.rows = Some((row, row));
                self.column = column;
            }
            Some((first, last)) if row != last => {
                self.header_bytes.get_or_insert(self.text.len());
                self.text.push('\n');
                self.rows = Some((first, last.max(row)));
                for _ in 0..column.min(GAP_MAX) {
                    self.text.push_str(SEPARATOR);
                }
            }
            Some(_) => {
                let gap = column.saturating_sub(self.column).clamp(1, GAP_MAX);
                for _ in 0..gap {
                    self.text.push_str(SEPARATOR);
                }
            }
        }
        self.column = column;
        self.text.push_str(&value);
    }

    fn write(self, label: String, sink: &mut Sink<'_>) -> Step {
        let label = match self.rows {
            Some((first, last)) if first == last => format!("{label}, row {}", first + 1),
            Some((first, last)) => format!("{label}, rows {}–{}", first + 1, last + 1),
            None => label,
        };
        let header = self.header_bytes.map(|len| self.text[..len].to_owned());
        sink.part(Draft {
            label,
            header,
            text: self.text,
            ..Draft::default()
        })
    }
}

/// Text of a cell in one line.
pub(crate) fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

fn shown(value: &Data) -> String {
    match value {
        Data::Empty => String::new(),
        Data::Int(n) => n.to_string(),
        Data::Float(n) => n.to_string(),
        Data::Bool(true) => "TRUE".to_owned(),
        Data::Bool(false) => "FALSE".to_owned(),
        Data::DateTime(moment) => moment_text(moment),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => text.clone(),
        Data::Error(e) => e.to_string(),
    }
}

fn moment_text(moment: &ExcelDateTime) -> String {
    if moment.is_duration() || moment.as_f64() < 1.0 {
        let seconds = (moment.as_f64() * 86_400.0).round();
        let (hours, minutes) = ((seconds / 3600.0).floor(), (seconds / 60.0).floor() % 60.0);
        return format!("{hours}:{minutes:02}:{:02}", seconds % 60.0);
    }
    let (year, month, day, hour, minute, second, _) = moment.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    if moment.as_f64().fract() == 0.0 {
        date
    } else {
        format!("{date} {hour:02}:{minute:02}:{second:02}")
    }
}
