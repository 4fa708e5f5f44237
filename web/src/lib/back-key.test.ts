// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { isBackKey } from './back-key';

const press = (html: string, key: string, more: KeyboardEventInit = {}): boolean => {
  document.body.innerHTML = html;
  const e = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
  document.querySelector('[data-at]')!.dispatchEvent(e);
  return isBackKey(e);
};
test('Left leaves a conversation, unless it moves the caret; Escape leaves it in both cases', () => {
  expect(press('<article data-at></article>', 'ArrowLeft')).toBe(true);
  expect(press('<textarea data-at></textarea>', 'ArrowLeft')).toBe(false);
  expect(press('<textarea data-at></textarea>', 'Escape')).toBe(true);
  expect(press('<article data-at></article>', 'ArrowRight')).toBe(false);
});
test('keys of the browser, dialogs, and menus stay theirs', () => {
  expect(press('<article data-at></article>', 'ArrowLeft', { altKey: true })).toBe(false);
  expect(press('<dialog><button data-at></button></dialog>', 'Escape')).toBe(false);
  expect(press('<div popover><button data-at></button></div>', 'Escape')).toBe(false);
});
