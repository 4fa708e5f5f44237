import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  accessible,
  box,
  button,
  inviteLink,
  joinBy,
  message,
  person,
  PHONE,
  reply,
  startThread,
  WIDE,
} from './lib/browser.mjs';
import { dialog, inspect, main, signIn } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { server, browser, ada, bo } = await startTeam({ model: true, bo: { theme: 'light' } });
const tabs = (p) => p.page.getByRole('navigation', { name: 'Settings' });
const open = async (p, page) => {
  await p.page.goto(`/northwind/settings/${page}`);
  await tabs(p).waitFor();
};
const said = (p, text) => p.page.locator('.said').filter({ hasText: text }).waitFor({ state: 'attached' });
const row = (p, list, text) =>
  p.page.getByRole('list', { name: list }).getByRole('listitem').filter({ hasText: text });

const menu = async (p, name, what) => {
  await button(p.page, `Actions for ${name}`).click();
  await p.page.getByRole('menuitem', { name: what }).click();
};

test('admin pages are hidden from members, and their addresses show a notice', async () => {
  await open(bo, 'profile');
  assert.equal(await tabs(bo).getByRole('link', { name: 'Tools' }).count(), 0);
  await open(bo, 'tools');
  await main(bo).getByText('Only admins can see this').waitFor();
  await inspect(bo, 'admin-only-admins');
  await open(ada, 'profile');
  await tabs(ada).getByRole('link', { name: 'Tools' }).click();
  await main(ada).getByRole('heading', { name: 'Tools' }).waitFor();
});

test('a former address leads to the page that contains it now', async () => {
  await open(ada, 'usage?by=agent');
  await ada.page.waitForURL('**/northwind/settings/costs?by=agent');
  await button(ada.page, 'Agents').and(ada.page.locator('main [aria-pressed=true]')).waitFor();
  await open(ada, 'nowhere');
  await main(ada).getByText('There is no such page').waitFor();
});

test('in a narrow window, the list is a page with the state of each page, and Back leads to it', async () => {
  const { page } = ada;
  await page.setViewportSize(PHONE);
  await page.goto('/northwind/settings');
  for (const [name, state] of [
    ['Profile', '@ada-lindholm'],
    ['Members', '2 members'],
    ['Sign-in and keys', '1 device, 0 keys'],
    ['Tools', '0 servers'],
    ['Styles', '4 styles, 0 characters'],
    ['Model', /^scripted-1, tested/],
    ['Costs', /this month$/],
  ]) {
    const link = tabs(ada).getByRole('link').filter({ hasText: name }).first();
    await link.getByText(state, { exact: true }).waitFor();
    assert.ok((await link.boundingBox()).height >= 44, name);
  }
  await inspect(ada, 'settings-list');
  await page.setViewportSize(PHONE);
  await tabs(ada).getByRole('link', { name: 'Members' }).click();
  await main(ada).getByRole('heading', { name: '2 members' }).waitFor();
  assert.equal(await tabs(ada).count(), 0);
  await page.getByRole('link', { name: 'Back' }).click();
  await tabs(ada).waitFor();
  // From 1,100 px on, the list is beside the page.
  await page.setViewportSize({ width: 1099, height: 800 });
  assert.equal(await main(ada).getByRole('heading', { name: 'Profile', level: 2 }).count(), 0);
  await page.setViewportSize({ width: 1100, height: 800 });
  await main(ada).getByRole('heading', { name: 'Profile', level: 2 }).waitFor();
  await tabs(ada).waitFor();
  await page.setViewportSize(WIDE);
});

test('the password is changed in a dialog', async () => {
  await open(bo, 'password');
  await button(bo.page, 'Change password…').click();
  await inspect(bo, 'admin-password');
  await bo.page.getByLabel('Current password').fill('wrong password');
  await bo.page.getByLabel('New password').fill('correct horse battery');
  await button(bo.page, 'Change password').click();
  await dialog(bo).getByRole('alert').waitFor();
  await bo.page.getByLabel('Current password').fill('correct horse battery');
  await button(bo.page, 'Change password').click();
  await said(bo, 'Password changed');
  await dialog(bo).waitFor({ state: 'detached' });
});

test('a key is created with scopes, shown once, used, and revoked', async () => {
  await open(ada, 'keys');
  await main(ada).getByText('No keys yet').waitFor();
  await inspect(ada, 'admin-keys-none');
  await button(ada.page, 'New key').click();
  await box(ada.page, 'Name').fill('Nightly report');
  await dialog(ada).getByLabel('Write', { exact: false }).first().check();
  await dialog(ada).getByLabel('Expires after').selectOption('30');
  await inspect(ada, 'admin-key-new');
  await button(ada.page, 'Create key').click();
  await dialog(ada).getByText('see it again').waitFor();
  await inspect(ada, 'admin-key-made');
  const key = await dialog(ada).getByLabel('Key', { exact: true }).inputValue();
  assert.match(key, /^ov_/);
  await button(ada.page, 'Copy key').click();
  await dialog(ada).getByText('Copied').waitFor();
  assert.equal(await ada.page.evaluate(() => navigator.clipboard.readText()), key);
  await button(ada.page, 'Done').click();
  const asKey = { headers: { authorization: `Bearer ${key}` } };
  assert.equal((await fetch(`${server.base}/v1/channels`, asKey)).status, 200);
  await ada.page.reload();
  const line = row(ada, 'Keys', 'Nightly report');
  await line.getByText('last used').waitFor();
  await line.getByText('Write', { exact: true }).waitFor();
  await inspect(ada, 'admin-keys');
  await button(ada.page, 'Revoke Nightly report').click();
  await dialog(ada).getByText('stop working immediately').waitFor();
  await accessible(ada.page, 'revoking a key');
  await button(ada.page, 'Revoke key').click();
  await line.waitFor({ state: 'detached' });
  await ada.page.waitForFunction(() => document.activeElement?.id === 'main'); // the focus is not lost with the row
  assert.equal((await fetch(`${server.base}/v1/channels`, asKey)).status, 401);
});

test('a webhook is created, shows its first message, gets a new address, and is deleted', async () => {
  await open(bo, 'integrations');
  const region = bo.page.getByRole('region', { name: 'Webhooks' });
  await region.getByText('No integrations yet.').waitFor();
  await button(bo.page, 'Add webhook').click();
  await box(bo.page, 'Name').fill('Nightly build');
  await dialog(bo).getByLabel('Channel').selectOption({ label: '#general' });
  await inspect(bo, 'admin-webhook-new');
  await button(bo.page, 'Create').click();
  await dialog(bo).getByText('Waiting for the first message…').waitFor();
  const address = await dialog(bo).getByLabel('Address').inputValue();
  await dialog(bo).getByText(`curl -d 'Hello' ${address}`).waitFor();
  const post = async (to, body) => {
    const headers = { 'content-type': body.startsWith('{') ? 'application/json' : 'text/plain' };
    const answer = await fetch(`${server.base}${new URL(to).pathname}`, { method: 'POST', headers, body });
    return [answer.status, await answer.text()];
  };
  const sent = JSON.stringify({ text: 'Build 7 failed', username: 'Jenkins', attachments: [] });
  assert.deepEqual(await post(address, sent), [200, 'ok']);
  await dialog(bo).getByText('Received from Jenkins, ').waitFor();
  await inspect(bo, 'admin-webhook-made');
  await button(bo.page, 'Done').click();
  const line = row(bo, 'Webhooks', 'Nightly build');
  await line.getByText('last used').waitFor();
  await inspect(bo, 'admin-webhooks');
  assert.deepEqual(await post(address, '{}'), [400, 'no_text']);
  await button(bo.page, 'Requests to Nightly build').click();
  const requests = dialog(bo).getByRole('row');
  await requests.nth(2).waitFor();
  await requests.nth(1).getByText('no_text').waitFor();
  await requests.nth(2).getByRole('button').click();
  await dialog(bo).getByText('"Build 7 failed"').waitFor();
  await inspect(bo, 'admin-webhook-requests');
  await button(bo.page, 'Post it again').click();
  await said(bo, 'The message is posted again');
  await requests.nth(1).getByText('Posted again').waitFor();
  await button(bo.page, 'Done').click();
  await button(bo.page, 'New address of Nightly build').click();
  await dialog(bo).getByRole('button', { name: 'New address' }).click();
  const second = await dialog(bo).getByLabel('Address').inputValue();
  assert.notEqual(second, address);
  assert.deepEqual(await post(address, 'Hello'), [404, 'no_service']);
  assert.deepEqual(await post(second, 'Hello'), [200, 'ok']);
  await dialog(bo).getByText('Received from Nightly build, ').waitFor();
  await button(bo.page, 'Done').click();
  await button(bo.page, 'Delete Nightly build').click();
  await button(bo.page, 'Delete webhook').click();
  await region.getByText('No integrations yet.').waitFor();
  assert.deepEqual(await post(second, 'Hello'), [404, 'no_service']);
  await bo.page.goto('/northwind/c/general');
  await bo.page.getByRole('link', { name: 'Build 7 failed' }).first().click();
  const shown = bo.page.getByRole('article', { name: 'Jenkins' });
  await shown.getByText('BOT', { exact: true }).waitFor();
  assert.equal(
    await shown.getByText('BOT', { exact: true }).getAttribute('title'),
    'Posted by Nightly build',
  );
});

test('a member’s key is offered only the scopes of a member', async () => {
  await open(bo, 'keys');
  await button(bo.page, 'New key').click();
  await dialog(bo).getByText('chat:write').waitFor();
  assert.equal(await dialog(bo).getByText('workspace:admin').count(), 0);
  await button(bo.page, 'Cancel').click();
});

test('one device is signed out, then all others', async () => {
  const phone = await person(browser, server.base, { viewport: PHONE });
  const third = await person(browser, server.base);
  for (const p of [phone, third]) await signIn(p, 'bo@example.com');
  await open(bo, 'sessions');
  await row(bo, 'Devices', 'This device').getByText('Chrome on Linux').waitFor();
  assert.equal(await row(bo, 'Devices', '').count(), 3);
  await inspect(bo, 'admin-devices');
  await row(bo, 'Devices', 'Sign out').first().getByRole('button').click();
  await said(bo, 'That device is signed out');
  assert.equal(await row(bo, 'Devices', '').count(), 2);
  await button(bo.page, 'Sign out everywhere else').click();
  await accessible(bo.page, 'signing out everywhere else');
  await button(bo.page, 'Sign out the others').click();
  await row(bo, 'Devices', 'Sign out').waitFor({ state: 'detached' });
  await button(bo.page, 'Sign out everywhere else').waitFor({ state: 'detached' });
  for (const p of [phone, third]) {
    await button(p.page, 'Sign in').waitFor();
    await p.close();
  }
});

test('an invite for one person is shown once, used up, and removed', async () => {
  await open(ada, 'invites');
  await main(ada).getByText('1 invite', { exact: true }).click();
  await row(ada, 'Invites', 'used 1 time').waitFor();
  await button(main(ada), 'Invite people').click();
  await dialog(ada).getByLabel('They join as').selectOption('viewer');
  await dialog(ada).getByLabel('Maximum uses').selectOption('1');
  await accessible(ada.page, 'new invite');
  await button(ada.page, 'Create invite link').click();
  await dialog(ada).getByText('It works for one person').waitFor();
  await accessible(ada.page, 'an invite link');
  const link = await dialog(ada).getByLabel('Invite link').inputValue();
  await dialog(ada)
    .getByText('This link works only on this computer: an operator can set OPENVIBE_PUBLIC_URL.')
    .waitFor();
  await button(ada.page, 'Done').click();
  await row(ada, 'Invites', 'used 0 of 1 time').waitFor();
  const cy = await person(browser, server.base);
  await cy.page.goto(new URL(link).pathname);
  await box(cy.page, 'Your name').fill('Cy Novak');
  await box(cy.page, 'Email').fill('cy@example.com');
  await cy.page.getByLabel('Password', { exact: true }).fill('correct horse battery');
  await cy.page.getByRole('button', { name: /^Join / }).click();
  await cy.page.getByText('You are a viewer here').waitFor();
  await row(ada, 'Invites', 'Used up').waitFor();
  await inspect(ada, 'admin-invites');
  await row(ada, 'Invites', 'used 1 time').getByRole('button').click();
  await button(ada.page, 'Revoke invite').click();
  await row(ada, 'Invites', 'used 1 time').waitFor({ state: 'detached' });
  assert.deepEqual(cy.errors, []);
  await cy.close();
});

test('members are found by words and by role; roles change live, and the last admin stays', async () => {
  await open(ada, 'members');
  await main(ada).getByRole('heading', { name: '3 members' }).waitFor();
  await inspect(ada, 'admin-members');
  await ada.page.getByRole('searchbox', { name: 'Find a member' }).fill('chen @bo');
  await main(ada).getByText('1 match').waitFor();
  await ada.page.getByLabel('Role of Bo Chen').waitFor();
  await ada.page.getByRole('searchbox', { name: 'Find a member' }).fill('zz');
  await main(ada).getByText('No matching members').waitFor();
  await accessible(ada.page, 'no matching members');
  await button(ada.page, 'Show all members').click();
  await ada.page.getByLabel('Role', { exact: true }).selectOption('viewer');
  await main(ada).getByText('1 match').waitFor();
  await ada.page.getByLabel('Role', { exact: true }).selectOption('');
  await ada.page.getByLabel('Role of Ada Lindholm').selectOption('member');
  await dialog(ada).getByText('Give up your admin role?').waitFor();
  await inspect(ada, 'admin-step-down');
  await button(ada.page, 'Become a member').click();
  await dialog(ada).getByText('make someone else an admin first').waitFor();
  await button(ada.page, 'Cancel').click();
  assert.equal(await ada.page.getByLabel('Role of Ada Lindholm').inputValue(), 'admin');
});

test('a new admin sees the admin pages immediately, and loses them with the role', async () => {
  await open(bo, 'members');
  await main(bo).getByText('Bo Chen (you)').waitFor();
  assert.equal(await bo.page.getByLabel('Role of Ada Lindholm').count(), 0);
  await inspect(bo, 'admin-members-seen-by-a-member');
  await ada.page.getByLabel('Role of Bo Chen').selectOption('admin');
  await said(ada, 'Bo Chen is now an admin');
  await bo.page.getByLabel('Role of Ada Lindholm').waitFor();
  await tabs(bo).getByRole('link', { name: 'Tools' }).click();
  await main(bo).getByRole('heading', { name: 'Tools' }).waitFor();
  await ada.page.getByLabel('Role of Bo Chen').selectOption('member');
  await main(bo).getByText('Only admins can see this').waitFor();
  await tabs(bo).getByRole('link', { name: 'Tools' }).waitFor({ state: 'detached' });
});

test('a member’s menu changes the handle and removes the member, live for the other person', async () => {
  await menu(ada, 'Cy Novak', 'Change handle…');
  await box(ada.page, 'Handle').fill('bo-chen');
  await button(ada.page, 'Change handle').click();
  await dialog(ada).getByRole('alert').waitFor();
  await inspect(ada, 'admin-handle-taken');
  await box(ada.page, 'Handle').fill('cyn');
  await button(ada.page, 'Change handle').click();
  await main(ada).getByText('@cyn · cy@example.com').waitFor();
  await open(bo, 'members');
  await main(bo).getByText('@cyn').waitFor();
  await button(ada.page, 'Actions for Cy Novak').click();
  await inspect(ada, 'admin-member-menu');
  await ada.page.getByRole('menuitem', { name: 'Remove…' }).click();
  await accessible(ada.page, 'removing a member');
  await button(ada.page, 'Remove Cy Novak').click();
  await main(ada).getByRole('heading', { name: '2 members' }).waitFor();
  await main(bo).getByText('2 members').waitFor();
});

test('a new name and address of the workspace reach everyone immediately', async () => {
  await open(ada, 'workspace');
  await bo.page.goto('/northwind/c/general');
  await box(bo.page, 'Start a thread in #general').waitFor();
  await box(ada.page, 'Workspace name').fill('Northwind Trading');
  await box(ada.page, 'Address').fill('north');
  await main(ada).getByText('Links to /northwind/… stop working').waitFor();
  await inspect(ada, 'admin-general');
  await button(ada.page, 'Save').click();
  await said(ada, 'Saved');
  await ada.page.waitForURL('**/north/settings/workspace');
  await bo.page.waitForURL('**/north/c/general');
  await startThread(bo.page, 'Still here after the move');
  await bo.page.reload();
  await message(bo.page, 'Still here after the move').waitFor();
  await ada.page.reload();
  await box(ada.page, 'Address').fill('northwind');
  await button(ada.page, 'Save').click();
  await ada.page.waitForURL('**/northwind/settings/workspace');
  await bo.page.waitForURL('**/northwind/c/general/**');
});

test('usage by person, agent, model, and month, as a table with totals and as a file', async () => {
  for (const p of [ada, bo]) {
    await p.page.goto('/northwind/c/general');
    await startThread(p.page, '@vibe what do you say?');
    await message(p.page, 'two quiet days before the fair').waitFor();
  }
  await reply(bo.page, '@vibe refuse this');
  await bo.page.getByRole('article').filter({ hasText: 'Failed' }).waitFor();
  await open(ada, 'usage');
  const line = (p, name) => main(p).getByRole('row').filter({ hasText: name });
  await line(ada, 'Bo Chen').waitFor();
  assert.deepEqual((await line(ada, 'Bo Chen').getByRole('cell').allTextContents()).slice(0, 2), ['2', '1']);
  await inspect(ada, 'admin-usage');
  const [file] = await Promise.all([
    ada.page.waitForEvent('download'),
    button(ada.page, 'Save as CSV').click(),
  ]);
  assert.match(file.suggestedFilename(), /^usage-by-person-\d{4}-\d\d\.csv$/);
  const csv = await readFile(await file.path(), 'utf8');
  assert.match(csv, /^Person,Id,Tasks,Failed,Tokens in,Tokens out,Cost in USD\r\n/);
  assert.match(csv, /\r\nBo Chen,user_\w+,2,1,/);
  await button(ada.page, 'Agents').click();
  await line(ada, 'Vibe').waitFor();
  await button(ada.page, 'Models').click();
  await line(ada, 'scripted-1').waitFor();
  await button(ada.page, 'Months').click();
  await main(ada).getByRole('rowheader').nth(11).waitFor();
  await inspect(ada, 'admin-usage-by-month');
  await ada.page.reload();
  await main(ada).getByRole('rowheader').nth(11).waitFor();
  await button(ada.page, 'Agents').click();
  await button(ada.page, 'Previous month').click();
  await main(ada).getByText('No usage').waitFor();
  await accessible(ada.page, 'a month without usage');
  assert.equal(await button(ada.page, 'Save as CSV').isDisabled(), true);
});

test('a member sees only their own usage', async () => {
  await open(bo, 'usage');
  const vibe = main(bo).getByRole('row').filter({ hasText: 'Vibe' });
  await vibe.waitFor();
  assert.deepEqual((await vibe.getByRole('cell').allTextContents()).slice(0, 2), ['2', '1']);
  assert.equal(await button(bo.page, 'People').count(), 0);
  await accessible(bo.page, 'one’s own usage');
});

test('the audit log is newest first, has pages, and filters by person and by action', async () => {
  for (let i = 0; i < 60; i++) {
    const { id } = await api(ada, 'POST', 'invites', { role: 'viewer' });
    await api(ada, 'DELETE', `invites/${id}`);
  }
  await api(bo, 'POST', 'api-keys', { name: 'Build', scopes: ['chat:read'] });
  await open(ada, 'audit');
  const entries = main(ada).getByRole('list', { name: 'Audit log' }).locator('.entry');
  await entries.first().getByText('created the key “Build”: Read').waitFor();
  await inspect(ada, 'admin-audit');
  for (const n of [60, 110]) {
    await main(ada)
      .locator('.scroll')
      .evaluate((s) => (s.scrollTop = s.scrollHeight));
    await entries.nth(n).waitFor();
  }
  await ada.page.getByLabel('Person').selectOption({ label: 'Bo Chen' });
  await main(ada).getByText('revoked an invite link').first().waitFor({ state: 'detached' });
  assert.equal(await entries.filter({ hasText: /^You / }).count(), 0);
  await entries.first().getByText('created the key “Build”').waitFor();
  await ada.page.getByLabel('Action').selectOption({ label: 'Agent deleted' });
  await main(ada).getByText('No matching entries').waitFor();
  await accessible(ada.page, 'an audit log without a match');
  await button(ada.page, 'Show all entries').click();
  await ada.page.getByLabel('Action').selectOption({ label: 'Role changed' });
  await entries.filter({ hasText: 'changed the role of Bo Chen from admin to member' }).waitFor();
});

test('the model page shows the current model, and the test reports its result', async () => {
  await open(ada, 'model');
  await main(ada).getByText('scripted-1').first().waitFor();
  await button(ada.page, 'Test the connection').click();
  const outcome = ada.page.getByRole('region', { name: 'Test result' });
  await outcome.getByText('It works').waitFor();
  await inspect(ada, 'admin-model');
});

test('my data is downloaded as a file', async () => {
  await open(bo, 'data');
  await inspect(bo, 'admin-my-data');
  const [file] = await Promise.all([
    bo.page.waitForEvent('download'),
    button(bo.page, 'Export my data').click(),
  ]);
  const data = await readFile(await file.path(), 'utf8');
  assert.match(data, /what do you say\?/);
  assert.match(data, /bo@example\.com/);
  assert.doesNotMatch(data, /ada@example\.com/);
});

test('the last admin cannot leave; a member who leaves disappears for everyone immediately', async () => {
  await open(ada, 'data');
  await button(ada.page, 'Leave the workspace…').click();
  await button(ada.page, 'Leave').click();
  await dialog(ada).getByText('make someone else an admin first').waitFor();
  await accessible(ada.page, 'leaving, refused');
  await button(ada.page, 'Cancel').click();
  const dee = await person(browser, server.base);
  await joinBy(dee.page, await inviteLink(ada.page), { name: 'Dee Okafor', email: 'dee@example.com' });
  await open(ada, 'members');
  await main(ada).getByText('@dee-okafor').waitFor();
  await open(dee, 'data');
  await button(dee.page, 'Leave the workspace…').click();
  await button(dee.page, 'Leave').click();
  await main(ada).getByText('@dee-okafor').waitFor({ state: 'detached' });
  await dee.page.waitForURL('**/new');
  assert.deepEqual(dee.errors, []);
  await dee.close();
});

test('a member’s data is exported, then erased after the handle was typed', async () => {
  await open(ada, 'members');
  await button(ada.page, 'Actions for Bo Chen').click();
  const [file] = await Promise.all([
    ada.page.waitForEvent('download'),
    ada.page.getByRole('menuitem', { name: 'Export data' }).click(),
  ]);
  assert.equal(file.suggestedFilename(), 'northwind-bo-chen.json');
  assert.match(await readFile(await file.path(), 'utf8'), /what do you say\?/);
  await menu(ada, 'Bo Chen', 'Erase data…');
  assert.equal(await button(ada.page, 'Erase data').isDisabled(), true);
  await inspect(ada, 'admin-erase');
  await box(ada.page, 'Type bo-chen to confirm').fill('bo-chen');
  await button(ada.page, 'Erase data').click();
  await dialog(ada).getByText('messages and 0 files of Bo Chen were deleted').waitFor();
  await dialog(ada).getByText('Their account was deleted too').waitFor();
  await inspect(ada, 'admin-erased');
  await button(ada.page, 'Done').click();
  await main(ada).getByText('@bo-chen').waitFor({ state: 'detached' });
  await tabs(bo).waitFor({ state: 'detached' });
  await bo.page.goto('/');
  await button(bo.page, 'Sign in').waitFor();
  await open(ada, 'audit');
  await main(ada).getByText('erased a member’s data').first().waitFor();
});

test('of 10,000 members, only those in view are mounted, and any can be found', async () => {
  const many = Array.from({ length: 10_000 }, (_, i) => ({
    user_id: `user_${String(i).padStart(26, '0')}`,
    name: `Person ${String(i).padStart(5, '0')}`,
    handle: `person-${i}`,
    email: `person-${i}@example.com`,
    avatar_url: null,
    role: 'member',
    joined_at: '2026-01-05T09:00:00.000Z',
  }));
  await ada.page.route('**/v1/snapshot', async (route) => {
    const answer = await route.fetch();
    const body = await answer.json();
    await route.fulfill({ json: { ...body, members: [...body.members, ...many.slice(0, 500)] } });
  });
  await ada.page.route('**/v1/members?*', (route) => {
    const after = new URL(route.request().url()).searchParams.get('after');
    const from = many.findIndex((m) => m.user_id === after) + 1;
    const data = many.slice(from, from + 2000);
    return route.fulfill({ json: { object: 'list', data, has_more: from + 2000 < many.length } });
  });
  await open(ada, 'members');
  await main(ada).getByRole('heading', { name: '10,001 members' }).waitFor();
  const rows = ada.page.locator('.mrow');
  assert.ok((await rows.count()) < 40);
  await main(ada)
    .locator('.scroll')
    .evaluate((s) => (s.scrollTop = s.scrollHeight));
  await main(ada).getByText('Person 09999').waitFor();
  assert.ok((await rows.count()) < 40);
  await accessible(ada.page, '10,000 members');
  await ada.page.getByRole('searchbox', { name: 'Find a member' }).fill('person-7777@');
  await main(ada).getByText('Person 07777').waitFor();
  await ada.page.unroute('**/v1/snapshot');
  await ada.page.unroute('**/v1/members?*');
});

test('a page that failed to load shows the reason, and retries on click or reconnection', async () => {
  let broken = true;
  const json = { error: { type: 'unavailable', code: 'x', message: 'The database is away.' } };
  await ada.page.route('**/v1/api-keys**', (r) => (broken ? r.fulfill({ status: 503, json }) : r.continue()));
  await open(ada, 'keys');
  await main(ada).getByText('Couldn’t load your keys').waitFor();
  await accessible(ada.page, 'keys that failed to load');
  broken = false;
  // Two lists: the person's own keys, and those of other members.
  await button(ada.page, 'Try again').first().click();
  await main(ada).getByText('No keys yet').waitFor();
  await button(ada.page, 'Try again').click();
  await button(ada.page, 'Try again').waitFor({ state: 'detached' });
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await tabs(ada).getByRole('link', { name: 'Audit log' }).click();
  await main(ada).getByText('Couldn’t load').waitFor();
  await accessible(ada.page, 'settings, offline');
  await ada.context.setOffline(false);
  await ada.page.getByText('You are offline').waitFor({ state: 'detached' });
});

test('loading pages show a skeleton', async () => {
  let go;
  const gate = new Promise((r) => (go = r));
  await ada.page.route('**/v1/auth/sessions**', async (r) => {
    await gate;
    await r.continue();
  });
  await open(ada, 'sessions');
  await ada.page.getByRole('status', { name: 'Loading your devices' }).locator('.skel').first().waitFor();
  await accessible(ada.page, 'devices that load');
  go();
  await row(ada, 'Devices', 'This device').waitFor();
  await ada.page.unroute('**/v1/auth/sessions**');
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
