import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  accessible,
  box,
  button,
  fits,
  launch,
  message,
  person,
  PHONE,
  setUp,
  shot,
  startThread,
} from './lib/browser.mjs';
import { Model } from './lib/model.mjs';
import { Server } from './lib/server.mjs';
import { startTeam } from './lib/team.mjs';

const KEY = 'sk-flamingo-8c1f';
const { ada, bo } = await startTeam({ bo: { theme: 'light' } });
const model = await new Model().start();
after(() => model.close());
const main = ada.page.locator('main');
const status = main.getByRole('region', { name: 'Status of the model' });
const open = async (p = ada) => {
  await p.page.goto('/northwind/settings/model');
  await p.page.locator('main').getByRole('heading', { name: 'Model', exact: true }).waitFor();
};
const WIDE = { width: 1440, height: 900 };

/** Checks accessibility and takes screenshots, in both themes and at both widths. */
async function inspect(name, page = ada.page) {
  for (const [width, viewport] of [
    ['wide', WIDE],
    ['390', PHONE],
  ]) {
    await page.mouse.move(0, 0);
    await page.setViewportSize(viewport);
    await accessible(page, `${name}, ${width}`);
    for (const theme of ['dark', 'light']) {
      await page.evaluate((t) => (document.documentElement.dataset.theme = t), theme);
      await shot(page, `model-${name}-${width}-${theme}`);
    }
    await page.setViewportSize({ width: 320, height: 700 });
    await fits(page, `${name} at 320 px`);
  }
  await page.setViewportSize(WIDE);
}

test('without a model, the page says so, and members do not see it', async () => {
  await open();
  await status.getByText('No model is connected').waitFor();
  await inspect('none');
  await bo.page.goto('/northwind/settings/model');
  await bo.page.locator('main').getByText('Only admins can see this').waitFor();
});

test('an error is shown beside its field, which gets the focus, and the typed values stay', async () => {
  await open();
  await box(ada.page, 'Address').fill('http://127.0.0.1:9/v1');
  await box(ada.page, 'Model').fill('scripted-1');
  await button(ada.page, 'Test and save').click();
  const address = box(ada.page, 'Address');
  await main.getByText('could not reach 127.0.0.1:9').waitFor();
  assert.equal(await address.getAttribute('aria-invalid'), 'true');
  await ada.page.waitForFunction(() => document.activeElement?.getAttribute('aria-invalid') === 'true');
  assert.equal(await box(ada.page, 'Model').inputValue(), 'scripted-1');
  await button(ada.page, 'Save anyway').waitFor();
  await inspect('unreachable');
  await address.fill('http://169.254.169.254/v1');
  await ada.page.keyboard.press('Enter');
  await main.getByText('is not a public address').waitFor();
  assert.equal(await button(ada.page, 'Save anyway').count(), 0);
});

test('a server is connected with the keyboard, and agents use it at once', async () => {
  await open();
  await box(ada.page, 'Address').fill(model.base);
  await ada.page.keyboard.press('Tab');
  await ada.page.keyboard.type(KEY);
  await ada.page.keyboard.press('Enter');
  await status.getByText('Connected', { exact: true }).waitFor();
  await status.getByText('scripted-1').waitFor();
  await main.getByText('A key is stored').waitFor();
  assert.equal(await ada.page.getByLabel('API key').inputValue(), '');
  assert.ok(!(await ada.page.content()).includes(KEY));
  await inspect('connected');
  await ada.page.reload();
  await status.getByText('Connected', { exact: true }).waitFor();
  assert.equal(await box(ada.page, 'Address').inputValue(), model.base);
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, '@vibe Friday or Monday?');
  await message(ada.page, 'Monday: two quiet days').waitFor();
  assert.equal(model.asked.at(-1).model, 'scripted-1');
});

test('an agent whose model is not used shows the one that replies, and why', async () => {
  await ada.page.goto('/northwind/settings/agents');
  await main.getByRole('link', { name: 'Vibe' }).first().click();
  await main.getByText('Uses scripted-1: claude-sonnet-4-5 is not available').waitFor();
});

test('a change by somebody else is not overwritten', async () => {
  await open();
  await status.getByText('Connected', { exact: true }).waitFor();
  const base = new URL(ada.page.url()).origin;
  const { data } = await (await ada.page.request.get(`${base}/v1/workspaces`)).json();
  const path = `${base}/v1/workspaces/${data[0].id}/model`;
  const changed = await ada.page.request.put(path, {
    data: { provider: 'other', base_url: model.base, model: 'scripted-1' },
    headers: { origin: base },
  });
  assert.equal(changed.status(), 200);
  await button(ada.page, 'Test and save').click();
  await main.getByText('were changed in the meantime').waitFor();
  await button(ada.page, 'Test and save').click();
  await main.getByText('were changed in the meantime').waitFor({ state: 'detached' });
});

test('disconnecting asks first, and the built-in responder replies again', async () => {
  await open();
  await button(ada.page, 'Disconnect…').click();
  const dialog = ada.page.getByRole('dialog');
  await dialog.getByText('Its settings and its key are deleted').waitFor();
  await accessible(ada.page, 'disconnecting a model server');
  await button(ada.page, 'Disconnect').click();
  await status.getByText('No model is connected').waitFor();
  assert.equal(await box(ada.page, 'Address').inputValue(), '');
});

test('a model server on a usual local port is offered', async () => {
  let local;
  for (const port of [11434, 1234, 8000, 8080, 4000, 1337]) {
    local = await new Model().start(port).catch(() => null);
    if (local) break;
  }
  assert.ok(local, 'a usual port is free');
  try {
    await open();
    const offer = main
      .getByRole('region', { name: 'Model server on this machine' })
      .filter({ hasText: local.base });
    await offer.getByText('It has scripted-1').waitFor();
    await inspect('offered');
    await offer.getByRole('button', { name: 'Use it' }).click();
    assert.equal(await box(ada.page, 'Address').inputValue(), local.base);
    await ada.page.keyboard.press('Enter');
    await status.getByText('Connected', { exact: true }).waitFor();
    assert.equal(await offer.count(), 0);
  } finally {
    await local.close();
  }
});

test('a model that environment variables set is shown and cannot be changed', async () => {
  const server = new Server({ OPENVIBE_MODEL_BASE_URL: model.base, OPENVIBE_MODEL: 'scripted-1' });
  const browser = await launch();
  try {
    await server.start();
    const eve = await person(browser, server.base);
    await setUp(eve.page);
    await open(eve);
    const page = eve.page.locator('main');
    await page.getByText('Environment variables of the server set the model').waitFor();
    await page.getByText('OPENVIBE_MODEL is set: every agent uses scripted-1.').waitFor();
    assert.equal(await button(eve.page, 'Test and save').count(), 0);
    await inspect('environment', eve.page);
    await button(eve.page, 'Test the connection').click();
    await page.getByRole('region', { name: 'Test result' }).getByText('It works').waitFor();
  } finally {
    await browser.close();
    await server.close();
  }
});
