// Guests: an invite for one channel, what a guest sees, and what members see of guests; and an account that a provider's sign-in meets.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { box, button, message, PASSWORD, person, startThread } from './lib/browser.mjs';
import { dialog, inspect, main, side } from './lib/parts.mjs';
import { Provider } from './lib/provider.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const provider = await new Provider({ sub: 'ada', email: 'ada@example.com', email_verified: true }).start();
after(() => provider.close());
const { ada, bo, server, browser } = await startTeam();
const gus = await person(browser, server.base);
let link;
/** Path of the guest's thread. */
let thread;

test('an admin invites a guest to one channel', async () => {
  await api(ada, 'POST', 'channels', { name: 'plans' });
  await startThread(ada.page, 'The secret zebra');
  await button(ada.page, 'Invite people').click();
  await dialog(ada).getByLabel('They join as').selectOption('guest');
  assert.ok(await button(dialog(ada), 'Create invite link').isDisabled());
  await dialog(ada).getByRole('checkbox', { name: '#plans' }).check();
  await dialog(ada).getByLabel('Their access ends').selectOption('In 30 days');
  await inspect(ada, 'guest-invite');
  await button(dialog(ada), 'Create invite link').click();
  link = await ada.page.getByLabel('Invite link').inputValue();
  await button(dialog(ada), 'Done').click();
});

test('the guest sees this channel and nothing else', async () => {
  await gus.page.goto(new URL(link).pathname);
  await box(gus.page, 'Your name').fill('Gus Orr');
  await box(gus.page, 'Email').fill('gus@example.com');
  await gus.page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await gus.page.getByRole('button', { name: /^Join / }).click();
  await gus.page.waitForURL(/\/northwind/);
  await gus.page.goto('/northwind/c/plans');
  await box(gus.page, 'Start a thread in #plans').waitFor();
  await side(gus)
    .getByRole('link', { name: /^#?\s?plans/ })
    .waitFor();
  assert.equal(
    await side(gus)
      .getByRole('link', { name: /general/ })
      .count(),
    0,
  );
  await inspect(gus, 'guest-channel');
  await startThread(gus.page, 'Here I am', 'plans');
  await gus.page.waitForURL('**/t/**');
  thread = new URL(gus.page.url()).pathname;
  await inspect(gus, 'guest-thread');
  await gus.page.goto('/northwind/search?q=zebra');
  await main(gus)
    .getByText(/^No |no results/i)
    .first()
    .waitFor();
  assert.equal(await main(gus).getByText('The secret zebra').count(), 0);
  await gus.page.goto('/northwind/c/general');
  await gus.page.getByRole('heading', { name: 'Channel not found' }).waitFor();
  await inspect(gus, 'guest-elsewhere');
  assert.equal(await box(gus.page, 'Start a thread in #general').count(), 0);
});

test('members see that a guest reads the channel', async () => {
  await ada.page.goto('/northwind/c/plans');
  await main(ada).getByText('1 guest reads this channel').waitFor();
  await inspect(ada, 'guest-reads');
  assert.equal(await main(gus).getByText('1 guest reads this channel').count(), 0);
  await ada.page.goto(thread);
  await message(ada.page, 'Here I am').getByText('GUEST', { exact: true }).waitFor();
  await inspect(ada, 'guest-badge');
  await bo.page.goto('/northwind/settings/members');
  await main(bo).getByText('Gus Orr').waitFor();
  await main(bo)
    .getByText(/gus@example\.com · until /)
    .waitFor();
  await main(bo).getByText('Guest', { exact: true }).first().waitFor();
  await inspect(bo, 'guest-members');
});

test('members see how many guests read the channel', async () => {
  const { channelId } = await known(ada);
  const { token } = await api(ada, 'POST', 'invites', { role: 'guest', channel_ids: [channelId('plans')] });
  const hal = await person(browser, server.base);
  const account = { name: 'Hal Ito', email: 'hal@example.com', password: PASSWORD, invite: token };
  const request = { headers: { origin: server.base }, data: account };
  const joined = await hal.context.request.post(`${server.base}/v1/auth/signup`, request);
  assert.equal(joined.status(), 201);
  await hal.close();
  await ada.page.goto('/northwind/c/plans');
  await main(ada).getByText('2 guests read this channel').waitFor();
});

test('a sign-in meets an account with an address that nobody has confirmed', async () => {
  const corp = { name: 'Corp', issuer: provider.issuer, client_id: 'openvibe', domains: ['example.com'] };
  await api(ada, 'POST', 'identity-providers', corp);
  await ada.page.goto('/northwind/settings/providers');
  await main(ada)
    .getByRole('button', { name: /^Try it/ })
    .click();
  await main(ada).getByText('ada@example.com').first().waitFor();
  await button(main(ada), 'Turn on Corp').click();
  await main(ada).getByText('Corp is on').waitFor();
  provider.person = { sub: 'bo', email: 'bo@example.com', email_verified: true, name: 'Bo Chen' };
  const other = await person(browser, server.base);
  await other.page.goto('/sign-in?password');
  await button(other.page, 'Sign in with Corp').click();
  await other.page.getByRole('heading', { name: 'Connect Corp' }).waitFor();
  await inspect(other, 'link-account');
  await button(other.page, 'I do not know it').click();
  await other.page.getByText('This removes the password, second factors, devices, and keys').waitFor();
  await inspect(other, 'link-account-unknown');
  await button(other.page, 'Enter the password').click();
  await other.page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await button(other.page, 'Connect').click();
  await box(other.page, 'Start a thread in #general').waitFor();
  await message(other.page, 'The secret zebra')
    .or(main(other).getByText('The secret zebra'))
    .first()
    .waitFor();
  assert.deepEqual([ada.errors, bo.errors, gus.errors, other.errors], [[], [], [], []]);
  await other.close();
  await gus.close();
});
