// Second factors, and what emails make possible: confirmed addresses, forgotten passwords, and sent invites.
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { after, test } from 'node:test';
import { accessible, box, button, PASSWORD, person, PHONE, shot } from './lib/browser.mjs';
import { Mail } from './lib/mail.mjs';
import { startTeam } from './lib/team.mjs';

const STEP_MS = 30_000;
const NEW_PASSWORD = 'another long enough phrase';
const mail = await new Mail().start();
after(() => mail.close());
const team = await startTeam({ env: { OPENVIBE_SMTP_URL: mail.url }, bo: null });
const { ada } = team;

/** Code of an authenticator app (RFC 6238), `ahead` steps from now. */
function codeOf(secret, ahead = 0) {
  const bits = [...secret].map((c) =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0'),
  );
  const bytes = bits
    .join('')
    .match(/.{8}/g)
    .map((byte) => Number.parseInt(byte, 2));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / STEP_MS) + ahead));
  const digest = createHmac('sha1', Buffer.from(bytes)).update(counter).digest();
  const at = digest.at(-1) & 15;
  return String((digest.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0');
}
/** Sends a request with the session of a window. */
const send = (page, path, body) =>
  page.evaluate(
    async ([path, body]) => {
      const headers = { 'content-type': 'application/json' };
      const response = await fetch(path, { method: 'POST', headers, body: JSON.stringify(body ?? {}) });
      if (!response.ok) throw new Error(await response.text());
      return response.status === 204 ? null : response.json().catch(() => null);
    },
    [path, body],
  );
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

test('a second factor is asked for after the password, and a recovery code replaces it', async () => {
  await fill(ada.page, NEW_PASSWORD);
  await isIn(ada.page);
  const { secret } = await send(ada.page, '/v1/auth/totp');
  const { recovery_codes: codes } = await send(ada.page, '/v1/auth/totp/confirm', { code: codeOf(secret) });
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
  await third.close();
});
