// What a workspace demands of sessions: an admin sets it, and who does not meet it is led to it.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { accessible, box, button } from './lib/browser.mjs';
import { codeOf } from './lib/codes.mjs';
import { inspect, main } from './lib/parts.mjs';
import { Provider } from './lib/provider.mjs';
import { api, startTeam } from './lib/team.mjs';

const provider = await new Provider({ sub: 'ada', email: 'ada@example.com', email_verified: true }).start();
after(() => provider.close());
const { ada, bo, server } = await startTeam();
const dialog = ada.page.getByRole('dialog', { name: 'Sign-in rules' });
const open = async () => {
  await ada.page.goto('/northwind/settings/security');
  await button(main(ada), 'Sign-in rules').click();
  await button(dialog, 'Save').waitFor();
};

test('rules that the admin’s own session does not meet are refused, with the way to it', async () => {
  const corp = { name: 'Corp', issuer: provider.issuer, client_id: 'openvibe', domains: ['example.com'] };
  await api(ada, 'POST', 'identity-providers', corp);
  await ada.page.goto('/northwind/settings/providers');
  await main(ada)
    .getByRole('button', { name: /^Try it/ })
    .click();
  await button(main(ada), 'Turn on Corp').click();
  await main(ada).getByText('Corp is on').waitFor();
  await open();
  await dialog.getByRole('switch', { name: 'Require a second factor' }).check();
  await button(dialog, 'Save').click();
  await dialog.getByText('Set up a second factor in Settings › Sign-in and keys first.').waitFor();
  await inspect(ada, 'sign-in-rules');
  await dialog.getByRole('checkbox', { name: 'Corp' }).check();
  await button(dialog, 'Save').click();
  await dialog.getByText('Sign in with Corp first.').waitFor();
  const { sign_in } = (await api(ada, 'GET', 'workspaces')).data[0];
  assert.equal(sign_in?.second_factor ?? 'off', 'off');
});

test('people without a second factor learn of the day from which it is required', async () => {
  await ada.page.goto('/northwind/settings/sign-in');
  await setUp(ada, main(ada).getByRole('list', { name: 'Ways to sign in' }));
  const from = new Date(Date.now() + 5 * 86_400_000).toISOString().slice(0, 10);
  const [{ id }] = (await api(ada, 'GET', 'workspaces')).data;
  const change = (sign_in) => api(ada, 'PATCH', `workspaces/${id}`, { sign_in });
  await change({ second_factor: 'required', from });
  await bo.page.goto('/northwind/inbox');
  const upcoming = /^Northwind will require a second factor from [A-Z][a-z]+ \d+\. Set it up\.$/;
  await main(bo).getByRole('link', { name: upcoming }).waitFor();
  await inspect(bo, 'second-factor-upcoming');
  await main(bo).getByRole('link', { name: upcoming }).click();
  await bo.page.waitForURL('**/northwind/settings/sign-in');
  await change({ second_factor: 'off', from: null });
  await bo.page.goto('/northwind/c/general');
  await box(bo.page, 'Start a thread in #general').waitFor();
});

test('a second factor is required, and who has none sets it up and comes in', async () => {
  await ada.page.goto('/northwind/settings/security');
  await main(ada).getByText('1 of 2 people has no second factor yet').waitFor();
  await inspect(ada, 'security');
  await open();
  await dialog.getByRole('switch', { name: 'Require a second factor' }).check();
  await button(dialog, 'Save').click();
  await dialog.waitFor({ state: 'detached' });
  await bo.page.getByRole('heading', { name: 'Northwind requires a second factor' }).waitFor();
  await bo.page.getByRole('list', { name: 'Ways to sign in' }).waitFor();
  await inspect(bo, 'second-factor-required');
  await button(bo.page, 'Open Northwind').click();
  await bo.page.getByRole('alert').getByText('requires a second factor').waitFor();
  await setUp(bo, bo.page.getByRole('list', { name: 'Ways to sign in' }));
  await button(bo.page, 'Open Northwind').click();
  await box(bo.page, 'Start a thread in #general').waitFor();
});

test('a session that is too old has to be replaced', async () => {
  server.sql(
    `update sessions set created_at = strftime('%Y-%m-%dT%H:%M:%f+00:00', created_at, '-2 days') where user_id <> (select user_id from members where role = 'admin')`,
  );
  await open();
  await dialog.getByLabel('Sign in again after').selectOption('1 day');
  await button(dialog, 'Save').click();
  await dialog.waitFor({ state: 'detached' });
  await bo.page.getByRole('heading', { name: 'Northwind requires a newer sign-in' }).waitFor();
  await accessible(bo.page, 'a session that is too old');
  await button(bo.page, 'Sign in again').click();
  await box(bo.page, 'Email').waitFor();
  assert.match(bo.page.url(), /next=/);
});

test('a link of the operator opens the ways to sign in, whatever the rules are', async () => {
  const link = new URL(server.command('user', 'sign-in-link', '--email', 'bo@example.com'));
  await bo.page.goto(`/sign-in${link.hash}`);
  await button(bo.page, 'Sign in').waitFor();
  await inspect(bo, 'operator-link');
  await button(bo.page, 'Sign in').click();
  await bo.page.waitForURL('**/northwind/settings/sign-in');
  await main(bo).getByRole('list', { name: 'Ways to sign in' }).waitFor();
});

/** Sets up an authenticator app in a list of ways to sign in. */
async function setUp(p, ways) {
  await button(ways, 'Set up an app').click();
  const setup = p.page.getByRole('dialog', { name: 'Set up an authenticator app' });
  const secret = (await setup.locator('code').innerText()).replaceAll(' ', '');
  await box(setup, 'Code from your app').fill(codeOf(secret));
  await button(setup, 'Turn on').click();
  await button(p.page.getByRole('dialog', { name: 'Your recovery codes' }), 'Done').click();
  await ways.getByText('10 of 10 left').waitFor();
}
