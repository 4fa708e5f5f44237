//! Types of parameters and columns, stored in the same form as by sqlx's own driver.

use chrono::{DateTime, SecondsFormat, Utc};
use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};
use sqlx_core::{
    decode::Decode,
    encode::{Encode, IsNull},
    error::BoxDynError,
    types::{Json, Type},
};
use uuid::Uuid;

use crate::{Buffer, Sqlite, SqliteTypeInfo, SqliteValueRef, arguments::Argument};

impl<'r> SqliteValueRef<'r> {
    fn integer(self) -> Result<i64, BoxDynError> {
        match self.0 {
            ValueRef::Integer(n) => Ok(n),
            other => Err(format!("expected an integer, found {}", other.data_type()).into()),
        }
    }

    fn real(self) -> Result<f64, BoxDynError> {
        match self.0 {
            ValueRef::Real(n) => Ok(n),
            other => Err(format!("expected a real, found {}", other.data_type()).into()),
        }
    }

    fn bytes(self) -> Result<&'r [u8], BoxDynError> {
        match self.0 {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(bytes),
            other => Err(format!("expected text or a blob, found {}", other.data_type()).into()),
        }
    }

    fn text(self) -> Result<&'r str, BoxDynError> {
        Ok(std::str::from_utf8(self.bytes()?)?)
    }
}

/// Implements `Type` from the type of a parameter and the types of compatible values.
macro_rules! types {
    ($($type:ty = $info:ident, from $($compatible:ident)|+;)+) => {$(
        impl Type<Sqlite> for $type {
            fn type_info() -> SqliteTypeInfo {
                SqliteTypeInfo::$info
            }

            fn compatible(info: &SqliteTypeInfo) -> bool {
                matches!(info, $(SqliteTypeInfo::$compatible)|+)
            }
        }
    )+};
}

types! {
    i64 = Integer, from Integer;
    i32 = Integer, from Integer;
    bool = Boolean, from Integer | Boolean;
    f64 = Real, from Real;
    str = Text, from Text;
    String = Text, from Text;
    [u8] = Blob, from Blob | Text;
    Vec<u8> = Blob, from Blob | Text;
    Uuid = Blob, from Blob | Text;
    DateTime<Utc> = Datetime, from Datetime | Text;
}

impl<T> Type<Sqlite> for Json<T> {
    fn type_info() -> SqliteTypeInfo {
        SqliteTypeInfo::Text
    }

    fn compatible(info: &SqliteTypeInfo) -> bool {
        *info == SqliteTypeInfo::Text
    }
}

/// Implements `Encode` for types whose values are copied.
macro_rules! encode {
    ($($type:ty: $value:ident => $argument:expr;)+) => {$(
        impl Encode<'_, Sqlite> for $type {
            fn encode_by_ref(&self, buffer: &mut Buffer) -> Result<IsNull, BoxDynError> {
                let $value = self;
                buffer.push($argument);
                Ok(IsNull::No)
            }
        }
    )+};
}

encode! {
    i64: n => Argument::Integer(*n);
    i32: n => Argument::Integer(i64::from(*n));
    bool: is_true => Argument::Integer(i64::from(*is_true));
    f64: n => Argument::Real(*n);
    &'_ str: text => Argument::Text((*text).to_owned());
    &'_ [u8]: bytes => Argument::Blob(bytes.to_vec());
    Uuid: id => Argument::Uuid(*id);
    // Strings in this format sort by time.
    DateTime<Utc>: at => Argument::Text(at.to_rfc3339_opts(SecondsFormat::AutoSi, false));
}

impl Encode<'_, Sqlite> for String {
    fn encode(self, buffer: &mut Buffer) -> Result<IsNull, BoxDynError> {
        buffer.push(Argument::Text(self));
        Ok(IsNull::No)
    }

    fn encode_by_ref(&self, buffer: &mut Buffer) -> Result<IsNull, BoxDynError> {
        self.clone().encode(buffer)
    }
}

impl Encode<'_, Sqlite> for Vec<u8> {
    fn encode(self, buffer: &mut Buffer) -> Result<IsNull, BoxDynError> {
        buffer.push(Argument::Blob(self));
        Ok(IsNull::No)
    }

    fn encode_by_ref(&self, buffer: &mut Buffer) -> Result<IsNull, BoxDynError> {
        self.clone().encode(buffer)
    }
}

impl<T: Serialize> Encode<'_, Sqlite> for Json<T> {
    fn encode_by_ref(&self, buffer: &mut Buffer) -> Result<IsNull, BoxDynError> {
        buffer.push(Argument::Text(self.encode_to_string()?));
        Ok(IsNull::No)
    }
}

impl Decode<'_, Sqlite> for i64 {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        value.integer()
    }
}

impl Decode<'_, Sqlite> for i32 {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(value.integer()?.try_into()?)
    }
}

impl Decode<'_, Sqlite> for bool {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(value.integer()? != 0)
    }
}

impl Decode<'_, Sqlite> for f64 {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        value.real()
    }
}

impl<'r> Decode<'r, Sqlite> for &'r str {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        value.text()
    }
}

impl Decode<'_, Sqlite> for String {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(value.text()?.to_owned())
    }
}

impl<'r> Decode<'r, Sqlite> for &'r [u8] {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        value.bytes()
    }
}

impl Decode<'_, Sqlite> for Vec<u8> {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(value.bytes()?.to_vec())
    }
}

impl Decode<'_, Sqlite> for Uuid {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self::from_slice(value.bytes()?)?)
    }
}

impl Decode<'_, Sqlite> for DateTime<Utc> {
    fn decode(value: SqliteValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(DateTime::parse_from_rfc3339(value.text()?)?.to_utc())
    }
}

impl<'r, T> Decode<'r, Sqlite> for Json<T>
where
    T: 'r + Deserialize<'r>,
{
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        Self::decode_from_bytes(value.bytes()?)
    }
}
