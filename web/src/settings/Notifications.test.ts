// @vitest-environment happy-dom
import { fireEvent, screen as page, within } from '@testing-library/svelte';
import { beforeEach, expect, test } from 'vitest';
import type { NotificationSettings, PushStatus } from '../api/push';
import { AT } from '../test/make';
import { Screen } from '../test/screen';
import { StoredPolicy, VersionedObject } from '../test/versioned';
import Notifications from './Notifications.svelte';

class Fixed extends VersionedObject {
  readonly bodies: object[] = [];
  #value: object;
  constructor(value: object) {
    super();
    this.#value = value;
  }
  protected current(): object {
    return { ...this.#value, version: this.version };
  }
  protected change(body: Record<string, unknown>): void {
    this.bodies.push(body);
    this.#value = body;
  }
}
const screen = new Screen();
const SETTINGS: Omit<NotificationSettings, 'version'> = {
  push: true,
  preview: 'full',
  quiet: null,
  paused_until: null,
  timezone: 'UTC',
  mail: 'off',
};
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
let settings: Fixed;
const show = (of: Partial<PushStatus>) => {
  screen.scene.backend.objects.set('/v1/push', new Fixed({ ...status, ...of }));
  screen.show(Notifications, {});
};
beforeEach(() => {
  settings = new Fixed(SETTINGS);
  screen.scene.backend.objects.set('/v1/notification-settings', settings);
  screen.scene.backend.objects.set('/v1/workspaces/ws_1/policy', new StoredPolicy());
});

test('a choice is stored with the time zone of the browser, and the rest stays', async () => {
  show({});
  const email = within(await page.findByRole('group', { name: 'Email' }));
  await fireEvent.click(email.getByRole('button', { name: 'Missed' }));
  const { timeZone: timezone } = Intl.DateTimeFormat().resolvedOptions();
  await expect.poll(() => settings.bodies).toEqual([{ ...SETTINGS, timezone, mail: 'missed' }]);
  expect(settings.matched).toEqual(['"0"']);
  const pause = within(page.getByRole('group', { name: 'Pause' }));
  expect(pause.getAllByRole('button').map((b) => b.textContent)).toEqual(['1 hour', 'Until tomorrow']);
});
test('devices, the last deliveries, and refusals are shown', async () => {
  show({
    devices: [
      {
        id: 'device_a',
        endpoint: 'https://push/a',
        label: 'Safari on iPhone',
        created_at: AT,
        is_current: false,
        refused_until: null,
      },
    ],
    recent: [
      {
        at: AT,
        reason: 'mention',
        device_id: 'device_a',
        state: 'refused',
        status: 403,
        answer: 'Apple refused this (403 BadJwtToken)',
      },
    ],
    answers: [{ service: 'Apple', status: 403, count: 2 }],
    mail_problem: '550 5.1.1 no such mailbox',
  });
  const devices = within(await page.findByRole('table', { name: 'Devices' }));
  devices.getByRole('button', { name: 'Send a test to Safari on iPhone' });
  devices.getByRole('button', { name: 'Remove Safari on iPhone' });
  const last = within(page.getByRole('table', { name: 'Last deliveries' }));
  last.getByText('refused · Apple refused this (403 BadJwtToken)');
  within(page.getByRole('table', { name: 'Answers of push services' })).getByText('Apple');
  await page.findByText('Your mail server refused our message: 550 5.1.1 no such mailbox');
  page.getByText('Apple refused this (403 BadJwtToken).');
});
test('“Why don’t I get notifications?” names what the server lacks and what the user has set', async () => {
  settings = new Fixed({ ...SETTINGS, push: false, paused_until: '2999-01-01T00:00:00.000Z' });
  screen.scene.backend.objects.set('/v1/notification-settings', settings);
  show({ available: false, reason: 'secret_key_missing', public_key: null, subject_ok: false });
  await page.findByText('Why don’t I get notifications?');
  for (const line of [
    'Push is off.',
    'They are paused.',
    'The server has no secret key: an operator has to set OPENVIBE_SECRET_KEY.',
    'iPhones and Macs will refuse notifications from this server.',
  ])
    await page.findByText(line);
});
