import { beforeEach, expect, test, vi } from 'vitest';
import { Api } from '../api/api';
import type { Account } from '../api/types';
import { LAST_USER } from '../lib/storage';
import { isCopied, setKept } from '../offline/kept';
import { AT, Browser, store } from '../test/make';
import { Session } from './session.svelte';

/** The browser's cookie: the user to whom the server attributes requests. */
let cookie: string | null;
let browser: Browser;
/** While set, a sign-out waits for this promise. */
let gate: Promise<void> | null;
const names: Record<string, string> = { 'ada@example.com': 'ada', 'bo@example.com': 'bo' };

const fetch = async (request: Request): Promise<Response> => {
  const { pathname } = new URL(request.url);
  const text = await request.text();
  const { email } = (text ? JSON.parse(text) : {}) as { email?: string };
  if (pathname === '/v1/auth/logout') {
    await gate;
    cookie = null;
    return new Response(null, { status: 204 });
  }
  if (pathname === '/v1/auth/setup') return Response.json({ needs_setup: false, signup: 'invite' });
  if (email) cookie = names[email] ?? null;
  if (!cookie) return Response.json({ error: { code: 'unauthorized', message: 'No.' } }, { status: 401 });
  return Response.json({ user: { id: cookie, name: cookie, email, created_at: AT }, workspaces: [] });
};
const open = async (suspended = false) => {
  const session = new Session(new Api({ fetch, base: 'http://x' }), browser.open().store);
  if (!suspended) session.listen();
  await session.start();
  return session;
};

beforeEach(() => {
  browser = new Browser();
  cookie = 'ada';
  gate = null;
});

test('after a sign-in as another user in one window, the other windows follow', async () => {
  const [a, b] = [await open(), await open()];
  expect(a.isCurrent('ada')).toBe(true);
  await b.signOut();
  await vi.waitFor(() => expect([a.status, a.isCurrent('ada')]).toEqual(['signed-out', false]));
  await b.signIn('bo@example.com', 'x');
  await vi.waitFor(() => expect(a.user?.id).toBe('bo'));
  expect([a.isCurrent('ada'), a.isCurrent('bo')]).toEqual([false, true]);
});
test('a suspended window detects that its user is signed out before the server does', async () => {
  let release = () => {};
  gate = new Promise((done) => (release = done));
  const [a, b] = [await open(true), await open()];
  const out = b.signOut();
  expect(a.isCurrent('ada')).toBe(false);
  release();
  await out;
  expect(a.isCurrent('ada')).toBe(false);
});
test('unsent messages are counted across all workspaces, but not those of other users', async () => {
  const session = await open();
  const kept = browser.open().store;
  for (const key of ['ada.w1.x', 'ada.w2.y', 'bo.w1.z']) kept.set(`openvibe.out.${key}`, '{}');
  expect(session.unsent).toBe(2);
});
test('without storage, a window assumes that its user is current', () => {
  const session = new Session(new Api({ fetch, base: 'http://x' }), { ...store(), get: () => null });
  expect(session.isCurrent('ada')).toBe(true);
});
test.each([
  [false, 'You are offline. The server cannot be reached.'],
  [true, 'The server cannot be reached.'],
])('without a response, the browser decides whether it is offline (online: %s)', async (onLine, problem) => {
  vi.stubGlobal('navigator', { onLine });
  const lost = new Api({ fetch: () => Promise.reject(new TypeError('lost')), base: 'http://x' });
  const session = new Session(lost, store());
  await session.start();
  expect(session).toMatchObject({ status: 'unreachable', problem });
  vi.unstubAllGlobals();
});
test('the open step of the setup survives a reload, for the person who began it', async () => {
  cookie = null;
  const session = await open();
  const form = { name: 'Ada', email: 'ada@example.com', password: 'x', workspace: { name: 'Northwind' } };
  await session.first(form);
  expect(session.step).toBe('model');
  session.goTo('try');
  const again = await open();
  expect([again.user?.id, again.step]).toEqual(['ada', 'try']);
  await again.signOut();
  expect(again.step).toBeNull();
  await again.signIn('bo@example.com', 'x');
  expect(again.step).toBeNull();
  await again.signOut();
  await again.signIn('ada@example.com', 'x');
  expect(again.step).toBe('try');
  again.goTo(null);
  expect((await open()).step).toBeNull();
});
test('a copy is shown before the server answers, but another user’s session is not taken for its own', async () => {
  const kept = browser.open().store;
  const account = { user: { id: 'ada' }, workspaces: [{ id: 'ws_1', slug: 'acme' }] } as unknown as Account;
  kept.set(LAST_USER, 'ada');
  setKept(kept, 'ada.ws_1', { account, slug: 'acme', at: Date.now() });
  cookie = 'bo';
  const session = new Session(new Api({ fetch, base: 'http://x' }), kept);
  const confirmed = session.confirmed().then(() => session.user?.id);
  const started = session.start('/acme/inbox');
  expect([session.user?.id, session.status, session.isConfirmed]).toEqual(['ada', 'signed-in', false]);
  await started;
  expect([await confirmed, session.isConfirmed, session.isCurrent('ada')]).toEqual(['bo', true, false]);
  expect(isCopied(kept, 'ada.ws_1')).toBe(false);
});
test('while the server cannot be reached, a copy is shown, and each question asks again', async () => {
  const kept = browser.open().store;
  const account = { user: { id: 'ada' }, workspaces: [{ id: 'ws_1', slug: 'acme' }] } as unknown as Account;
  kept.set(LAST_USER, 'ada');
  setKept(kept, 'ada.ws_1', { account, slug: 'acme', at: Date.now() });
  let isLost = true;
  const answer = (r: Request) => (isLost ? Promise.reject(new TypeError('lost')) : fetch(r));
  const session = new Session(new Api({ fetch: answer, base: 'http://x' }), kept);
  await session.start('/acme');
  expect([session.status, session.isConfirmed]).toEqual(['signed-in', false]);
  isLost = false;
  await session.confirmed();
  expect([session.status, session.isConfirmed]).toEqual(['signed-in', true]);
});
test('a window that cannot reach the server shows nothing more after a sign-out in another one', async () => {
  const [kept, another] = [browser.open().store, browser.open().store];
  const account = { user: { id: 'ada' }, workspaces: [{ id: 'ws_1', slug: 'acme' }] } as unknown as Account;
  kept.set(LAST_USER, 'ada');
  setKept(kept, 'ada.ws_1', { account, slug: 'acme', at: Date.now() });
  const lost = () => Promise.reject(new TypeError('lost'));
  vi.stubGlobal('navigator', { onLine: true });
  const session = new Session(new Api({ fetch: lost, base: 'http://x' }), kept);
  session.listen();
  await session.start('/acme');
  expect(session.status).toBe('signed-in');
  another.set(LAST_USER, '');
  await vi.waitFor(() => expect(session.status).toBe('unreachable'));
  expect(isCopied(kept, 'ada.ws_1')).toBe(false);
  vi.unstubAllGlobals();
});
