/** Minimal writer for a .zip of a few uncompressed text files. */

const CRC = Uint32Array.from({ length: 256 }, (_, n) => {
  let c = n;
  for (let k = 0; k < 8; k++) c = c & 1 ? 0xedb88320 ^ (c >>> 1) : c >>> 1;
  return c;
});
function crc32(bytes: Uint8Array): number {
  let c = 0xffffffff;
  for (const b of bytes) c = CRC[(c ^ b) & 0xff]! ^ (c >>> 8);
  return (c ^ 0xffffffff) >>> 0;
}
/** Little-endian numbers, each with its width in bytes. */
function pack(...fields: [number, 2 | 4][]): Uint8Array {
  const out = new DataView(new ArrayBuffer(fields.reduce((n, [, w]) => n + w, 0)));
  let at = 0;
  for (const [value, width] of fields) {
    if (width === 2) out.setUint16(at, value, true);
    else out.setUint32(at, value, true);
    at += width;
  }
  return new Uint8Array(out.buffer);
}
const VERSION = 20;
const UTF8_NAMES = 0x0800;

export function zip(files: { path: string; text: string }[], when = new Date()): Blob {
  const date = ((when.getFullYear() - 1980) << 9) | ((when.getMonth() + 1) << 5) | when.getDate();
  const time = (when.getHours() << 11) | (when.getMinutes() << 5) | (when.getSeconds() >> 1);
  const text = new TextEncoder();
  const [bodies, index]: [Uint8Array[], Uint8Array[]] = [[], []];
  const size = (list: Uint8Array[]) => list.reduce((n, b) => n + b.length, 0);
  for (const file of files) {
    const [name, data] = [text.encode(file.path), text.encode(file.text)];
    const about = pack(
      [VERSION, 2], [UTF8_NAMES, 2], [0, 2], [time, 2], [date, 2],
      [crc32(data), 4], [data.length, 4], [data.length, 4], [name.length, 2], [0, 2],
    ); // prettier-ignore
    const at = size(bodies);
    bodies.push(pack([0x04034b50, 4]), about, name, data);
    index.push(pack([0x02014b50, 4], [VERSION, 2]), about);
    index.push(pack([0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), name);
  }
  const end = pack(
    [0x06054b50, 4], [0, 2], [0, 2], [files.length, 2], [files.length, 2],
    [size(index), 4], [size(bodies), 4], [0, 2],
  ); // prettier-ignore
  return new Blob([...bodies, ...index, end] as BlobPart[], { type: 'application/zip' });
}
