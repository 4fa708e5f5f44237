//! Rows. They are copies, because the engine overwrites its own row with the next one.

use std::{
    fmt,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rusqlite::types::ValueRef;
use sqlx_core::{
    Error,
    column::{Column, ColumnIndex},
    row::Row,
};

use crate::{Sqlite, SqliteTypeInfo, SqliteValueRef, error::sql_error};

/// Column of a result.
#[derive(Debug, Clone)]
pub struct SqliteColumn {
    name: Box<str>,
    ordinal: usize,
}

impl Column for SqliteColumn {
    type Database = Sqlite;

    fn ordinal(&self) -> usize {
        self.ordinal
    }

    fn name(&self) -> &str {
        &self.name
    }

    /// Always `Null`: each value has its own type, regardless of its column.
    fn type_info(&self) -> &SqliteTypeInfo {
        &SqliteTypeInfo::Null
    }
}

/// Columns of a statement's result.
pub(crate) fn columns_of(statement: &rusqlite::Statement<'_>) -> Arc<[SqliteColumn]> {
    let names = statement.column_names().into_iter().enumerate();
    names.map(|(ordinal, name)| SqliteColumn { name: name.into(), ordinal }).collect()
}

/// Value in a row. The ranges of texts and blobs refer to `SqliteRow::bytes`.
#[derive(Clone)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Range<usize>),
    Blob(Range<usize>),
}

/// Row of a result.
pub struct SqliteRow {
    columns: Arc<[SqliteColumn]>,
    cells: Vec<Cell>,
    /// Texts and blobs of all cells.
    bytes: Vec<u8>,
    /// Position after the last column that was found. It is checked first, because structs are mostly read in column order.
    next: AtomicUsize,
}

impl Clone for SqliteRow {
    fn clone(&self) -> Self {
        Self {
            columns: Arc::clone(&self.columns),
            cells: self.cells.clone(),
            bytes: self.bytes.clone(),
            next: AtomicUsize::new(0),
        }
    }
}

impl SqliteRow {
    pub(crate) fn new(columns: Arc<[SqliteColumn]>) -> Self {
        Self {
            cells: Vec::with_capacity(columns.len()),
            bytes: Vec::new(),
            next: AtomicUsize::new(0),
            columns,
        }
    }

    /// Replaces the values with those of the engine's current row.
    pub(crate) fn read(&mut self, row: &rusqlite::Row<'_>) -> Result<(), Error> {
        self.cells.clear();
        self.bytes.clear();
        for i in 0..self.columns.len() {
            let cell = match row.get_ref(i).map_err(sql_error)? {
                ValueRef::Null => Cell::Null,
                ValueRef::Integer(n) => Cell::Integer(n),
                ValueRef::Real(n) => Cell::Real(n),
                ValueRef::Text(bytes) => Cell::Text(self.append(bytes)),
                ValueRef::Blob(bytes) => Cell::Blob(self.append(bytes)),
            };
            self.cells.push(cell);
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

impl Row for SqliteRow {
    type Database = Sqlite;

    fn columns(&self) -> &[SqliteColumn] {
        &self.columns
    }

    fn try_get_raw<I>(&self, index: I) -> Result<SqliteValueRef<'_>, Error>
    where
        I: ColumnIndex<Self>,
    {
        let index = index.index(self)?;
        let len = self.cells.len();
        let cell = self.cells.get(index);
        let cell = cell.ok_or(Error::ColumnIndexOutOfBounds { index, len })?;
        Ok(SqliteValueRef(match cell {
            Cell::Null => ValueRef::Null,
            Cell::Integer(n) => ValueRef::Integer(*n),
            Cell::Real(n) => ValueRef::Real(*n),
            Cell::Text(range) => ValueRef::Text(&self.bytes[range.clone()]),
            Cell::Blob(range) => ValueRef::Blob(&self.bytes[range.clone()]),
        }))
    }
}

impl ColumnIndex<SqliteRow> for &'_ str {
    fn index(&self, row: &SqliteRow) -> Result<usize, Error> {
        let next = row.next.load(Ordering::Relaxed);
        let is_next = row.columns.get(next).is_some_and(|column| *column.name == **self);
        let index = if is_next { next } else { position(&row.columns, self)? };
        row.next.store(index + 1, Ordering::Relaxed);
        Ok(index)
    }
}

/// Position of the column with this name.
pub(crate) fn position(columns: &[SqliteColumn], name: &str) -> Result<usize, Error> {
    let found = columns.iter().position(|column| *column.name == *name);
    found.ok_or_else(|| Error::ColumnNotFound(name.to_owned()))
}

impl fmt::Debug for SqliteRow {
    /// Omits the values, which can be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.columns.iter().map(|column| &column.name);
        f.debug_set().entries(names).finish()
    }
}
