import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { after, before, test } from 'node:test';
import {
  accessible,
  box,
  button,
  inviteLink,
  joinBy,
  launch,
  message,
  person,
  PHONE,
  setUp,
  shot,
  startThread,
} from './lib/browser.mjs';
import { side, signIn } from './lib/parts.mjs';
import { api } from './lib/team.mjs';
import { Server } from './lib/server.mjs';

let server;
let browser;
let ada;
let bo;
let link;

before(async () => {
  server = await new Server().start();
  browser = await launch();
  ada = await person(browser, server.base);
  bo = await person(browser, server.base, { theme: 'light' });
});
after(async () => {
  await browser?.close();
  await server?.close();
});

test('a fresh server redirects every address to the setup page', async () => {
  await ada.page.goto('/northwind/c/general');
  await box(ada.page, 'Workspace name').waitFor();
  assert.equal(new URL(ada.page.url()).pathname, '/setup');
  await accessible(ada.page, 'set-up');
  await shot(ada.page, '01-setup-dark');
});

test('one form creates the account and the workspace, with #general, #random, Vibe, and Coder', async () => {
  await setUp(ada.page);
  assert.equal(new URL(ada.page.url()).pathname, '/northwind/c/general');
  for (const name of ['general', 'random'])
    await side(ada).getByRole('link', { name, exact: true }).waitFor();
  for (const name of ['Vibe', 'Coder']) await side(ada).getByRole('button', { name, exact: true }).waitFor();
  await ada.page.getByText('Nothing here yet').waitFor();
  await accessible(ada.page, 'an empty channel');
});

test('an invite link adds the next person, who sees the same workspace', async () => {
  link = await inviteLink(ada.page);
  await bo.page.goto(new URL(link).pathname);
  await ada.page.getByRole('heading', { name: 'general' }).waitFor();
  await button(bo.page, 'Join Northwind').waitFor();
  await accessible(bo.page, 'the invite page');
  await joinBy(bo.page, link);
  await startThread(ada.page, 'Welcome, Bo');
  await bo.page.locator('main').getByRole('link', { name: 'Welcome, Bo' }).click();
  await message(bo.page, 'Welcome').waitFor();
});

test('a new person sees their handle before joining, and can choose another', async () => {
  const li = await person(browser, server.base, { theme: 'light' });
  await li.page.goto(new URL(link).pathname);
  await box(li.page, 'Your name').fill('李小龍');
  await box(li.page, 'Email').fill('li.xiaolong+chat@example.com');
  await li.page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await li.page.getByText('People write @li-xiaolong').waitFor();
  await accessible(li.page, 'a suggested handle');
  await shot(li.page, '01-handle-light');
  await button(li.page, 'Change handle').click();
  await li.page.keyboard.type('bo-chen');
  await button(li.page, 'Join Northwind').click();
  await li.page.getByText('the handle `bo-chen` is taken').waitFor();
  await accessible(li.page, 'a chosen handle');
  await li.page.setViewportSize(PHONE);
  await shot(li.page, '01-handle-taken-phone');
  await box(li.page, 'Handle').fill('little-dragon');
  await button(li.page, 'Join Northwind').click();
  await box(li.page, 'Start a thread in #general').waitFor();
  const { members } = await api(li, 'GET', 'snapshot');
  assert.equal(members.find((m) => m.name === '李小龍').handle, 'little-dragon');
  assert.deepEqual(
    li.errors.filter((e) => !/409/.test(e)),
    [],
  );
  await li.close();
});

test('a signed-in person joins with the same link in one click', async () => {
  await button(ada.page, 'Workspace menu, Northwind').click();
  await button(ada.page, 'New workspace').click();
  await box(ada.page, 'Workspace name').fill('Fairground');
  await accessible(ada.page, 'new workspace');
  await button(ada.page, 'Create workspace').click();
  await ada.page.waitForURL('**/fairground/c/general');
  const second = await inviteLink(ada.page);
  await bo.page.goto(new URL(second).pathname);
  await button(bo.page, 'Join Fairground').click();
  await bo.page.waitForURL('**/fairground/c/general');
  await box(bo.page, 'Start a thread in #general').waitFor();
});

test('the switcher changes between workspaces, which share nothing', async () => {
  await bo.page.getByText('Nothing here yet').waitFor();
  await button(bo.page, 'Workspace menu, Fairground').click();
  await bo.page.getByRole('button', { name: 'Northwind' }).click();
  await bo.page.waitForURL('**/northwind/c/**');
  await bo.page.locator('main').getByRole('link', { name: 'Welcome, Bo' }).waitFor();
  await bo.page.goto('/nowhere/c/general');
  await bo.page.getByText('Page not found').waitFor();
  await accessible(bo.page, 'a page that is not here');
});

test('a revoked invite shows a notice', async () => {
  await bo.page.goto('/invite/not-a-token');
  await bo.page.getByText('Invalid invite').waitFor();
  await accessible(bo.page, 'a dead invite');
});

test('signing out leads to sign-in, which returns to the previous page', async () => {
  await bo.page.goto('/northwind/settings/profile');
  await button(bo.page, 'Sign out').click();
  await button(bo.page, 'Sign in').waitFor();
  await accessible(bo.page, 'log-in');
  await bo.page.setViewportSize(PHONE);
  await accessible(bo.page, 'log-in at 390 px');
  await bo.page.goto('/northwind/c/random');
  await box(bo.page, 'Email').fill('bo@example.com');
  await bo.page.getByLabel('Password', { exact: true }).fill('wrong password');
  await button(bo.page, 'Sign in').click();
  await bo.page.getByRole('alert').waitFor();
  await bo.page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await button(bo.page, 'Sign in').click();
  await bo.page.waitForURL('**/northwind/c/random');
  await box(bo.page, 'Start a thread in #random').waitFor();
});

test('without an invite, nobody else can sign up', async () => {
  const cy = await person(browser, server.base);
  await cy.page.goto('/');
  await cy.page.getByText('Ask someone on your team for an invite link').waitFor();
  await cy.close();
});

test('on a public address, setup requires the link that the server printed', async () => {
  const open = await new Server({ OPENVIBE_LISTEN: '0.0.0.0:0' }).start();
  // The machine's own address is not a secure context: the client must work without the APIs that require one.
  const lan = Object.values(networkInterfaces())
    .flat()
    .find((i) => i.family === 'IPv4' && !i.internal)?.address;
  const eve = await person(browser, open.base.replace('0.0.0.0', lan ?? 'localhost'));
  try {
    await eve.page.goto('/');
    await eve.page.getByText('Open the setup link that the server printed').waitFor();
    await accessible(eve.page, 'set-up without its token');
    const link = /(http:\/\/\S+setup_token=\S+)/.exec(open.said)[1];
    const { pathname, search } = new URL(link);
    await setUp(eve.page, { name: 'Eve', email: 'eve@example.com', path: pathname + search });
    await startThread(eve.page, 'Said over plain http');
    await message(eve.page, 'Said over plain http').hover();
    await button(eve.page, 'Copy link').click();
    await eve.page.getByText('Link copied').first().waitFor();
    assert.deepEqual(eve.errors, []);
  } finally {
    await eve.close();
    await open.close();
  }
});

test('a device that is signed out remotely returns to sign-in', async () => {
  const other = await person(browser, server.base);
  await signIn(other, 'bo@example.com');
  await bo.page.goto('/northwind/settings/sessions');
  await bo.page.getByText('This device').waitFor();
  await bo.page.locator('main').getByRole('button', { name: 'Sign out' }).first().click();
  await button(other.page, 'Sign in').waitFor();
  assert.deepEqual(other.errors, []);
  await other.close();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
