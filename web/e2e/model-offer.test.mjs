// The offer to connect a model, on the first screen of a new workspace.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  accessible,
  box,
  button,
  fits,
  inviteLink,
  joinBy,
  launch,
  message,
  person,
  PHONE,
  setUp,
  shot,
  startThread,
  WIDE,
} from './lib/browser.mjs';
import { Model } from './lib/model.mjs';
import { Server } from './lib/server.mjs';

const model = await new Model().start();
const browser = await launch();
const servers = [];
after(async () => {
  await browser.close();
  for (const server of servers) await server.close();
  await model.close();
});

/** The first person of a new server, right after signing up. */
async function founder(env = {}) {
  const server = new Server(env);
  servers.push(server);
  await server.start();
  const ada = await person(browser, server.base);
  await setUp(ada.page);
  return { server, ada };
}
const offer = (p) => p.page.getByRole('region', { name: 'Connect a model' });
const dialog = (p) => p.page.getByRole('dialog', { name: 'Connect a model' });

/** Checks accessibility and takes screenshots, in both themes and at both widths. */
async function inspect(page, name) {
  for (const [width, viewport] of [
    ['390', PHONE],
    ['wide', WIDE],
  ]) {
    await page.setViewportSize(viewport);
    await accessible(page, `${name}, ${width}`);
    for (const theme of ['light', 'dark']) {
      await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
      await shot(page, `model-offer-${name}-${width}-${theme}`);
    }
    if (width === '390') {
      await page.setViewportSize({ width: 320, height: 700 });
      await fits(page, `${name} at 320 px`);
    }
  }
}

test('the first admin connects a model from the empty channel, and agents use it at once', async () => {
  const { ada } = await founder();
  await offer(ada).getByText('agents only quote messages').waitFor();
  await inspect(ada.page, 'card');
  await offer(ada).getByRole('button', { name: 'Connect a model' }).click();
  await ada.page.waitForFunction(() => document.activeElement?.id === 'model-provider');
  await inspect(ada.page, 'dialog');
  await ada.page.keyboard.press('Escape');
  await dialog(ada).waitFor({ state: 'detached' });
  await offer(ada).getByRole('button', { name: 'Connect a model' }).click();
  await box(ada.page, 'Address').fill('http://127.0.0.1:9/v1');
  await button(ada.page, 'Test and save').click();
  await dialog(ada).getByText('could not reach 127.0.0.1:9').waitFor();
  await box(ada.page, 'Address').fill(model.base);
  await ada.page.getByLabel('API key').fill('sk-flamingo-8c1f');
  await button(ada.page, 'Test and save').click();
  await dialog(ada).waitFor({ state: 'detached' });
  await offer(ada).waitFor({ state: 'detached' });
  await ada.page.waitForFunction(() => document.activeElement?.matches('main textarea[data-composer]'));
  await startThread(ada.page, '@vibe Friday or Monday?');
  await message(ada.page, 'Monday: two quiet days').waitFor();
  assert.deepEqual(ada.errors, []);
});

test('the offer is for admins only, and does not return after Skip', async () => {
  const { server, ada } = await founder();
  await offer(ada).waitFor();
  const bo = await person(browser, server.base);
  await joinBy(bo.page, await inviteLink(ada.page));
  await bo.page.getByText('Nothing here yet').waitFor();
  assert.equal(await offer(bo).count(), 0);
  await offer(ada).getByRole('button', { name: 'Skip' }).click();
  await offer(ada).waitFor({ state: 'detached' });
  await ada.page.waitForFunction(() => document.activeElement?.matches('main textarea[data-composer]'));
  for (const channel of ['general', 'random']) {
    await ada.page.goto(`/northwind/c/${channel}`);
    await ada.page.getByText('Nothing here yet').waitFor();
    assert.equal(await offer(ada).count(), 0, channel);
  }
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});

test('there is no offer if environment variables set the model', async () => {
  const { ada } = await founder({ OPENVIBE_MODEL_BASE_URL: model.base, OPENVIBE_MODEL: 'scripted-1' });
  await ada.page.getByText('Nothing here yet').waitFor();
  await ada.page.waitForLoadState('networkidle');
  assert.equal(await offer(ada).count(), 0);
});
