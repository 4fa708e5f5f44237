//! Parameters of statements.

use std::fmt;

use rusqlite::{
    Statement, ToSql,
    types::{ToSqlOutput, ValueRef},
};
use sqlx_core::{
    Error,
    arguments::Arguments,
    encode::{Encode, IsNull},
    error::BoxDynError,
    types::Type,
};
use uuid::Uuid;

use crate::{Sqlite, error::sql_error};

/// Bound value.
#[derive(Debug, Clone)]
pub(crate) enum Argument {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    /// Stored as a blob of 16 bytes.
    Uuid(Uuid),
}

impl ToSql for Argument {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(n) => ValueRef::Integer(*n),
            Self::Real(n) => ValueRef::Real(*n),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
            Self::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        }))
    }
}

/// Values that are encoded into the parameters of a statement.
#[derive(Debug, Clone, Default)]
pub struct Buffer(Vec<Argument>);

impl Buffer {
    pub(crate) fn push(&mut self, value: Argument) {
        self.0.push(value);
    }
}

/// Parameters of a statement, for `$1`, `$2`, ….
#[derive(Debug, Clone, Default)]
pub struct SqliteArguments(Buffer);

impl Arguments for SqliteArguments {
    type Database = Sqlite;

    fn reserve(&mut self, additional: usize, _size: usize) {
        self.0.0.reserve(additional);
    }

    fn add<'t, T>(&mut self, value: T) -> Result<(), BoxDynError>
    where
        T: Encode<'t, Sqlite> + Type<Sqlite>,
    {
        let length = self.0.0.len();
        match value.encode(&mut self.0) {
            Ok(IsNull::Yes) => self.0.push(Argument::Null),
            Ok(IsNull::No) => {}
            Err(e) => {
                // Removes a value that was only partially encoded.
                self.0.0.truncate(length);
                return Err(e);
            }
        }
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.0.len()
    }

    fn format_placeholder<W: fmt::Write>(&self, writer: &mut W) -> fmt::Result {
        write!(writer, "${}", self.len())
    }
}

impl SqliteArguments {
    /// Binds the values by the numbers in the parameter names. `SQLite` itself numbers parameters in the order of their first use,
    /// regardless of their names.
    pub(crate) fn bind(&self, statement: &mut Statement<'_>) -> Result<(), Error> {
        for index in 1..=statement.parameter_count() {
            let n = match statement.parameter_name(index) {
                Some(name) => name.get(1..).and_then(|digits| digits.parse().ok()),
                None => Some(index),
            };
            let n: usize = n.ok_or_else(|| unknown(statement.parameter_name(index)))?;
            let value = n.checked_sub(1).and_then(|n| self.0.0.get(n));
            let value = value.ok_or_else(|| unknown(statement.parameter_name(index)))?;
            statement.raw_bind_parameter(index, value).map_err(sql_error)?;
        }
        Ok(())
    }
}

fn unknown(name: Option<&str>) -> Error {
    let name = name.unwrap_or("?");
    Error::Encode(format!("the parameter {name} has no value").into())
}
