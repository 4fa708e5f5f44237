/** Side of a person's picture in pixels. */
const SIDE = 256;

/**
 * The middle of a picture as a small square. What else the file contains, such as the place where it was taken, is lost.
 * Fails if the browser cannot read the file.
 */
export async function cropped(file: Blob): Promise<Blob> {
  const image = await createImageBitmap(file);
  try {
    const { width, height } = image;
    const side = Math.min(width, height);
    const canvas = document.createElement('canvas');
    canvas.width = canvas.height = SIDE;
    const context = canvas.getContext('2d')!;
    context.imageSmoothingQuality = 'high';
    context.drawImage(image, (width - side) / 2, (height - side) / 2, side, side, 0, 0, SIDE, SIDE);
    // PNG in browsers that do not write WebP
    const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, 'image/webp', 0.9));
    if (!blob) throw new Error('the picture could not be written');
    return blob;
  } finally {
    image.close();
  }
}
