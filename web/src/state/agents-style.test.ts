import { expect, test } from 'vitest';
import { profile } from '../test/make-agents';
import { changedFields, fieldsOf, newOf, patchOf } from './agents-fields';
import { STYLES, styleOf, withCompaction, withStyle } from './agents-style';

test('without a base, nothing is the default of the workspace', () => {
  expect(styleOf(null, false)).toBe(STYLES.default);
  expect(styleOf({ profile: null, compaction: 'off' }, false)).toBe(STYLES.default);
  expect(styleOf({ profile: 'auto' }, false)).toBe(STYLES.rules);
  expect(withStyle({ profile: 'auto' }, STYLES.default, false)).toBeNull();
  expect(withStyle({ profile: 'auto', compaction: 'off' }, STYLES.default, false)).toEqual({
    profile: null,
    compaction: 'off',
  });
});
test('with a base, nothing is the style of the base', () => {
  expect(styleOf(null, true)).toBe(STYLES.base);
  expect(styleOf({ profile: null }, true)).toBe(STYLES.default);
  expect(withStyle(null, STYLES.default, true)).toEqual({ profile: null, compaction: null });
  expect(withStyle({ profile: 'concise' }, STYLES.base, true)).toBeNull();
});
test('a changed style is saved, and nothing else', () => {
  const before = fieldsOf(profile({ prompting: { profile: 'auto', compaction: null } }));
  const same = { ...before, prompting: { profile: 'auto' } };
  expect(changedFields(before, same)).toEqual([]);
  const prompting = withStyle(before.prompting, 'concise', false);
  const after = { ...before, prompting };
  expect(patchOf(before, after)).toEqual({ prompting: { profile: 'concise', compaction: null } });
  expect(newOf(after).prompting).toEqual(prompting);
});
test('a strategy for long conversations keeps the style, and none follows the workspace or the base', () => {
  expect(withCompaction({ profile: 'auto', compaction: null }, 'off', false)).toEqual({
    profile: 'auto',
    compaction: 'off',
  });
  expect(withCompaction({ profile: null, compaction: 'aggressive' }, null, false)).toBeNull();
  expect(withCompaction(null, null, true)).toBeNull();
  expect(withCompaction(null, 'standard', true)).toEqual({ profile: null, compaction: 'standard' });
});
