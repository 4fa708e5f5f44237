//! Deserializes fields of a PATCH, in which an absent field, `null`, and a value are distinct.

use serde::{Deserialize, Deserializer};

/// Deserializes a field that can be cleared: an absent field is `None`, and `null` is `Some(None)`.
///
/// # Errors
/// If the value has the wrong type.
pub fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(d).map(Some)
}

/// Deserializes a field that cannot be cleared: an absent field is `None`, and `null` is an error.
///
/// # Errors
/// If the value has the wrong type or is `null`.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
