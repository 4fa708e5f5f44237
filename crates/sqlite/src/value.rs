//! Values of columns, and their types.

use std::{borrow::Cow, fmt};

use rusqlite::types::ValueRef;
use sqlx_core::type_info::TypeInfo;

use crate::Sqlite;

/// Type of a value. `SQLite` itself has only the first five; the others distinguish types of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqliteTypeInfo {
    Null,
    Integer,
    Real,
    Text,
    Blob,
    Boolean,
    Datetime,
}

impl TypeInfo for SqliteTypeInfo {
    fn is_null(&self) -> bool {
        *self == Self::Null
    }

    fn name(&self) -> &str {
        match self {
            Self::Null => "NULL",
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
            Self::Boolean => "BOOLEAN",
            Self::Datetime => "DATETIME",
        }
    }
}

impl fmt::Display for SqliteTypeInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Value of a row.
#[derive(Debug, Clone, Copy)]
pub struct SqliteValueRef<'r>(pub(crate) ValueRef<'r>);

impl SqliteValueRef<'_> {
    fn info(self) -> SqliteTypeInfo {
        match self.0 {
            ValueRef::Null => SqliteTypeInfo::Null,
            ValueRef::Integer(_) => SqliteTypeInfo::Integer,
            ValueRef::Real(_) => SqliteTypeInfo::Real,
            ValueRef::Text(_) => SqliteTypeInfo::Text,
            ValueRef::Blob(_) => SqliteTypeInfo::Blob,
        }
    }
}

impl<'r> sqlx_core::value::ValueRef<'r> for SqliteValueRef<'r> {
    type Database = Sqlite;

    fn to_owned(&self) -> SqliteValue {
        match self.0 {
            ValueRef::Null => SqliteValue::Null,
            ValueRef::Integer(n) => SqliteValue::Integer(n),
            ValueRef::Real(n) => SqliteValue::Real(n),
            ValueRef::Text(bytes) => SqliteValue::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => SqliteValue::Blob(bytes.to_vec()),
        }
    }

    fn type_info(&self) -> Cow<'_, SqliteTypeInfo> {
        Cow::Owned(self.info())
    }

    fn is_null(&self) -> bool {
        self.0 == ValueRef::Null
    }
}

/// Copy of a value.
#[derive(Debug, Clone)]
pub enum SqliteValue {
    Null,
    Integer(i64),
    Real(f64),
    /// Usually UTF-8, but the engine does not check this.
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl SqliteValue {
    fn value(&self) -> SqliteValueRef<'_> {
        SqliteValueRef(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(n) => ValueRef::Integer(*n),
            Self::Real(n) => ValueRef::Real(*n),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        })
    }
}

impl sqlx_core::value::Value for SqliteValue {
    type Database = Sqlite;

    fn as_ref(&self) -> SqliteValueRef<'_> {
        self.value()
    }

    fn type_info(&self) -> Cow<'_, SqliteTypeInfo> {
        Cow::Owned(self.value().info())
    }

    fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}
