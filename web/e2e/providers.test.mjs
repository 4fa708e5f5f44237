// Identity providers on screen: a new one, its try, its place on the sign-in page, the text of each failure, and signing out there too.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { box, button, person } from './lib/browser.mjs';
import { inspect, main } from './lib/parts.mjs';
import { Provider } from './lib/provider.mjs';
import { api, startTeam } from './lib/team.mjs';

const corp = await new Provider({
  sub: 'cy',
  email: 'cy@example.com',
  email_verified: true,
  name: 'Cy Ode',
}).start();
after(() => corp.close());
const { ada, server, browser } = await startTeam({ bo: null });
const visitor = await person(browser, server.base);
const dialog = (name) => ada.page.getByRole('dialog', { name });
const tryIt = (name) => main(ada).getByRole('button', { name: new RegExp(`^Try it.*${name}$`) });
const PRESETS = {
  Entra: 'https://login.microsoftonline.com/TENANT/v2.0',
  Google: 'https://accounts.google.com',
  Keycloak: 'https://HOST/realms/REALM',
  Authentik: 'https://HOST/application/o/SLUG/',
  Okta: 'https://HOST.okta.com',
};
/** Failures: the code, the detail, and the text on the sign-in page. */
const FAILURES = [
  ['provider_unreachable', '', 'Corp does not answer. Try again, or sign in another way.'],
  ['clock_skew', '-4', 'This server’s clock is 4 minutes behind Corp’s. Ask your admin to set it.'],
  ['flow_expired', '', 'This sign-in took too long or was opened in another browser. Start again.'],
  ['refused', 'access_denied', 'Corp did not sign you in: access was denied.'],
  [
    'misconfigured',
    'invalid_client',
    'Corp rejected this server (invalid_client). Ask your admin to enter the client secret again.',
  ],
  ['email_not_verified', '', 'Corp has not confirmed your email address.'],
  ['not_invited', '', 'You have no invite to this server. Ask an admin of your workspace.'],
  [
    'address_in_use',
    'ada@example.org',
    'ada@example.org belongs to another account. Sign in to it and connect Corp in Settings › Sign-in, or ask an admin.',
  ],
];

test('a provider is added from a preset, with the address to register there', async () => {
  await ada.page.goto('/northwind/settings/providers');
  await button(main(ada), 'Add provider').click();
  const adding = dialog('Add provider');
  for (const [name, issuer] of Object.entries(PRESETS)) {
    await button(adding, name).click();
    assert.equal(await box(adding, 'Issuer').inputValue(), issuer);
  }
  await box(adding, 'Name').fill('Corp');
  await box(adding, 'Issuer').fill(corp.issuer);
  await box(adding, 'Client ID').fill('openvibe');
  await box(adding, 'Domains').fill('example.com');
  await inspect(ada, 'add-provider');
  await button(adding, 'Add').click();
  const made = dialog('Corp');
  await box(made, 'Redirect address').waitFor();
  const [{ redirect_uri }] = (await api(ada, 'GET', 'identity-providers')).data;
  assert.equal(await box(made, 'Redirect address').inputValue(), redirect_uri);
  await button(made, 'Copy redirect address').click();
  await button(made, 'Copied').waitFor();
  await inspect(ada, 'redirect-address');
  await button(made, 'Done').click();
  await main(ada).getByText('Corp is off: try it first').waitFor();
  assert.equal(await button(main(ada), 'Turn on Corp').isDisabled(), true);
});

test('a try shows the person and the claims', async () => {
  await tryIt('Corp').click();
  await main(ada)
    .getByText('cy@example.com would get an account, with an invite or where everyone can join.')
    .waitFor();
  await main(ada).getByText('Claims of Corp').click();
  await main(ada).getByText('"sub": "cy"').waitFor();
  await inspect(ada, 'provider-tried');
  await button(main(ada), 'Turn on Corp').click();
  await main(ada).getByText('Corp is on').waitFor();
  assert.deepEqual(ada.errors, []);
});

test('the provider of a typed domain comes first', async () => {
  const lab = { name: 'Lab', issuer: corp.issuer, client_id: 'openvibe', domains: ['lab.example'] };
  await api(ada, 'POST', 'identity-providers', lab);
  await ada.page.goto('/northwind/settings/providers');
  await tryIt('Lab').click();
  await main(ada).getByText('Claims of Lab').waitFor();
  await button(main(ada), 'Turn on Lab').click();
  await main(ada).getByText('Lab is on').waitFor();
  const { page } = visitor;
  const ways = page.getByRole('button', { name: /^Sign in with (Corp|Lab)$/ });
  await page.goto('/login');
  await ways.nth(1).waitFor();
  for (const [domain, name] of [
    ['lab.example', 'Lab'],
    ['example.com', 'Corp'],
  ]) {
    await box(page, 'Email').fill(`cy@${domain}`);
    await page.keyboard.press('Tab');
    await ways.first().filter({ hasText: name }).waitFor();
  }
  await inspect(visitor, 'sign-in-providers');
});

test('each failure of a provider has its text', async () => {
  const { page } = visitor;
  const all = (await api(ada, 'GET', 'identity-providers')).data;
  const { id } = all.find(({ name }) => name === 'Corp');
  for (const [error, detail, text] of FAILURES) {
    await page.goto(`/sign-in?${new URLSearchParams({ error, provider: id, detail })}`);
    await page.getByRole('alert').filter({ hasText: text }).waitFor();
  }
  await inspect(visitor, 'sign-in-failure');
});

test('whoever has only a provider confirms there that it is them', async () => {
  await api(ada, 'POST', 'invites', { email: 'cy@example.com', role: 'member' });
  const { page } = visitor;
  await page.goto('/login');
  await button(page, 'Sign in with Corp').click();
  await box(page, 'Start a thread in #general').waitFor();
  server.sql(
    `update sessions set created_at = strftime('%Y-%m-%dT%H:%M:%f+00:00', created_at, '-11 minutes'), confirmed_at = null`,
  );
  await page.goto('/northwind/settings/sign-in');
  await button(page, 'Set up an app').click();
  const asked = page.getByRole('dialog', { name: 'Confirm it is you' });
  await button(asked, 'Use Corp').waitFor();
  await inspect(visitor, 'confirm-with-provider');
  await button(asked, 'Use Corp').click();
  await asked.waitFor({ state: 'detached' });
  await button(page, 'Set up an app').click();
  await page.getByRole('dialog', { name: 'Set up an authenticator app' }).waitFor();
});

test('whoever signs out can also sign out of the provider', async () => {
  const { page } = visitor;
  await page.goto('/northwind/settings/profile');
  await button(main(visitor), 'Sign out').click();
  await page.getByText('You are signed out.').waitFor();
  const link = page.getByRole('link', { name: 'Also sign out of Corp' });
  assert.equal(await link.getAttribute('href'), `${corp.issuer}/end?client_id=openvibe`);
  await inspect(visitor, 'signed-out');
  assert.deepEqual([ada.errors, visitor.errors], [[], []]);
  await visitor.close();
});
