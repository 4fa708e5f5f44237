import { expect, test } from 'vitest';
import { message, thread } from '../test/make';
import { hueOf, initials, listed, plain, threadTitle, withCodes } from './text';

test('a thread is named by its title, else by its first line', () => {
  const root_message = message({ content_plain: '\nShip on Monday?\nOr later' });
  expect(threadTitle(thread({ root_message }))).toBe('Ship on Monday?');
  expect(threadTitle(thread({ title: 'Launch', root_message }))).toBe('Launch');
  expect(threadTitle(undefined)).toBe('Thread');
});
test('a preview has no marks', () => {
  expect(plain('**Ship** [it](http://x)\n\n```rs\nlet a;\n```\n- now')).toBe('Ship it code now');
});
test('characters that nobody sees are shown as codes', () => {
  const hidden = 'a\u{200B}b\u{202E}c\u{E0041}\u{E0000}d\u{3164}e\u{FE0F}f\u{2028}g\u{E0101}h\u{2800}\u{7}';
  const shown = String.raw`a\u{200B}b\u{202E}c\u{E0041}\u{E0000}d\u{3164}e\u{FE0F}f\u{2028}g\u{E0101}h\u{2800}\u{7}`;
  expect(withCodes(hidden)).toBe(shown);
  expect(withCodes('größe 名前 🙂❤\u{FE0F}\n\ttext')).toBe('größe 名前 🙂❤\u{FE0F}\n\ttext');
  expect(withCodes('❤\u{FE0F}\u{FE0F}\u{FE01}')).toBe(String.raw`❤️\u{FE0F}\u{FE01}`);
});
test('initials and lists of names', () => {
  expect(initials('Ada Lindholm Berg')).toBe('AL');
  expect(listed(['A', 'B', 'C'])).toBe('A, B, and C');
});
test('people and agents have twelve hues, at least 25 degrees apart', () => {
  const hues = [...new Set(Array.from({ length: 2000 }, (_, n) => hueOf(`agent_${n}`)))].sort(
    (a, b) => a - b,
  );
  expect(hues).toHaveLength(12);
  for (const [i, hue] of hues.entries())
    expect((hues[(i + 1) % 12]! - hue + 360) % 360).toBeGreaterThanOrEqual(25);
});
