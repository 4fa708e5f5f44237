// @vitest-environment happy-dom
import { afterEach, expect, test } from 'vitest';
import { isSingleKey, setSingleKeys, singleKeys } from './single-keys';

const key = (key: string, more: KeyboardEventInit = {}) =>
  new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
const seen: string[] = [];
const listener = (e: KeyboardEvent) => seen.push(e.key);
afterEach(() => {
  removeEventListener('keydown', listener);
  setSingleKeys(true);
  seen.length = 0;
  document.body.innerHTML = '';
});

test('a single key is a character without a modifier, outside of fields', () => {
  document.body.innerHTML = '<input><main></main>';
  const [input, main] = document.body.children as unknown as [Element, Element];
  expect(isSingleKey(key('j'), main)).toBe(true);
  expect(isSingleKey(key('?', { shiftKey: true }), main)).toBe(true);
  expect(isSingleKey(key('j'), input)).toBe(false);
  for (const other of [
    key(' '),
    key('Enter'),
    key('ArrowUp'),
    key('k', { ctrlKey: true }),
    key('k', { metaKey: true }),
  ])
    expect(isSingleKey(other, main), other.key).toBe(false);
});

test('switched off, they reach nobody, and other keys do', () => {
  addEventListener('keydown', listener);
  document.body.dispatchEvent(key('j'));
  setSingleKeys(false);
  expect(singleKeys()).toBe(false);
  document.body.dispatchEvent(key('k'));
  document.body.dispatchEvent(key('Escape'));
  document.body.dispatchEvent(key('k', { ctrlKey: true }));
  setSingleKeys(true);
  document.body.dispatchEvent(key('c'));
  expect(seen).toEqual(['j', 'Escape', 'k', 'c']);
});

test('Z undoes what a toast offers, and presses nothing else', () => {
  let pressed = 0;
  const show = (label: string) => {
    document.body.innerHTML = `<div class="toast"><button class="btn">${label}</button></div>`;
    document.querySelector('button')!.onclick = () => pressed++;
  };
  show('Open');
  document.body.dispatchEvent(key('z'));
  expect(pressed).toBe(0);
  show('Undo');
  document.body.dispatchEvent(key('z'));
  expect(pressed).toBe(1);
  setSingleKeys(false);
  document.body.dispatchEvent(key('z'));
  expect(pressed).toBe(1);
});
