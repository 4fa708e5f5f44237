//! How the fields of a PATCH are read: absent, `null`, and a value are three things.

use serde::{Deserialize, Deserializer};

/// For a field that `null` empties: absent is `None`, `null` is `Some(None)`.
///
/// # Errors
/// When the value has another type.
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(d).map(Some)
}

/// For a field that cannot be emptied: absent is `None`, `null` is an error.
///
/// # Errors
/// When the value has another type, or is `null`.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
