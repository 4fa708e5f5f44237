import { expect, test } from 'vitest';
import { commandFor, isCommandKey, isComposing } from './keys';

const key = (k: string, m: object = {}) => ({
  key: k,
  metaKey: false,
  ctrlKey: false,
  altKey: false,
  shiftKey: false,
  ...m,
});

test('on Apple platforms Ctrl keeps its meaning in text, and Cmd is the modifier', () => {
  expect(commandFor(key('f', { ctrlKey: true }), true, true)).toBeNull();
  expect(commandFor(key('f', { metaKey: true }), true, true)).toBe('find');
  expect(commandFor(key('f', { ctrlKey: true }), true, false)).toBe('find');
  expect([
    isCommandKey(key('b', { ctrlKey: true }), true),
    isCommandKey(key('b', { metaKey: true }), true),
  ]).toEqual([false, true]);
});
test('plain shortcuts do nothing while typing, those with a modifier do', () => {
  expect(commandFor(key('j'), false)).toBe('next-message');
  expect(commandFor(key('j'), true)).toBeNull();
  expect(commandFor(key('k', { ctrlKey: true }), true)).toBe('switcher');
  expect(commandFor(key('F', { metaKey: true, shiftKey: true }), true)).toBe('search');
  expect(commandFor(key('O', { ctrlKey: true, shiftKey: true }), true)).toBe('new-chat');
  expect(commandFor(key('o', { ctrlKey: true }), true)).toBeNull();
  expect(commandFor(key('f', { ctrlKey: true }), true)).toBe('find');
  expect(commandFor(key(']'), false)).toBe('next-unread-thread');
  expect(commandFor(key('N'), false)).toBe('next-unread-thread');
  expect(commandFor(key('p'), false)).toBe('previous-unread-thread');
  expect(commandFor(key(']'), true)).toBeNull();
  expect(commandFor(key('ArrowDown', { altKey: true, shiftKey: true }), true)).toBe('next-unread');
  expect(commandFor(key('/', { isComposing: true }), false)).toBeNull();
  expect(commandFor(key('Escape', { isComposing: false, keyCode: 229 }), true)).toBeNull();
});
test('the Enter that ends a word of an input method is part of the composition, also in Safari', () => {
  expect(isComposing({ isComposing: true, keyCode: 229 })).toBe(true);
  expect(isComposing({ isComposing: false, keyCode: 229 })).toBe(true);
  expect(isComposing({ isComposing: false, keyCode: 13 })).toBe(false);
});
