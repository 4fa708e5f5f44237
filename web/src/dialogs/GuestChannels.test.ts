// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { isFor, pageOf, type SettingsPage } from '../settings/pages';
import { myChannel } from '../test/make';
import { Screen } from '../test/screen';
import GuestChannels from './GuestChannels.svelte';
import { endOf } from './guest-end';

const screen = new Screen();

test('channels of a guest are chosen from those that the admin sees', async () => {
  screen.ws.channels.put(myChannel({ id: 'chan_2', name: 'plans', is_member: false }));
  const seen: string[][] = [];
  screen.show(GuestChannels, { chosen: ['chan_1'], onchange: (chosen: string[]) => void seen.push(chosen) });
  expect(page.getAllByRole('checkbox')).toHaveLength(2);
  await fireEvent.click(page.getByRole('checkbox', { name: '#plans' }));
  await fireEvent.click(page.getByRole('checkbox', { name: '#general' }));
  expect(seen).toEqual([['chan_1', 'chan_2'], []]);
});
test('guests have only the settings whose routes accept them', () => {
  const { people } = screen.ws;
  const has = (key: SettingsPage) => isFor(pageOf(key)!, screen.ws);
  expect(has('agents')).toBe(true);
  people.me = { ...people.me, role: 'guest' };
  expect([has('agents'), has('costs'), has('sign-in')]).toEqual([false, false, true]);
});
test('the end of a guest is a time after that many days, or none', () => {
  const now = Date.parse('2026-11-29T12:00:00Z');
  expect([endOf('', now), endOf('30', now)]).toEqual([null, '2026-12-29T12:00:00.000Z']);
});
