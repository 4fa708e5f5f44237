// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { ApiError } from '../api/problem';
import { provider } from '../test/make-server';
import { Screen } from '../test/screen';
import {
  changesOf,
  choicesWith,
  durationText,
  latestDay,
  missingText,
  refusalText,
  upcomingText,
  type SignInRules,
} from './sign-in-rules';
import Rules from './SignInRules.svelte';

const screen = new Screen();
const rules = (x: Partial<SignInRules> = {}): SignInRules => ({
  ...{ second_factor: 'off', from: null, providers: null, idle_s: 2_592_000, age_s: 15_552_000 },
  ...x,
});
const factors = { app: false, passkeys: 0, recovery_codes: 0 };
const sent = () => screen.scene.backend.bodies.filter((body) => JSON.stringify(body).includes('sign_in'));

async function open(): Promise<HTMLButtonElement> {
  screen.show(Rules, { onclose: () => undefined });
  return page.findByRole<HTMLButtonElement>('button', { name: 'Save' });
}

test('the count of people without a second factor is text, unless everyone has one', () => {
  const of = (without_factor: number, people = 40) => missingText({ people, without_factor });
  expect(of(3)).toBe('3 of 40 people have no second factor yet');
  expect(of(1)).toBe('1 of 40 people has no second factor yet');
  expect(of(0)).toBeNull();
});

test('times are words, and a time that is not a choice is kept', () => {
  expect([900, 3600, 28_800, 86_400, 2_592_000].map(durationText)).toEqual([
    '15 minutes',
    '1 hour',
    '8 hours',
    '1 day',
    '30 days',
  ]);
  expect(choicesWith([1, 3], 2)).toEqual([1, 2, 3]);
  expect(latestDay(new Date('2026-11-28T23:00:00Z'))).toBe('2026-12-28');
});
test('only what was touched is sent', () => {
  const before = rules({ providers: ['idp_1'] });
  expect(changesOf(before, rules({ providers: ['idp_1'], idle_s: 900 }))).toEqual({ idle_s: 900 });
  expect(changesOf(before, rules())).toEqual({ providers: null });
});
test('a refusal names the way to meet the rules', () => {
  const e = new ApiError(409, { error: { code: 'would_lock_you_out', message: 'no' } }, '');
  const required = rules({ second_factor: 'required' });
  const text = (wanted: SignInRules, has = factors) =>
    refusalText(e, { wanted, providers: ['Corp', 'Lab'], factors: has }).replace(/^.*changed\. /, '');
  expect(text(rules({ providers: ['idp_1', 'idp_2'] }))).toBe('Sign in with Corp or Lab first.');
  expect(text(required)).toBe('Set up a second factor in Settings › Sign-in and keys first.');
  expect(text(required, { ...factors, app: true })).toBe('Sign in again with your second factor first.');
  expect(text(rules({ age_s: 3600 }))).toBe('Sign in again first.');
  const other = new ApiError(422, { error: { message: 'the day is too late' } }, '');
  expect(refusalText(other, { wanted: required, providers: [], factors })).toBe('The day is too late');
});
test('a second factor is announced until it is required', () => {
  const soon = rules({ second_factor: 'required', from: '2026-12-03' });
  const at = (day: string) => upcomingText(soon, 'Acme', new Date(`${day}T12:00:00Z`));
  expect(at('2026-12-02')).toBe('Acme will require a second factor from December 3. Set it up.');
  expect(at('2026-12-03')).toBe('');
  expect(upcomingText(rules({ from: '2026-12-03' }), 'Acme', new Date('2026-12-01'))).toBe('');
});
test('a second factor, providers, and times are stored together', async () => {
  screen.scene.backend.providers = [provider({ enabled: true })];
  const save = await open();
  expect(save.disabled).toBe(true);
  await fireEvent.click(page.getByRole('switch', { name: 'Require a second factor' }));
  await fireEvent.input(page.getByLabelText('From'), { target: { value: '2026-12-03' } });
  await fireEvent.click(page.getByRole('checkbox', { name: 'Corp' }));
  await fireEvent.change(page.getByLabelText('Sign in again if not used for'), {
    target: { value: '28800' },
  });
  await fireEvent.click(save);
  await expect
    .poll(sent)
    .toEqual([
      { sign_in: { second_factor: 'required', from: '2026-12-03', providers: ['idp_1'], idle_s: 28_800 } },
    ]);
});
test('no provider is sent as null, and without a second factor there is no day', async () => {
  const { backend } = screen.scene;
  backend.signIn = rules({ second_factor: 'required', from: '2026-12-03', providers: ['idp_9'] });
  const save = await open();
  await fireEvent.click(page.getByRole('checkbox', { name: 'A provider that is off' }));
  await fireEvent.click(page.getByRole('switch', { name: 'Require a second factor' }));
  await fireEvent.click(save);
  await expect.poll(sent).toEqual([{ sign_in: { second_factor: 'off', from: null, providers: null } }]);
});
test('a refusal is shown in the dialog, which keeps its fields', async () => {
  const { backend } = screen.scene;
  const save = await open();
  backend.refuse = /PATCH/;
  backend.failure = { code: 'would_lock_you_out', message: 'no' };
  await fireEvent.click(page.getByRole('switch', { name: 'Require a second factor' }));
  await fireEvent.click(save);
  const alert = await page.findByRole('alert');
  expect(alert.textContent).toContain('These rules would lock you out, so nothing has changed.');
  expect(page.getByRole<HTMLInputElement>('switch').checked).toBe(true);
});
