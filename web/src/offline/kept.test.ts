import { expect, test } from 'vitest';
import type { Account } from '../api/types';
import { store } from '../test/make';
import {
  eraseCopies,
  eraseOthers,
  isCopied,
  keepsMessages,
  keptAccount,
  setKeepsMessages,
  setKept,
} from './kept';

const DAY_MS = 86_400_000;
const NOW = Date.parse('2026-01-20T09:00:00Z');
const account = (user: string, ...workspaces: string[]) =>
  ({
    user: { id: user, name: user },
    workspaces: workspaces.map((id) => ({ id, slug: `slug-${id}`, name: id, role: 'member' })),
  }) as unknown as Account;
const ada = account('user_ada', 'ws_1', 'ws_2');
const browser = () => {
  const device = store();
  setKept(device, 'user_ada.ws_1', { account: ada, slug: 'slug-ws_1', at: NOW - DAY_MS });
  return device;
};

test('the account is known for the workspace with a copy, and for pages without a workspace', () => {
  const device = browser();
  for (const path of ['/slug-ws_1/inbox', '/slug-ws_1', '/', '/share'])
    expect(keptAccount(device, 'user_ada', path, NOW)?.user.id).toBe('user_ada');
  expect(keptAccount(device, 'user_ada', '/slug-ws_2', NOW)).toBeNull();
  expect(keptAccount(device, 'user_bo', '/slug-ws_1', NOW)).toBeNull();
  expect(keptAccount(device, '', '/slug-ws_1', NOW)).toBeNull();
});
test('the account has the workspaces of the newest copy', () => {
  const device = browser();
  const later = account('user_ada', 'ws_1', 'ws_2', 'ws_3');
  setKept(device, 'user_ada.ws_3', { account: later, slug: 'slug-ws_3', at: NOW });
  expect(keptAccount(device, 'user_ada', '/slug-ws_1', NOW)?.workspaces).toHaveLength(3);
});
test('after 14 days without contact, nothing is left', () => {
  const device = browser();
  expect(keptAccount(device, 'user_ada', '/', NOW + 12 * DAY_MS)).not.toBeNull();
  expect(keptAccount(device, 'user_ada', '/', NOW + 14 * DAY_MS)).toBeNull();
  expect(isCopied(device, 'user_ada.ws_1')).toBe(false);
});
test('a copy of another user, or of a workspace that the user left, is erased', () => {
  const device = browser();
  setKept(device, 'user_ada.ws_2', { account: ada, slug: 'slug-ws_2', at: NOW });
  setKept(device, 'user_bo.ws_1', { account: account('user_bo', 'ws_1'), slug: 'slug-ws_1', at: NOW });
  eraseOthers(device, account('user_ada', 'ws_2'));
  const left = ['user_ada.ws_1', 'user_ada.ws_2', 'user_bo.ws_1'].filter((scope) => isCopied(device, scope));
  expect(left).toEqual(['user_ada.ws_2']);
  eraseCopies(device);
  expect(isCopied(device, 'user_ada.ws_2')).toBe(false);
});
test('the switch erases what there is', () => {
  const device = browser();
  expect(keepsMessages(device)).toBe(true);
  setKeepsMessages(device, false);
  expect([keepsMessages(device), isCopied(device, 'user_ada.ws_1')]).toEqual([false, false]);
  setKeepsMessages(device, true);
  expect(keepsMessages(device)).toBe(true);
});
