import { expect, test } from 'vitest';
import { enterEffect, enterSends } from './enter';

const enter = (more: object = {}) => ({
  key: 'Enter',
  metaKey: false,
  ctrlKey: false,
  altKey: false,
  shiftKey: false,
  ...more,
});

test('on a touch screen without another pointer, Enter is a line break unless the person chose otherwise', () => {
  expect([enterSends('auto', false), enterSends('auto', true)]).toEqual([true, false]);
  expect([enterSends('on', true), enterSends('off', false)]).toEqual([true, false]);
});
test('Shift-Enter is always a line break, and Ctrl-Enter always sends', () => {
  for (const sends of [true, false]) {
    expect(enterEffect(enter({ shiftKey: true }), sends)).toBe('break');
    expect(enterEffect(enter({ ctrlKey: true }), sends)).toBe('send');
    expect(enterEffect(enter({ altKey: true }), sends)).toBeNull();
  }
  expect(enterEffect(enter(), true)).toBe('send');
  expect(enterEffect(enter(), false)).toBe('break');
  expect(enterEffect(enter({ key: 'a' }), true)).toBeNull();
});
