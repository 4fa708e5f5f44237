// A writer of small zip files, without compression.
import { crc32 } from 'node:zlib';

/** Little-endian numbers, each with its width in bytes. */
const pack = (...fields) =>
  Buffer.concat(
    fields.map(([value, width]) => {
      const out = Buffer.alloc(width);
      out.writeUIntLE(value, 0, width);
      return out;
    }),
  );

/** A zip of these entries: bytes, or values that are written as JSON. */
export function zipped(entries) {
  const [bodies, index] = [[], []];
  const size = (list) => list.reduce((n, b) => n + b.length, 0);
  for (const [path, value] of Object.entries(entries)) {
    const data = Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value));
    const name = Buffer.from(path);
    const [crc, { length }] = [crc32(data), data];
    // version, flags, method, time, date, checksum, sizes, and lengths of the name and of more fields
    const about = pack([20, 2], [0, 2], [0, 2], [0, 2], [33, 2], [crc, 4], [length, 4], [length, 4]);
    const lengths = pack([name.length, 2], [0, 2]);
    const at = size(bodies);
    bodies.push(pack([0x04034b50, 4]), about, lengths, name, data);
    index.push(pack([0x02014b50, 4], [20, 2]), about, lengths);
    index.push(pack([0, 2], [0, 2], [0, 2], [0, 4], [at, 4]), name);
  }
  const files = Object.keys(entries).length;
  const end = pack([0x06054b50, 4], [0, 2], [0, 2], [files, 2], [files, 2]);
  return Buffer.concat([...bodies, ...index, end, pack([size(index), 4], [size(bodies), 4], [0, 2])]);
}
