//! Vectors with a signed byte for each value.

/// Scales a vector so that its largest value becomes 127. A vector of zeros remains one.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the scaled values are from -127 to 127"
)]
pub fn to_bytes(vector: &[f32]) -> Vec<u8> {
    let largest = vector
        .iter()
        .fold(0.0_f32, |max, value| max.max(value.abs()));
    if largest <= 0.0 {
        return vec![0; vector.len()];
    }
    let scaled = vector.iter().map(|value| value / largest * 127.0);
    scaled
        .map(|value| (value.round() as i8).cast_unsigned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_scaled_to_bytes() {
        let bytes = |vector: &[f32]| -> Vec<i8> {
            let bytes = to_bytes(vector).into_iter();
            bytes.map(u8::cast_signed).collect()
        };
        assert_eq!(bytes(&[0.5, -0.25, 0.0]), [127, -64, 0]);
        assert_eq!(bytes(&[0.0, 0.0]), [0, 0]);
        assert_eq!(bytes(&[f32::MAX, f32::MIN]), [127, -127]);
        assert_eq!(bytes(&[f32::MIN_POSITIVE, 0.0]), [127, 0]);
    }
}
