// Second factors, and what emails make possible: confirmed addresses, forgotten passwords, and sent invites.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { after, test } from 'node:test';
import { accessible, box, button, PASSWORD, person, PHONE, shot, WIDE } from './lib/browser.mjs';
import { codeOf } from './lib/codes.mjs';
import { Mail } from './lib/mail.mjs';
import { startTeam } from './lib/team.mjs';

const NEW_PASSWORD = 'another long enough phrase';
const ELEVEN_MINUTES_LATER = `update sessions set created_at = strftime('%Y-%m-%dT%H:%M:%f+00:00', created_at, '-11 minutes'), confirmed_at = null`;
const mail = await new Mail().start();
after(() => mail.close());
const port = await freePort();
/** Address with a name, which passkeys need. */
const named = `http://localhost:${port}`;
const team = await startTeam({
  env: { OPENVIBE_SMTP_URL: mail.url, OPENVIBE_LISTEN: `127.0.0.1:${port}`, OPENVIBE_PUBLIC_URL: named },
  bo: null,
});
const { ada } = team;
/** Recovery codes of Ada. */
let codes = [];
/** Ada at the address with a name. */
const own = await person(team.browser, named, { theme: 'light' });
after(() => own.close());

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}
const dialog = (page, name) => page.getByRole('dialog', { name });
/** Opens the ways to sign in, and returns their list. */
async function openWays(page) {
  await page.goto('/northwind/settings/sign-in');
  const ways = page.getByRole('list', { name: 'Ways to sign in' });
  await ways.waitFor();
  return ways;
}
/** Gives the page a device that creates passkeys. */
async function addAuthenticator(page) {
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('WebAuthn.enable');
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
}
const fill = async (page, password) => {
  await page.goto('/login');
  await box(page, 'Email').fill('ada@example.com');
  await page.getByLabel('Password', { exact: true }).fill(password);
  await button(page, 'Sign in').click();
};
const isIn = (page) => box(page, 'Start a thread in #general').waitFor();

test('an address is confirmed with the link that is sent to it', async () => {
  await ada.page.goto('/northwind/settings/profile');
  await button(ada.page, 'Send a link').click();
  await ada.page.getByText('A link is on its way to ada@example.com').waitFor();
  await ada.page.goto(await mail.link('/confirm/'));
  await accessible(ada.page, 'the page that confirms an address');
  await button(ada.page, 'Confirm').click();
  await ada.page.getByRole('heading', { name: 'Your address is confirmed' }).waitFor();
  await ada.page.goto('/northwind/settings/profile');
  await box(ada.page, 'Your name').waitFor();
  assert.equal(await button(ada.page, 'Send a link').count(), 0);
});

test('an admin sends invites to several addresses, and a test email', async () => {
  await ada.page.goto('/northwind/settings/members');
  await button(ada.page, 'Invite people').last().click();
  const dialog = ada.page.getByRole('dialog', { name: 'Invite people' });
  await box(dialog, 'Email addresses').fill('bo@example.com, cy@example.com');
  await accessible(ada.page, 'the dialog of invites');
  await shot(ada.page, '95-invite-by-email');
  await button(dialog, 'Send 2 invites').click();
  await dialog.getByText('2 invites are being sent.').waitFor();
  await button(dialog, 'Done').click();
  const bo = await person(team.browser, team.server.base, { theme: 'light' });
  await bo.page.goto(await mail.link('/invite/'));
  await button(bo.page, 'Join Northwind').waitFor();
  await bo.close();
  await ada.page.goto('/northwind/settings/server');
  const region = ada.page.getByRole('region', { name: 'Email' });
  await button(region, 'Send a test email').click();
  await region.getByText('The mail server accepted a test email to you').waitFor();
  await shot(ada.page, '96-server-email');
});

test('a forgotten password is set with a link', async () => {
  const other = await person(team.browser, team.server.base, { theme: 'light', viewport: PHONE });
  await other.page.goto('/login');
  await button(other.page, 'Forgot your password?').click();
  await accessible(other.page, 'the page for forgotten passwords');
  await shot(other.page, '97-forgot-phone');
  await box(other.page, 'Email').fill('ada@example.com');
  await button(other.page, 'Send link').click();
  await other.page.getByText('a link is on its way').waitFor();
  await other.page.goto(await mail.link('/reset/'));
  await other.page.getByLabel('New password').fill(NEW_PASSWORD);
  await accessible(other.page, 'the page for a new password');
  await button(other.page, 'Set password').click();
  await other.page.getByRole('heading', { name: 'Your new password is set' }).waitFor();
  await fill(other.page, PASSWORD);
  await other.page.getByText('email address or password is wrong').waitFor();
  await fill(other.page, NEW_PASSWORD);
  await isIn(other.page);
  await other.close();
});

test('a sign-in that a provider refused comes back to the form, with the reason', async () => {
  const other = await person(team.browser, team.server.base, { viewport: PHONE });
  await other.page.goto('/sign-in?error=refused&provider=idp_1&detail=access_denied');
  await other.page.getByRole('alert').getByText('did not sign you in').waitFor();
  await box(other.page, 'Email').waitFor();
  await accessible(other.page, 'a sign-in that was refused');
  await other.page.goto('/sign-in?password');
  await box(other.page, 'Password').waitFor();
  await other.page.goto('/sign-in');
  await other.page.getByText('This link is not complete.').waitFor();
  await other.close();
});

test('an app is set up on screen, asked for after the password, and replaced by a recovery code', async () => {
  await fill(ada.page, NEW_PASSWORD);
  await isIn(ada.page);
  const ways = await openWays(ada.page);
  assert.equal(await ways.getByText('Recovery codes').count(), 0);
  await button(ways, 'Set up an app').click();
  const setup = dialog(ada.page, 'Set up an authenticator app');
  await accessible(ada.page, 'the dialog that sets up an app');
  await shot(ada.page, '100-app-setup');
  const secret = (await setup.locator('code').innerText()).replaceAll(' ', '');
  await box(setup, 'Code from your app').fill('000000');
  await button(setup, 'Turn on').click();
  await setup.getByRole('alert').waitFor();
  await box(setup, 'Code from your app').fill(codeOf(secret));
  await button(setup, 'Turn on').click();
  const made = dialog(ada.page, 'Your recovery codes');
  await made.getByRole('listitem').first().waitFor();
  codes = await made.getByRole('listitem').allInnerTexts();
  assert.equal(codes.length, 10);
  await accessible(ada.page, 'the dialog of recovery codes');
  await shot(ada.page, '101-recovery-codes');
  await button(made, 'Done').click();
  await ways.getByText('10 of 10 left').waitFor();
  await accessible(ada.page, 'the ways to sign in');
  await shot(ada.page, '102-ways-to-sign-in');
  const other = await person(team.browser, team.server.base, { viewport: PHONE });
  await fill(other.page, NEW_PASSWORD);
  const field = box(other.page, 'Code from your app');
  await field.fill('000000');
  await accessible(other.page, 'the second step of signing in');
  await shot(other.page, '98-second-step-phone');
  await button(other.page, 'Sign in').click();
  await other.page.getByRole('alert').waitFor();
  await field.fill(codeOf(secret, 1));
  await button(other.page, 'Sign in').click();
  await isIn(other.page);
  await other.close();
  const third = await person(team.browser, team.server.base, { theme: 'light' });
  await fill(third.page, NEW_PASSWORD);
  await button(third.page, 'Use a recovery code').click();
  await box(third.page, 'Recovery code').fill(codes[0]);
  await shot(third.page, '99-recovery-code');
  await button(third.page, 'Sign in').click();
  await isIn(third.page);
  await (await openWays(third.page)).getByText('9 of 10 left').waitFor();
  await third.close();
});

test('a passkey is added, signs in alone, and is removed with the last codes', async () => {
  const { page } = own;
  await fill(page, NEW_PASSWORD);
  await button(page, 'Use a recovery code').click();
  await box(page, 'Recovery code').fill(codes[1]);
  await button(page, 'Sign in').click();
  await isIn(page);
  await addAuthenticator(page);
  const ways = await openWays(page);
  await button(page, 'Add a passkey').click();
  await ways.getByText('Passkey · added').waitFor();
  await ways.getByText('never used').waitFor();
  await button(page, 'Add a passkey').click();
  await page.getByText('This device has a passkey for your account already.').waitFor();
  await ways.getByRole('button', { name: /^Rename/ }).click();
  const naming = dialog(page, 'Rename the passkey');
  await box(naming, 'Name').fill('Laptop');
  await button(naming, 'Save').click();
  await button(ways, 'Rename Laptop').waitFor();
  await page.context().clearCookies();
  await page.goto('/login');
  assert.equal(await box(page, 'Email').getAttribute('autocomplete'), 'username webauthn');
  // The authenticator may answer the offer among the saved accounts by itself.
  await Promise.any([button(page, 'Sign in with a passkey').click(), isIn(page)]);
  await isIn(page);
  await openWays(page);
  await button(ways, 'Remove the app').click();
  await button(dialog(page, 'Remove the authenticator app?'), 'Remove').click();
  await button(ways, 'Set up an app').waitFor();
  await page.setViewportSize(PHONE);
  await shot(page, '103-ways-to-sign-in-phone');
  await button(ways, 'Remove Laptop').click();
  const removing = dialog(page, 'Remove “Laptop”?');
  await removing.getByText('This is your last second factor').waitFor();
  await button(removing, 'Remove').click();
  await ways.getByText('Recovery codes').waitFor({ state: 'detached' });
});

test('an invited person begins with a passkey instead of a password', async () => {
  const invited = await person(team.browser, named, { theme: 'light', viewport: PHONE });
  const { page } = invited;
  await addAuthenticator(page);
  await page.goto(await mail.link('/invite/'));
  await box(page, 'Your name').fill('Bo');
  await button(page, 'Join with a passkey').click();
  const made = dialog(page, 'Your recovery codes');
  await made.getByRole('listitem').first().waitFor();
  await accessible(page, 'the recovery codes of a new account');
  await shot(page, '105-joined-with-passkey-phone');
  await button(made, 'Done').click();
  await isIn(page);
  await (await openWays(page)).getByText('10 of 10 left').waitFor();
  await invited.close();
});

test('a change needs a confirmation ten minutes after signing in', async () => {
  const { page } = own;
  await page.setViewportSize(WIDE);
  team.server.sql(ELEVEN_MINUTES_LATER);
  const ways = await openWays(page);
  await button(ways, 'Set up an app').click();
  const asked = dialog(page, 'Confirm it is you');
  await accessible(page, 'the dialog that confirms an identity');
  await shot(page, '104-confirm-identity');
  await asked.getByLabel('Password').fill('not my password');
  await button(asked, 'Confirm').click();
  await asked.getByRole('alert').waitFor();
  await asked.getByLabel('Password').fill(NEW_PASSWORD);
  await button(asked, 'Confirm').click();
  await dialog(page, 'Set up an authenticator app').waitFor();
});

test('so does an invite for an admin', async () => {
  const { page } = own;
  team.server.sql(ELEVEN_MINUTES_LATER);
  await page.goto('/northwind/settings/members');
  await button(page.getByRole('main'), 'Invite people').click();
  const invite = dialog(page, 'Invite people');
  await invite.getByLabel('They join as').selectOption('admin');
  await button(invite, 'Create invite link').click();
  const asked = dialog(page, 'Confirm it is you');
  await asked.getByLabel('Password').fill(NEW_PASSWORD);
  await button(asked, 'Confirm').click();
  await box(invite, 'Invite link').waitFor();
});
