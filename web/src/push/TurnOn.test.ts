// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { PushStatus } from '../api/push';
import { device } from '../lib/storage';
import { Screen } from '../test/screen';
import { reasonsOf } from './browser';
import TurnOn from './TurnOn.svelte';

const screen = new Screen();
const status: PushStatus = {
  available: true,
  reason: null,
  public_key: 'key',
  subject_ok: true,
  devices: [],
  recent: [],
  answers: [],
  mail_problem: null,
};
const DECLINED = 'openvibe.push.declined';
const requested = vi.fn(() => Promise.resolve('denied'));
const browser = (permission: NotificationPermission) => {
  vi.stubGlobal('Notification', { permission, requestPermission: requested });
  vi.stubGlobal('PushManager', class {});
  Object.defineProperty(navigator, 'serviceWorker', { configurable: true, value: {} });
};
const iPhone = () => vi.spyOn(navigator, 'userAgent', 'get').mockReturnValue('Mozilla/5.0 (iPhone)');
beforeEach(() => {
  requested.mockClear();
  device.remove(DECLINED);
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
  Reflect.deleteProperty(navigator, 'serviceWorker');
});

test('the row asks nothing by itself, and "Not now" hides it', async () => {
  browser('default');
  screen.show(TurnOn, {});
  page.getByRole('region', { name: 'Notifications' });
  page.getByRole('button', { name: 'Turn on notifications' });
  expect(requested).not.toHaveBeenCalled();
  await fireEvent.click(page.getByRole('button', { name: 'Not now' }));
  expect(page.queryByRole('region', { name: 'Notifications' })).toBeNull();
  expect(device.get(DECLINED)).not.toBeNull();
});
test('in a tab on an iPhone, the row says what comes first', () => {
  iPhone();
  screen.show(TurnOn, {});
  page.getByText('Add OpenVibe to your Home Screen first: Share, then Add to Home Screen.');
  expect(page.queryByRole('button', { name: 'Turn on notifications' })).toBeNull();
  expect(reasonsOf(status)).toContain(
    'Add OpenVibe to your Home Screen first: Share, then Add to Home Screen.',
  );
});
test('a browser that blocks notifications is named', () => {
  browser('denied');
  expect(reasonsOf(status)).toEqual([
    'Your browser blocks notifications for this site. Allow them in its settings.',
  ]);
});
