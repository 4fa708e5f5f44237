import { expect, test } from 'vitest';
import type { WorkspacePolicy } from '../api/agent-types';
import type { MemorySettings } from '../api/memory';
import { StoredPolicy } from '../test/versioned';
import { remembersMe, stopText, type MemoryOwner, type MemoryRules } from './stops';

const rules = (
  memory: Partial<WorkspacePolicy['memory']> = {},
  own: Partial<MemorySettings> = {},
): MemoryRules => {
  const { policy } = new StoredPolicy();
  return {
    own: { enabled: true, persona: true, adapt: false, server_enabled: true, ...own },
    policy: { ...policy, memory: { ...policy.memory, ...memory } },
  };
};
const texts = (now: MemoryRules) =>
  (['mine', 'workspace', 'conversations', 'agents'] as MemoryOwner[]).map((owner) =>
    stopText(owner, now, 'Harbour'),
  );

test('nothing stops memory if all switches are on', () => {
  expect(texts(rules())).toEqual(['', '', '', '']);
  expect(remembersMe(rules())).toBe(true);
});
test('the first switch that stops memory is named, with who can change it', () => {
  for (const text of texts(rules({ enabled: false }, { server_enabled: false }))) {
    expect(text).toContain('An operator can turn memory on');
    expect(text).not.toContain('Harbour');
  }
  for (const text of texts(rules({ enabled: false })))
    expect(text).toBe('Harbour has turned memory off. An admin can turn it on in Settings › Told to all.');
});
test('a switch for one kind of memories stops only that kind', () => {
  const [mine, ...others] = texts(rules({ user: false, persona: false }));
  expect([mine?.split('.')[0], others]).toEqual(['Harbour has turned memory about people off', ['', '', '']]);
  expect(texts(rules({ organization: false })).map((text) => text !== '')).toEqual([
    false,
    true,
    false,
    false,
  ]);
  // How agents should treat the person is still remembered.
  expect(texts(rules({ user: false }))).toEqual(['', '', '', '']);
});
test.each([rules({ user: false }), rules({}, { enabled: false }), rules({}, { server_enabled: false })])(
  'nothing is remembered about someone whom a switch protects',
  (now) => expect(remembersMe(now)).toBe(false),
);
