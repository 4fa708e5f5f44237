// The setup of a new server: account, model, and first question.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, test } from 'node:test';
import { box, button, launch, message, PASSWORD, person } from './lib/browser.mjs';
import { Model } from './lib/model.mjs';
import { inspect } from './lib/parts.mjs';
import { Server } from './lib/server.mjs';

const QUESTION = '@vibe what can you do here?';
const browser = await launch();
const open = [browser];
after(async () => {
  for (const one of open.reverse()) await one.close();
});
const opened = (one) => {
  open.push(one);
  return one;
};

async function visitor(env = {}) {
  const server = await opened(new Server(env)).start();
  return { server, ada: await person(browser, server.base) };
}
const step = (p, count) => p.page.getByText(`${count} of 3`, { exact: true }).waitFor();
const named = (p, name) => p.page.getByRole('heading', { name, exact: true }).waitFor();
const bar = (p) => p.page.getByRole('region', { name: 'Set up OpenVibe' });
const composer = (p) => box(p.page, 'Start a thread in #general');
const focused = (p, label) =>
  p.page.waitForFunction((name) => document.activeElement?.getAttribute('aria-label') === name, label);
const path = (p) => new URL(p.page.url()).pathname;

async function createAccount(p) {
  await box(p.page, 'Your name').fill('Ada Lindholm');
  await box(p.page, 'Email').fill('ada@example.com');
  await p.page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await box(p.page, 'Workspace name').fill('Northwind');
  await button(p.page, 'Create workspace').click();
}
/** Visits the third step, with the question written and Send focused. */
async function tries(p) {
  await step(p, 3);
  await bar(p).getByText('Try it: send the question below.').waitFor();
  await composer(p).waitFor();
  await focused(p, 'Send');
  assert.equal(path(p), '/northwind/c/general');
  assert.equal(await composer(p).inputValue(), QUESTION);
}

test('without a model, three steps lead to a reply, and a reload keeps each of them', async () => {
  const { server, ada } = await visitor();
  await ada.page.goto('/');
  await named(ada, 'Set up OpenVibe');
  await named(ada, 'Your account');
  await step(ada, 1);
  assert.equal(path(ada), '/setup');
  assert.equal(await ada.page.title(), 'Set up OpenVibe');
  await inspect(ada, 'setup-account');
  await ada.page.reload();
  await step(ada, 1);
  await createAccount(ada);

  await named(ada, 'Connect a model');
  await step(ada, 2);
  await button(ada.page, 'Save').waitFor();
  const [save, later] = await Promise.all(
    ['Save', 'Later'].map((name) => button(ada.page, name).boundingBox()),
  );
  assert.deepEqual([save.width, save.height], [later.width, later.height]);
  await inspect(ada, 'setup-model');
  await ada.page.reload();
  await step(ada, 2);
  await ada.page.goto('/');
  await named(ada, 'Connect a model');
  await button(ada.page, 'Later').click();

  await tries(ada);
  assert.equal(await ada.page.getByRole('region', { name: 'Connect a model' }).count(), 0);
  await inspect(ada, 'setup-try');
  await ada.page.reload();
  await tries(ada);
  await ada.page.goto('/setup');
  await tries(ada);
  await ada.page.goto('/northwind/settings/profile');
  await bar(ada).getByText('Try it: send the question in #general.').waitFor();
  await bar(ada).getByRole('link', { name: 'Open #general' }).click();
  await composer(ada).waitFor();
  await button(ada.page, 'Send').click();
  await bar(ada).getByText('Vibe replied. You are ready.').waitFor();
  await message(ada.page, 'built-in responder').waitFor();
  await inspect(ada, 'setup-replied');
  await button(ada.page, 'Done').click();
  await bar(ada).waitFor({ state: 'detached' });
  await focused(ada, 'Reply, or @mention an agent');

  await ada.page.goto('/setup');
  await composer(ada).waitFor();
  assert.equal(await bar(ada).count(), 0);
  assert.equal(await composer(ada).inputValue(), '');
  assert.deepEqual(ada.errors, []);

  const bo = await person(browser, server.base);
  await bo.page.goto('/setup?setup_token=used');
  await bo.page.getByText('This server is already set up.').waitFor();
  assert.equal(path(bo), '/login');
  await inspect(bo, 'setup-done');
  await bo.close();
});

test('the reply ends the setup even if its line is not closed', async () => {
  const { ada } = await visitor();
  await ada.page.goto('/setup');
  await createAccount(ada);
  await button(ada.page, 'Later').click();
  await tries(ada);
  await ada.page.keyboard.press('Enter');
  await bar(ada).getByText('Vibe replied. You are ready.').waitFor();
  await ada.page.reload();
  await message(ada.page, 'built-in responder').waitFor();
  assert.equal(await bar(ada).count(), 0);
  assert.deepEqual(ada.errors, []);
});

test('a wrong key keeps what was typed, and a failed reply leads back to the model', async () => {
  const model = await opened(new Model()).start();
  let key = 'sk-right';
  const checked = createServer((req, res) => {
    if (req.headers.authorization !== `Bearer ${key}`) {
      res.writeHead(401, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ error: { message: 'Incorrect API key', type: 'invalid_request_error' } }));
      return;
    }
    const chunks = [];
    req.on('data', (chunk) => chunks.push(chunk));
    req.on('end', async () => {
      const { method, url } = req;
      const body = chunks.length ? Buffer.concat(chunks) : undefined;
      const answer = await fetch(model.base.replace('/v1', url), { method, body });
      res.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') });
      res.end(await answer.text());
    });
  });
  await new Promise((done) => checked.listen(0, '127.0.0.1', done));
  open.push({ close: () => checked.close() });

  const { ada } = await visitor();
  await ada.page.goto('/setup');
  await createAccount(ada);
  await named(ada, 'Connect a model');
  const address = `http://127.0.0.1:${checked.address().port}/v1`;
  await box(ada.page, 'Address').fill(address);
  await ada.page.getByLabel('API key').fill('sk-wrong');
  await button(ada.page, 'Save').click();
  await ada.page.getByRole('form', { name: 'Connection' }).getByText('rejected the credentials').waitFor();
  assert.equal(await ada.page.getByLabel('API key').getAttribute('aria-invalid'), 'true');
  assert.equal(await box(ada.page, 'Address').inputValue(), address);
  await inspect(ada, 'setup-wrong-key');
  await ada.page.getByLabel('API key').fill('sk-right');
  await button(ada.page, 'Save').click();

  await tries(ada);
  key = 'sk-renewed';
  await button(ada.page, 'Send').click();
  await bar(ada).getByText('Vibe could not reply. Check the model, then ask again.').waitFor();
  await inspect(ada, 'setup-failed');
  await ada.page.reload();
  await bar(ada).getByText('Vibe could not reply. Check the model, then ask again.').waitFor();
  await button(ada.page, 'Back to the model').click();
  await step(ada, 2);
  assert.equal(await box(ada.page, 'Address').inputValue(), address);
  await ada.page.getByLabel('API key').fill('sk-renewed');
  await button(ada.page, 'Save').click();
  await tries(ada);
  await ada.page.keyboard.press('Enter');
  await bar(ada).getByText('Vibe replied. You are ready.').waitFor();
  assert.deepEqual(ada.errors, []);
});

test('a model that environment variables set is shown, and needs no form', async () => {
  const model = await opened(new Model()).start();
  const { ada } = await visitor({
    OPENVIBE_MODEL_BASE_URL: model.base,
    OPENVIBE_MODEL: 'scripted-1',
  });
  await ada.page.goto('/setup');
  await createAccount(ada);
  await ada.page.getByText('every agent uses scripted-1').waitFor();
  assert.equal(await button(ada.page, 'Save').count(), 0);
  await inspect(ada, 'setup-environment');
  await button(ada.page, 'Continue').click();
  await tries(ada);
  await button(ada.page, 'Skip').click();
  await bar(ada).waitFor({ state: 'detached' });
  assert.equal(await composer(ada).inputValue(), '');
  await focused(ada, 'Start a thread in #general');
  assert.deepEqual(ada.errors, []);
});

test('the setup link stays valid until the account exists, and an account without a workspace continues', async () => {
  const { server, ada } = await visitor({ OPENVIBE_LISTEN: '0.0.0.0:0' });
  const link = new URL(/(http:\/\/\S+setup_token=\S+)/.exec(server.said)[1]);
  await ada.page.goto('/setup');
  await ada.page.getByText('Open the setup link that the server printed').waitFor();
  await step(ada, 1);
  await ada.page.goto('/setup?setup_token=wrong');
  await createAccount(ada);
  await ada.page.getByText('the first account of this server needs its setup link').waitFor();
  assert.equal(await box(ada.page, 'Workspace name').inputValue(), 'Northwind');
  await inspect(ada, 'setup-wrong-token');

  await ada.page.goto(link.pathname + link.search);
  await ada.page.route('**/v1/workspaces', (route) => route.abort());
  await createAccount(ada);
  await ada.page.getByText('The server cannot be reached.').waitFor();
  await ada.page.unroute('**/v1/workspaces');
  await ada.page.reload();
  await ada.page.getByText('You are signed in as ada@example.com.').waitFor();
  await step(ada, 1);
  assert.equal(await box(ada.page, 'Email').count(), 0);
  await ada.page.getByText('People write @ada-lindholm').waitFor();
  await inspect(ada, 'setup-workspace');
  await box(ada.page, 'Workspace name').fill('Northwind');
  await button(ada.page, 'Create workspace').click();
  await step(ada, 2);
  assert.equal(new URL(ada.page.url()).search, '');
  assert.deepEqual(ada.errors, []);
});
