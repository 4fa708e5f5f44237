// The example in #general of a new workspace, without a model.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { accessible, box, button, fits, launch, message, person, setUp } from './lib/browser.mjs';
import { composer, messageList, threadRow } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';

const server = new Server({ OPENVIBE_EXAMPLE: 'on' });
const browser = await launch();
after(async () => {
  await browser.close();
  await server.close();
});
await server.start();
const ada = await person(browser, server.base);
await setUp(ada.page);
const { page } = ada;

test('the first screen shows the example and the offer to connect a model', async () => {
  await threadRow(ada, 'The new price list').waitFor();
  await page.getByRole('heading', { name: 'Try the example' }).waitFor();
  await page.getByRole('region', { name: 'Connect a model' }).waitFor();
  await accessible(page, 'a new channel with the example');
});

test('the thread is summed up, resolved, and searched without a model', async () => {
  await threadRow(ada, 'The new price list').getByRole('link').first().click();
  await composer(ada).waitFor();
  await message(page, 'Should we print it?').getByText('Example', { exact: true }).waitFor();
  await button(page, 'Sum up this thread').click();
  const sum = page.getByRole('region', { name: 'Catch-up', exact: true });
  await sum.getByRole('heading', { name: 'Decided' }).waitFor();
  await sum.getByText('Agreed, we publish the price list on the website only.').waitFor();
  await accessible(page, 'the example with its catch-up');
  await button(page, 'Sum up this thread').click();
  await button(page, 'What did we decide?').click();
  await messageList(ada)
    .getByText('Nora: “Agreed, we publish the price list on the website only.”')
    .waitFor();
  await button(page, 'Resolve the deep dive').click();
  const headline = box(page, 'Headline');
  await headline.waitFor();
  assert.match(await headline.inputValue(), /^Let's keep the old prices/);
  await page.setViewportSize({ width: 320, height: 700 });
  await fits(page, 'the example at 320 px');
});

test('an admin removes the example', async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.goto('/northwind/c/general');
  await threadRow(ada, 'The new price list').getByRole('link').first().click();
  await button(page, 'Remove the example').click();
  await page.getByRole('heading', { name: 'Nothing here yet' }).waitFor();
});
