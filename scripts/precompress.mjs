// Writes FILE.gz and FILE.br next to each file of a built web client that benefits from compression,
// at the highest level. build.rs embeds them. Usage: node scripts/precompress.mjs DIR
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const TEXT = new Set(['.html', '.js', '.mjs', '.css', '.svg', '.json', '.txt', '.webmanifest', '.map']);
const SIZE_MIN_BYTES = 512; // below this size, the header outweighs the savings

const dir = process.argv[2];
for (const entry of readdirSync(dir, { recursive: true, withFileTypes: true })) {
  if (!entry.isFile() || !TEXT.has(extname(entry.name))) continue;
  const file = join(entry.parentPath, entry.name);
  const bytes = readFileSync(file);
  if (bytes.length < SIZE_MIN_BYTES) continue;
  const brotli = brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });
  const forms = { gz: gzipSync(bytes, { level: 9 }), br: brotli };
  for (const [extension, packed] of Object.entries(forms)) {
    if (packed.length < bytes.length * 0.95) writeFileSync(`${file}.${extension}`, packed);
  }
}
