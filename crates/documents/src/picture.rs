//! Pictures for models: upright, small, and without metadata.

use std::{
    io::{Cursor, Write},
    panic::AssertUnwindSafe,
};

use image::{
    DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage,
    codecs::jpeg::JpegEncoder, metadata::Orientation,
};
use serde::{Deserialize, Serialize};

/// Argument of the process that scales a picture instead of reading a document. No file name ends with it.
pub const PICTURE: &str = "picture:";
/// Maximum width and height of a scaled picture in pixels.
pub const PICTURE_SIDE_MAX: u32 = 1_568;
/// Maximum size of a scaled picture in bytes.
pub const PICTURE_BYTES_MAX: usize = 1_572_864;
/// Maximum number of pixels of a picture that is decoded.
pub const PICTURE_PIXELS_MAX: u64 = 50_000_000;

/// Maximum width and height of a picture that is decoded.
const SIDE_MAX: u32 = 65_535;
/// Maximum size of the decoded pixels and of a decoder's own buffers in bytes; the process has 1 GiB.
const DECODED_BYTES_MAX: u64 = 420 << 20;
const JPEG_QUALITY: u8 = 85;
/// Shortest longer side to which a picture is scaled so that it has at most `PICTURE_BYTES_MAX`.
const SIDE_MIN: u32 = 256;

/// Format of a scaled picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PictureFormat {
    Jpeg,
    /// For pictures with transparent pixels.
    Png,
}

impl PictureFormat {
    /// MIME type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Jpeg => "image/jpeg",
            Self::Png => "image/png",
        }
    }
}

/// The first line of the output; the bytes of the picture follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PictureHeader {
    pub format: PictureFormat,
    /// Size in pixels.
    pub width: u32,
    pub height: u32,
}

/// Scales a picture and writes it; `None` if it is not a picture that can be decoded within the limits.
pub(crate) fn write(bytes: &[u8], out: &mut dyn Write) -> Option<()> {
    let scaled = std::panic::catch_unwind(AssertUnwindSafe(|| scaled(bytes))).ok()?;
    let (header, picture) = scaled?;
    let mut line = serde_json::to_vec(&header).ok()?;
    line.push(b'\n');
    out.write_all(&line).ok()?;
    out.write_all(&picture).ok()?;
    out.flush().ok()
}

/// Decodes a picture, and encodes it again.
fn scaled(bytes: &[u8]) -> Option<(PictureHeader, Vec<u8>)> {
    let (picture, orientation) = decoded(bytes)?;
    let mut small = fitted(&picture, PICTURE_SIDE_MAX);
    // Both would not fit into the memory together with the encoded bytes of a large picture.
    drop(picture);
    small.apply_orientation(orientation);
    if is_transparent(&small) {
        let rgba = DynamicImage::ImageRgba8(small.to_rgba8());
        let mut png = Cursor::new(Vec::new());
        rgba.write_to(&mut png, ImageFormat::Png).ok()?;
        let png = png.into_inner();
        if png.len() <= PICTURE_BYTES_MAX {
            return Some((header(PictureFormat::Png, &rgba), png));
        }
    }
    let mut opaque = DynamicImage::ImageRgb8(on_white(&small));
    loop {
        let mut jpeg = Vec::new();
        let encoder = JpegEncoder::new_with_quality(&mut jpeg, JPEG_QUALITY);
        opaque.write_with_encoder(encoder).ok()?;
        if jpeg.len() <= PICTURE_BYTES_MAX {
            return Some((header(PictureFormat::Jpeg, &opaque), jpeg));
        }
        let side = opaque.width().max(opaque.height()) / 4 * 3;
        if side < SIDE_MIN {
            return None;
        }
        opaque = fitted(&opaque, side);
    }
}

/// Decodes the first frame of a picture within the limits. The format is detected from the bytes.
fn decoded(bytes: &[u8]) -> Option<(DynamicImage, Orientation)> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .ok()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE_MAX);
    limits.max_image_height = Some(SIDE_MAX);
    limits.max_alloc = Some(DECODED_BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().ok()?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 || pixels > PICTURE_PIXELS_MAX || decoder.total_bytes() > DECODED_BYTES_MAX {
        return None;
    }
    // A picture with damaged metadata can still be shown.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).ok()?;
    Some((picture, orientation))
}

/// Scales a picture down so that no side is longer than `side_max`.
fn fitted(picture: &DynamicImage, side_max: u32) -> DynamicImage {
    if picture.width().max(picture.height()) <= side_max {
        picture.clone()
    } else {
        picture.thumbnail(side_max, side_max)
    }
}

fn is_transparent(picture: &DynamicImage) -> bool {
    picture.color().has_alpha()
        && picture
            .to_rgba8()
            .pixels()
            .any(|pixel| pixel.0[3] < u8::MAX)
}

/// The picture on a white background.
fn on_white(picture: &DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.to_rgb8();
    }
    let rgba = picture.to_rgba8();
    let mut opaque = RgbImage::new(rgba.width(), rgba.height());
    for (to, from) in opaque.pixels_mut().zip(rgba.pixels()) {
        let [red, green, blue, alpha] = from.0.map(u16::from);
        let mix = |color: u16| {
            let mixed = (color * alpha + 255 * (255 - alpha)) / 255;
            u8::try_from(mixed).unwrap_or(u8::MAX)
        };
        to.0 = [mix(red), mix(green), mix(blue)];
    }
    opaque
}

fn header(format: PictureFormat, picture: &DynamicImage) -> PictureHeader {
    PictureHeader {
        format,
        width: picture.width(),
        height: picture.height(),
    }
}
