// Identity providers: SCIM tokens, changed settings, invites, and a link for a person without another way in.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { box, button, message, person, startThread } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { Provider } from './lib/provider.mjs';
import { api, startTeam } from './lib/team.mjs';

const provider = await new Provider({ sub: 'ada', email: 'ada@example.com', email_verified: true }).start();
after(() => provider.close());
const { ada, server, browser } = await startTeam({ bo: null });
const dialog = (name) => ada.page.getByRole('dialog', { name });
const accounts = dialog('Accounts from Corp');
/** Path of a thread by Cy. */
let thread;
/** Status of a request that a provider sends with this token. */
const scim = async (token) => {
  const headers = { authorization: `Bearer ${token}` };
  return (await fetch(`${server.base}/scim/v2/Users`, { headers })).status;
};

test('a token is made, shown once, used, and deleted', async () => {
  const corp = { name: 'Corp', issuer: provider.issuer, client_id: 'openvibe', domains: ['example.com'] };
  await api(ada, 'POST', 'identity-providers', corp);
  await ada.page.goto('/northwind/settings/providers');
  await button(main(ada), 'Accounts from Corp').click();
  await accounts.getByText('While Corp is off').waitFor();
  await button(accounts, 'Done').click();
  await main(ada)
    .getByRole('button', { name: /^Try it/ })
    .click();
  await main(ada).getByText('ada@example.com').first().waitFor();
  await button(main(ada), 'Turn on Corp').click();
  await main(ada).getByText('Corp is on').waitFor();
  await button(main(ada), 'Accounts from Corp').click();
  await accounts.getByText('No tokens yet').waitFor();
  assert.equal(await box(accounts, 'SCIM address').inputValue(), `${server.base}/scim/v2`);
  await button(accounts, 'Make a token').click();
  const token = await box(accounts, 'Token').inputValue();
  await inspect(ada, 'scim-token');
  assert.equal(await scim(token), 200);
  await button(accounts, 'Done').click();
  await button(main(ada), 'Accounts from Corp').click();
  await accounts.getByText('last used').waitFor();
  assert.equal(await box(accounts, 'Token').count(), 0);
  await button(accounts, 'Make a token').click();
  await accounts.getByText('A provider can have two tokens').waitFor();
  assert.equal(await button(accounts, 'Make a token').isDisabled(), true);
  await accounts
    .getByRole('button', { name: /^Delete the token/ })
    .first()
    .click();
  await button(dialog('Delete this token?'), 'Delete token').click();
  await dialog('Delete this token?').waitFor({ state: 'detached' });
  assert.equal(await scim(token), 401);
  await button(accounts, 'Done').click();
  assert.deepEqual(ada.errors, []);
});

test('name, domains, second factor, and who joins are changed with the keyboard', async () => {
  const { keyboard } = ada.page;
  await button(main(ada), 'Edit Corp').focus();
  await keyboard.press('Enter');
  const edit = dialog('Edit Corp');
  const domains = box(edit, 'Domains');
  await domains.fill('example.com, example.net/sso');
  await keyboard.press('Enter');
  await edit.getByText('`example.net/sso` is not a domain such as example.org').waitFor();
  assert.equal(await domains.evaluate((e) => e === document.activeElement && e.ariaInvalid), 'true');
  await inspect(ada, 'edit-provider-refused');
  await domains.fill('example.com, example.net');
  await edit.getByLabel('Counts as a second factor').selectOption('Always');
  const northwind = edit.getByRole('group', { name: 'Northwind' });
  await northwind.getByLabel('Role').selectOption('Viewer');
  await edit.getByLabel('Who confirms addresses').selectOption('The provider, for everyone in its domains');
  await box(edit, 'Claim with groups').fill('teams');
  await button(northwind, 'Add a group of Northwind').press('Enter');
  await keyboard.type('ops');
  await northwind.getByLabel('Its role').selectOption('Admin');
  await button(northwind, 'Add a group of Northwind').press('Enter');
  await keyboard.type('staff');
  await inspect(ada, 'edit-provider');
  await button(northwind, 'Remove staff').press('Enter');
  await domains.press('Enter');
  await edit.waitFor({ state: 'detached' });
  assert.equal(await button(main(ada), 'Edit Corp').evaluate((e) => e === document.activeElement), true);
  const [corp] = (await api(ada, 'GET', 'identity-providers')).data;
  assert.deepEqual([corp.domains, corp.second_factor], [['example.com', 'example.net'], 'always']);
  assert.deepEqual([corp.email_trust, corp.groups_claim], ['issuer', 'teams']);
  const [{ join, role, rules }] = corp.workspaces;
  assert.deepEqual([join, role, rules.length], ['invited', 'viewer', 1]);
  assert.deepEqual([rules[0].group, rules[0].role], ['ops', 'admin']);
});

test('settings that another admin has changed are shown, and not overwritten', async () => {
  await button(main(ada), 'Edit Corp').click();
  const edit = dialog('Edit Corp');
  await box(edit, 'Name').fill('Lab');
  const [corp] = (await api(ada, 'GET', 'identity-providers')).data;
  await api(ada, 'PATCH', `identity-providers/${corp.id}`, { domains: ['example.com'] });
  await button(edit, 'Save').click();
  await edit.getByText('Corp has changed since you opened it.').waitFor();
  assert.equal(await box(edit, 'Domains').inputValue(), 'example.com');
  await box(edit, 'Name').fill('Lab');
  await button(edit, 'Save').click();
  await main(ada).getByText('Lab is on').waitFor();
  assert.deepEqual(ada.errors, []);
});

test('an invite with one use is accepted with a provider', async () => {
  const { token } = await api(ada, 'POST', 'invites', { role: 'member', max_uses: 1 });
  provider.person = { sub: 'cy', email: 'cy@example.com', email_verified: true, name: 'Cy Ode' };
  const cy = await person(browser, server.base);
  await cy.page.goto(`/invite/${token}`);
  await button(cy.page, 'Join with Lab').waitFor();
  await inspect(cy, 'invite-provider');
  await button(cy.page, 'Join with Lab').click();
  await box(cy.page, 'Start a thread in #general').waitFor();
  await startThread(cy.page, 'I was here');
  await cy.page.waitForURL('**/t/**');
  thread = new URL(cy.page.url()).pathname;
  assert.deepEqual(cy.errors, []);
  await cy.close();
});

test('who has no other way to sign in is listed before a provider is turned off', async () => {
  await ada.page.goto('/northwind/settings/providers');
  await button(main(ada), 'Turn off Lab').click();
  const off = dialog('Turn off Lab?');
  await off.getByText('1 person signs in only with Lab.').waitFor();
  await off.getByText('Who they are').click();
  await off.getByText('cy@example.com').waitFor();
  await button(off, 'Send them a link').click();
  await off.getByText('Email is off.').waitFor();
  await inspect(ada, 'only-way');
  await button(off, 'Cancel').click();
  assert.deepEqual(ada.errors, []);
});

test('an admin gives a link to a member who signs in only with the provider', async () => {
  await ada.page.goto('/northwind/settings/members');
  await button(main(ada), 'Actions for Cy Ode').click();
  await ada.page.getByRole('menuitem', { name: 'Password link…' }).press('Enter');
  const password = dialog('Password link for Cy Ode');
  await button(password, 'Create link').press('Enter');
  const link = await box(password, 'Password link').inputValue();
  await ada.page.waitForFunction((url) => document.activeElement.value === url, link);
  await inspect(ada, 'password-link');
  await button(password, 'Done').click();
  const cy = await person(browser, server.base);
  await cy.page.goto(new URL(link).pathname);
  await cy.page.getByLabel('New password').fill('another long enough phrase');
  await button(cy.page, 'Set password').click();
  await cy.page.getByRole('heading', { name: 'Your new password is set' }).waitFor();
  await cy.close();
});

test('whoever the provider deactivates is shown as that, and what they wrote stays', async () => {
  const [lab] = (await api(ada, 'GET', 'identity-providers')).data;
  const { token } = await api(ada, 'POST', `identity-providers/${lab.id}/scim-tokens`, {});
  const send = async (method, path, form) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/scim+json' };
    const answer = await fetch(`${server.base}/scim/v2/${path}`, {
      method,
      headers,
      body: JSON.stringify(form),
    });
    const text = await answer.text();
    assert.ok(answer.ok, text);
    return JSON.parse(text);
  };
  const { id } = await send('POST', 'Users', { userName: 'cy@example.com' });
  const operation = { op: 'replace', path: 'active', value: false };
  await send('PATCH', `Users/${id}`, { Operations: [operation] });
  await ada.page.goto(thread);
  await message(ada.page, 'I was here').getByText('Cy Ode (deactivated)').first().waitFor();
  await inspect(ada, 'deactivated-person');
});

test('without passwords, an invite offers only the provider', async () => {
  await api(ada, 'PATCH', 'server', { password_sign_in: 'server_admins' });
  const { token } = await api(ada, 'POST', 'invites', { role: 'member' });
  provider.person = { sub: 'di', email: 'di@elsewhere.org', email_verified: true, name: 'Di Fox' };
  const di = await person(browser, server.base);
  await di.page.goto(`/invite/${token}`);
  await button(di.page, 'Join with Lab').waitFor();
  assert.equal(await box(di.page, 'Email').count(), 0);
  await inspect(di, 'invite-provider-only');
  await button(di.page, 'Join with Lab').click();
  await di.page.getByText('You have no invite to this server').waitFor();
  await di.close();
});
