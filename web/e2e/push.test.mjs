// Notifications: the service worker shows push messages, and the settings explain what is missing.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { accessible, button, PHONE, shot, WIDE } from './lib/browser.mjs';
import { until } from './lib/copy.mjs';
import { inspect } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const { server, ada, bo } = await startTeam({
  ada: { serviceWorkers: 'allow' },
  env: { OPENVIBE_PUSH_ALLOW: '127.0.0.1:9' },
});
let deliver;

before(async () => {
  await ada.context.grantPermissions(['notifications'], { origin: server.base });
  await ada.page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  const cdp = await ada.context.newCDPSession(ada.page);
  const registration = new Promise((resolve) => {
    cdp.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
      const own = registrations.find((r) => r.scopeURL.startsWith(server.base));
      if (own) resolve(own.registrationId);
    });
  });
  await cdp.send('ServiceWorker.enable');
  const registrationId = await registration;
  deliver = (data) =>
    cdp.send('ServiceWorker.deliverPushMessage', { origin: server.base, registrationId, data });
});

/** Notifications with the tag, once there is one whose body `fits`. */
const shown = async (tag, fits = () => true) => {
  let all;
  await until(async () => {
    all = await ada.page.evaluate(async (tag) => {
      const registration = await navigator.serviceWorker.getRegistration();
      const found = await registration.getNotifications({ tag });
      return found.map(({ title, body, silent, data }) => ({ title, body, silent, data }));
    }, tag);
    return all.some((found) => fits(found.body));
  });
  return all;
};

test('a push message shows a notification, silent while a window is visible', async () => {
  const push = {
    v: 1,
    item: 'inbox_1',
    tag: 'aa',
    title: 'Bo in #ops',
    body: 'Hi',
    url: '/northwind/inbox',
    badge: 1,
  };
  await deliver(JSON.stringify(push));
  const first = {
    title: 'Bo in #ops',
    body: 'Hi',
    silent: true,
    data: { url: '/northwind/inbox', item: 'inbox_1' },
  };
  assert.deepEqual(await shown('aa'), [first]);
  // One of the same conversation replaces it.
  await deliver(JSON.stringify({ ...push, body: 'Are you there?' }));
  const second = { ...first, body: 'Are you there?' };
  assert.deepEqual(await shown('aa', (body) => body === second.body), [second]);
  await deliver('not JSON');
  assert.deepEqual(
    (await shown('openvibe')).map((found) => found.title),
    ['New message'],
  );
});

test('“Done” in a notification closes its item', async () => {
  const { channelId, member } = await known(bo);
  const content = `@${member('Ada Lindholm').handle} can you come?`;
  await api(bo, 'POST', `channels/${channelId('general')}/threads`, { content });
  const { data } = await api(ada, 'GET', 'inbox');
  const push = {
    v: 1,
    item: data[0].id,
    tag: 'bb',
    title: 'Bo',
    body: 'x',
    url: '/northwind/inbox',
    badge: 1,
  };
  await deliver(JSON.stringify(push));
  await shown('bb');
  const [worker] = ada.context.serviceWorkers();
  await worker.evaluate(async () => {
    const [notification] = await self.registration.getNotifications({ tag: 'bb' });
    self.dispatchEvent(new NotificationEvent('notificationclick', { notification, action: 'done' }));
  });
  await until(async () => (await api(ada, 'GET', 'inbox')).open === 0);
  assert.equal((await api(ada, 'GET', 'inbox?state=done')).data[0].id, data[0].id);
});

test('a push message sets the badge of the app', async () => {
  const [worker] = ada.context.serviceWorkers();
  await worker.evaluate(() => {
    self.badges = [];
    self.navigator.setAppBadge = async (count) => void self.badges.push(count);
  });
  const push = { v: 1, item: null, tag: 'cc', title: 'Bo', body: '', url: '/northwind/inbox', badge: 7 };
  await deliver(JSON.stringify(push));
  await until(async () => (await worker.evaluate(() => self.badges)).includes(7));
});

test('the settings are stored at once, and say why there are no notifications', async () => {
  const { page } = ada;
  await page.goto('/northwind/settings/notifications');
  const preview = page.getByRole('group', { name: 'Preview' });
  await preview.getByRole('button', { name: 'Sender' }).click();
  await preview.getByRole('button', { name: 'Sender', pressed: true }).waitFor();
  await page.getByRole('switch', { name: 'Quiet hours' }).click();
  await page.getByRole('group', { name: 'Quiet hours' }).getByRole('button', { name: 'sun' }).click();
  await button(page, '1 hour').click();
  await button(page, 'Resume').waitFor();
  const stored = await api(ada, 'GET', 'notification-settings');
  assert.equal(stored.preview, 'sender');
  assert.deepEqual(stored.quiet, {
    from: '22:00',
    to: '07:00',
    days: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat'],
  });
  assert.ok(Date.parse(stored.paused_until) > Date.now());
  await page.getByText('Why don’t I get notifications?').click();
  await page.getByText('This browser is not among your devices.').waitFor();
  await page.getByText('They are paused.').waitFor();
  await page.getByText('iPhones and Macs will refuse notifications from this server.').waitFor();
  await accessible(page, 'the notification settings');
  await shot(page, '140-notifications');
  await page.setViewportSize(PHONE);
  await accessible(page, 'the notification settings at 390 px');
});

test('an admin limits previews, and people read what the workspace shows', async () => {
  const { page } = ada;
  await page.setViewportSize(WIDE);
  await page.goto('/northwind/settings/notifications');
  const preview = page.getByRole('group', { name: 'Preview', exact: true });
  await preview.getByRole('button', { name: 'Full' }).click();
  await preview.getByRole('button', { name: 'Full', pressed: true }).waitFor();
  await button(page, 'Limit for everyone').click();
  const limits = page.getByRole('dialog', { name: 'Previews in Northwind' });
  const group = limits.getByRole('group', { name: 'Private conversations', exact: true });
  await group.getByRole('button', { name: 'Sender' }).click();
  await group.getByRole('button', { name: 'Sender', pressed: true }).waitFor();
  await inspect(ada, 'preview-limits');
  await button(limits, 'Done').click();
  await page.getByText('In private conversations, Northwind shows only the sender.').waitFor();
  await inspect(ada, 'preview-limited');
  const { id } = (await api(ada, 'GET', 'snapshot')).workspace;
  const policy = await api(ada, 'GET', `workspaces/${id}/policy`);
  assert.deepEqual(policy.preview_max, { public: 'full', private: 'sender', private_mail: 'sender' });
});

test('a subscription that the browser lost is back after one start', async () => {
  const { page } = ada;
  // Chromium cannot subscribe without the service of its vendor.
  await ada.context.addInitScript(() => {
    const KEY = 'test.subscription';
    const bytes = (text) =>
      Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0)).buffer;
    const own = () => {
      const stored = localStorage.getItem(KEY);
      if (!stored) return null;
      const { endpoint, key } = JSON.parse(stored);
      const keys = {
        p256dh: 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4',
        auth: 'BTBZMqHH6r4Tts7J_aSIgg',
      };
      return {
        endpoint,
        options: { applicationServerKey: bytes(key) },
        toJSON: () => ({ endpoint, keys }),
        unsubscribe: async () => {
          localStorage.removeItem(KEY);
          return true;
        },
      };
    };
    PushManager.prototype.getSubscription = async () => own();
    PushManager.prototype.subscribe = async ({ applicationServerKey: key }) => {
      const endpoint = `http://127.0.0.1:9/${crypto.randomUUID()}`;
      localStorage.setItem(KEY, JSON.stringify({ endpoint, key }));
      return own();
    };
  });
  const devices = async () => (await api(ada, 'GET', 'push')).devices.map((device) => device.endpoint);
  await page.goto('/northwind/settings/notifications');
  await button(page, 'Turn on notifications').click();
  await page.getByRole('table', { name: 'Devices' }).waitFor();
  const [first, ...others] = await devices();
  assert.deepEqual(others, []);
  await page.reload();
  await page.getByRole('table', { name: 'Devices' }).waitFor();
  await page.waitForLoadState('networkidle');
  assert.deepEqual(await devices(), [first], 'a subscription that works is kept');
  await page.evaluate(() => localStorage.removeItem('test.subscription'));
  await page.reload();
  await until(async () => {
    const [now, ...rest] = await devices();
    return now && now !== first && rest.length === 0;
  });
});
