//! The process that scales pictures, as the server starts it.

#![allow(clippy::unwrap_used, reason = "test helpers")]

use std::{
    io::{Cursor, Read, Write},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
};

use image::{
    DynamicImage, Frame, ImageFormat, Rgb, RgbImage, Rgba, RgbaImage, codecs::gif::GifEncoder,
};
use openvibe_documents::{
    PICTURE, PICTURE_BYTES_MAX, PICTURE_SIDE_MAX, PictureFormat, PictureHeader,
};

const RED: Rgb<u8> = Rgb([200, 0, 0]);
const BLUE: Rgb<u8> = Rgb([0, 0, 200]);

fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let target = own.parent().unwrap().parent().unwrap();
    target.join("examples/extract")
}

/// The picture as the process writes it; `None` if it could not be decoded.
fn scaled(picture: &[u8]) -> Option<(PictureHeader, DynamicImage, Vec<u8>)> {
    let mut child = Command::new(program())
        .arg(PICTURE)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let picture = picture.to_vec();
    let feeding = thread::spawn(move || {
        let _ = input.write_all(&picture);
    });
    let mut output = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_to_end(&mut output).unwrap();
    feeding.join().unwrap();
    let status = child.wait().unwrap();
    if !status.success() {
        // It ends by itself: a signal would mean that the sandbox killed it.
        assert_eq!(status.code(), Some(1), "{status}");
        assert!(output.is_empty());
        return None;
    }
    let end = output.iter().position(|byte| *byte == b'\n').unwrap();
    let header: PictureHeader = serde_json::from_slice(&output[..end]).unwrap();
    let bytes = output[end + 1..].to_vec();
    let format = match header.format {
        PictureFormat::Jpeg => ImageFormat::Jpeg,
        PictureFormat::Png => ImageFormat::Png,
    };
    let decoded = image::load_from_memory_with_format(&bytes, format).unwrap();
    assert_eq!(
        (decoded.width(), decoded.height()),
        (header.width, header.height)
    );
    assert!(bytes.len() <= PICTURE_BYTES_MAX);
    Some((header, decoded, bytes))
}

fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    picture.into().write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

/// Red on the left, blue on the right.
fn halves(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, _| if x < width / 2 { RED } else { BLUE })
}

/// Checks for about this color; JPEG changes it a little.
fn is_about(pixel: Rgb<u8>, wanted: Rgb<u8>) -> bool {
    let mut parts = pixel.0.iter().zip(wanted.0);
    parts.all(|(is, wanted)| is.abs_diff(wanted) < 40)
}

fn pixel(picture: &DynamicImage, x: u32, y: u32) -> Rgb<u8> {
    *picture.to_rgb8().get_pixel(x, y)
}

/// A segment of a JPEG that contains only the orientation, put after its first two bytes.
fn turned(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut segment = vec![0xff, 0xe1, 0, 34];
    segment.extend(b"Exif\0\0II\x2a\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0");
    segment.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    [&jpeg[..2], &segment, &jpeg[2..]].concat()
}

#[test]
fn each_kind_of_picture_becomes_a_small_jpeg() {
    for format in [
        ImageFormat::Png,
        ImageFormat::Jpeg,
        ImageFormat::WebP,
        ImageFormat::Gif,
    ] {
        let picture = encoded(halves(3_136, 100), format);
        let (header, small, _) = scaled(&picture).unwrap();
        assert_eq!(header.format, PictureFormat::Jpeg, "{format:?}");
        assert_eq!((header.width, header.height), (PICTURE_SIDE_MAX, 50));
        assert!(is_about(pixel(&small, 100, 25), RED), "{format:?}");
        assert!(is_about(pixel(&small, 1_400, 25), BLUE), "{format:?}");
    }
}

#[test]
fn a_small_picture_keeps_its_size() {
    let (header, ..) = scaled(&encoded(halves(3, 2), ImageFormat::Png)).unwrap();
    assert_eq!((header.width, header.height), (3, 2));
}

#[test]
fn transparent_pixels_are_kept() {
    let mut picture = RgbaImage::from_pixel(40, 20, Rgba([1, 2, 3, 255]));
    let (header, ..) = scaled(&encoded(picture.clone(), ImageFormat::Png)).unwrap();
    assert_eq!(
        header.format,
        PictureFormat::Jpeg,
        "no pixel is transparent"
    );
    picture.put_pixel(7, 5, Rgba([9, 9, 9, 0]));
    let (header, small, _) = scaled(&encoded(picture, ImageFormat::Png)).unwrap();
    assert_eq!(header.format, PictureFormat::Png);
    assert_eq!(small.to_rgba8().get_pixel(7, 5).0[3], 0);
}

#[test]
fn a_picture_is_turned_upright_and_loses_its_metadata() {
    let picture = turned(&encoded(halves(200, 100), ImageFormat::Jpeg), 6);
    assert!(picture.windows(4).any(|part| part == b"Exif"));
    let (header, upright, bytes) = scaled(&picture).unwrap();
    assert_eq!((header.width, header.height), (100, 200));
    assert!(is_about(pixel(&upright, 50, 20), RED));
    assert!(is_about(pixel(&upright, 50, 180), BLUE));
    assert!(!bytes.windows(4).any(|part| part == b"Exif"));
}

#[test]
fn only_the_first_frame_of_an_animation_is_used() {
    let frame = |color: Rgba<u8>| Frame::new(RgbaImage::from_pixel(8, 8, color));
    let mut gif = Vec::new();
    let mut encoder = GifEncoder::new(&mut gif);
    encoder.encode_frame(frame(Rgba([200, 0, 0, 255]))).unwrap();
    encoder.encode_frame(frame(Rgba([0, 0, 200, 255]))).unwrap();
    drop(encoder);
    let (_, small, _) = scaled(&gif).unwrap();
    assert!(is_about(pixel(&small, 4, 4), RED));
}

#[test]
fn noise_is_scaled_until_it_is_small_enough() {
    let mut state = 1_u32;
    let noise = RgbImage::from_fn(1_568, 1_568, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [_, red, green, blue] = state.to_le_bytes();
        Rgb([red, green, blue])
    });
    let (_, _, bytes) = scaled(&encoded(noise, ImageFormat::Png)).unwrap();
    assert!(bytes.len() <= PICTURE_BYTES_MAX);
}

#[test]
fn a_bomb_is_not_decoded() {
    // 8,000 × 7,000 gray pixels in less than a mebibyte, and the same number in fewer and longer rows.
    for (width, height) in [(8_000, 7_000), (56_000, 1_000)] {
        let bomb = encoded(image::GrayImage::new(width, height), ImageFormat::Png);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        assert!(scaled(&bomb).is_none(), "{width} × {height}");
    }
    // A header that promises more pixels than the file has.
    let mut gif = encoded(halves(4, 4), ImageFormat::Gif);
    gif[6..10].copy_from_slice(&[0xff; 4]);
    assert!(scaled(&gif).is_none());
}

#[test]
fn damaged_and_other_files_are_refused() {
    let png = encoded(halves(300, 300), ImageFormat::Png);
    let gif = encoded(halves(300, 300), ImageFormat::Gif);
    let webp = encoded(halves(300, 300), ImageFormat::WebP);
    for cut in [&png[..png.len() / 2], &gif[..20], &webp[..30], &png[..9]] {
        assert!(scaled(cut).is_none());
    }
    for other in [
        b"".as_slice(),
        b"text",
        b"BM\x1e\0\0\0",
        b"%PDF-1.7",
        b"<svg/>",
    ] {
        assert!(scaled(other).is_none());
    }
}

#[test]
fn the_rest_of_a_cut_photo_is_shown_or_refused() {
    let jpeg = encoded(halves(300, 300), ImageFormat::Jpeg);
    // Some decoders show what was received.
    let _ = scaled(&jpeg[..jpeg.len() / 2]);
}
