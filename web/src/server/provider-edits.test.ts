import { expect, test } from 'vitest';
import { provider } from '../test/make-server';
import { editsOf, patchOf, type ProviderEdits } from './provider-edits';

const first = {
  workspace_id: 'ws_1',
  join: 'everyone' as const,
  role: 'viewer' as const,
  rules: [{ group: 'staff', role: 'admin' as const }],
};
const foreign = { ...first, workspace_id: 'ws_9' };
const before = provider({ workspaces: [first, foreign] });
const edits = editsOf(before, [{ id: 'ws_1' }, { id: 'ws_2' }]);
const second = edits.entries[1]!;
const patch = (x: Partial<ProviderEdits>) => patchOf(before, { ...edits, ...x });

test('only fields that differ are sent', () => {
  expect(patch({})).toEqual({});
  expect(patch({ name: ' Lab ', domains: 'example.org,  example.net\n', second_factor: 'always' })).toEqual({
    name: 'Lab',
    domains: ['example.org', 'example.net'],
    second_factor: 'always',
  });
  expect(patch({ domains: '' })).toEqual({ domains: [] });
});
test('trust, the claim with groups, and rules are sent if they differ', () => {
  expect(patch({ email_trust: 'issuer', groups_claim: ' roles ' })).toEqual({
    email_trust: 'issuer',
    groups_claim: 'roles',
  });
  const rules = [...first.rules, { group: 'ops', role: null, channel_ids: ['chan_1'] }];
  expect(patch({ entries: [{ ...first, rules }, second] })).toEqual({
    workspaces: [foreign, { ...first, rules }],
  });
  expect(patch({ entries: [{ ...first, rules: [] }, second] }).workspaces?.[1]?.rules).toEqual([]);
  const same = [{ group: 'staff', role: 'admin' as const, channel_ids: [] }];
  expect(patch({ entries: [{ ...first, rules: same }, second] })).toEqual({});
});
test('without an entry at the provider, people need an invite', () => {
  expect(second).toEqual({ workspace_id: 'ws_2', join: 'invited', role: 'member', rules: [] });
});
test('rules and workspaces that are not on screen stay', () => {
  expect(patch({ entries: [{ ...first, join: 'invited' }, second] }).workspaces).toEqual([
    foreign,
    { ...first, join: 'invited' },
  ]);
  expect(patch({ entries: [first, { ...second, role: 'viewer' }] }).workspaces).toEqual([
    first,
    foreign,
    { ...second, role: 'viewer' },
  ]);
});
