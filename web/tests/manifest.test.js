import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (name) => readFileSync(new URL(`../public${name}`, import.meta.url));
const manifest = JSON.parse(read('/manifest.webmanifest').toString());

test('the manifest describes an installable app, and each icon has the size that it names', () => {
  expect(manifest).toMatchObject({ id: '/', display: 'standalone' });
  expect(manifest.shortcuts.map((s) => s.name)).toEqual(['Inbox', 'New chat']);
  expect(manifest.share_target).toMatchObject({ action: '/share', method: 'GET' });
  const pictures = manifest.icons.filter((icon) => icon.src.endsWith('.png'));
  expect(pictures.map((icon) => [icon.sizes, icon.purpose ?? 'any'])).toEqual([
    ['192x192', 'any'],
    ['512x512', 'any'],
    ['512x512', 'maskable'],
  ]);
  for (const { src, sizes } of pictures) {
    const png = read(src);
    expect(`${png.readUInt32BE(16)}x${png.readUInt32BE(20)}`).toBe(sizes);
  }
});
