import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  accessible,
  box,
  button,
  fits,
  message,
  PHONE,
  reply,
  shot,
  startThread,
  WIDE,
} from './lib/browser.mjs';
import { pdf, png, wav } from './lib/made.mjs';
import { REPLY_BOX, forkPanel, messageList, theme } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { server, ada, bo } = await startTeam({ bo: { theme: 'light' } });
const HILLS = { name: 'hills.png', mimeType: 'image/png', buffer: png(1200, 800, 1) };
const TALL = { name: 'tall.png', mimeType: 'image/png', buffer: png(300, 900, 0.3) };
const PLAN = { name: 'plan.pdf', mimeType: 'application/pdf', buffer: pdf() };
const NOTES = { name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('Monday it is.\n') };
const TONE = { name: 'tone.wav', mimeType: 'audio/wav', buffer: wav() };
const tray = (p) => p.page.getByRole('list', { name: 'Attached files' });
const chip = (p, name) => tray(p).getByRole('listitem').filter({ hasText: name });
/** Waits until the upload is complete: no progress, no error. */
const there = async (p, name) => {
  await chip(p, name)
    .getByRole('button', { name: `Remove ${name}` })
    .waitFor();
  assert.equal(await chip(p, name).getByRole('button', { name: 'Try again' }).count(), 0);
};
const attach = async (p, files, scope = p.page) => {
  const chooser = p.page.waitForEvent('filechooser');
  await scope.getByRole('button', { name: 'Attach files' }).click();
  await (await chooser).setFiles(files);
};
/** Holds this person's uploads until the test releases them. */
const hold = async (p) => {
  let go;
  const gate = new Promise((r) => (go = r));
  await p.page.route('**/v1/files', async (r) => {
    await gate;
    await r.continue().catch(() => undefined); // canceled in the meantime
  });
  return async () => {
    go();
    await p.page.unroute('**/v1/files');
  };
};
/** Dispatches a paste or drag event with these files. Returns true if the page handled it. */
const drag = (p, type, selector, files = []) =>
  p.page.evaluate(
    ({ type, selector, files }) => {
      const data = new DataTransfer();
      for (const f of files) data.items.add(new File([new Uint8Array(f.bytes)], f.name, { type: f.type }));
      const at = document.querySelector(selector);
      at.focus?.();
      const event =
        type === 'paste'
          ? new ClipboardEvent(type, { clipboardData: data, bubbles: true, cancelable: true })
          : new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true });
      at.dispatchEvent(event);
      return event.defaultPrevented;
    },
    { type, selector, files },
  );
const raw = (f) => ({ name: f.name, type: f.mimeType, bytes: [...f.buffer] });
const asks = (p) =>
  p.page.evaluate(() => {
    const e = new Event('beforeunload', { cancelable: true });
    dispatchEvent(e);
    return e.defaultPrevented;
  });
/** ID of this row's message. */
const idOf = async (row) => (await row.getAttribute('id')).slice(2);

test('files from the button: chips, then a message with a picture and cards', async () => {
  await startThread(ada.page, 'Pictures of the place');
  await attach(ada, [HILLS, PLAN, NOTES]);
  for (const f of [HILLS, PLAN, NOTES]) await there(ada, f.name);
  await accessible(ada.page, 'files in the composer');
  await shot(ada.page, '100-files-composer-dark');
  await reply(ada.page, 'The view, and the plan');
  const row = message(ada.page, 'The view, and the plan');
  await row.getByRole('img', { name: 'hills.png' }).waitFor();
  await row.getByRole('link', { name: 'Download plan.pdf' }).waitFor();
  await ada.page.locator('article[data-seq]').filter({ hasText: 'The view' }).waitFor();
  assert.equal(await tray(ada).count(), 0);
  assert.equal(
    await row.getByRole('link', { name: 'plan.pdf', exact: true }).getAttribute('target'),
    '_blank',
  );
  await row
    .getByText(/KB|bytes/)
    .first()
    .waitFor();
  await accessible(ada.page, 'files in a message');
  await shot(ada.page, '101-files-message-dark');
  await theme(ada, 'light');
  await shot(ada.page, '102-files-message-light');
  await theme(ada, 'dark');
  await ada.page.setViewportSize(PHONE);
  await row.getByRole('img', { name: 'hills.png' }).waitFor();
  await accessible(ada.page, 'files in a message at 390 px');
  await shot(ada.page, '103-files-message-390-dark');
  await ada.page.setViewportSize({ width: 320, height: 800 });
  await fits(ada.page, 'files at 320 px');
  await ada.page.setViewportSize(WIDE);
});

test('a picture’s space is reserved: nothing shifts when it loads', async () => {
  let go;
  const gate = new Promise((r) => (go = r));
  await bo.page.route('**/v1/files/file_*', async (r) => {
    await gate;
    await r.continue();
  });
  await bo.page.goto(new URL(ada.page.url()).pathname);
  const row = message(bo.page, 'The view, and the plan');
  const picture = row.getByRole('img', { name: 'hills.png' });
  await picture.waitFor();
  const before = await row.boundingBox();
  const size = await picture.boundingBox();
  assert.deepEqual([Math.round(size.width), Math.round(size.height)], [400, 267]);
  go();
  await picture.evaluate((img) => img.decode());
  assert.deepEqual(await row.boundingBox(), before);
  await bo.page.unroute('**/v1/files/file_*');
  await shot(bo.page, '104-files-other-person-light');
});

test('a picture opens large, with the others of its message; Esc closes it', async () => {
  await attach(ada, [TALL, HILLS]);
  await there(ada, 'tall.png');
  await there(ada, 'hills.png');
  await box(ada.page, REPLY_BOX).press('Enter'); // without text
  const row = ada.page
    .locator('article[data-seq]')
    .filter({ has: ada.page.getByRole('img', { name: 'tall.png' }) });
  await row.waitFor();
  await row.getByRole('button', { name: 'Open tall.png' }).click();
  const dialog = ada.page.getByRole('dialog', { name: 'tall.png' });
  await dialog.getByText('1 of 2').waitFor();
  await accessible(ada.page, 'a picture, large');
  await ada.page.keyboard.press('ArrowRight');
  await ada.page.getByRole('dialog', { name: 'hills.png' }).getByRole('img', { name: 'hills.png' }).waitFor();
  await shot(ada.page, '105-files-lightbox-dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'a picture, large, at 390 px');
  await shot(ada.page, '106-files-lightbox-390-dark');
  await ada.page.setViewportSize(WIDE);
  const saved = ada.page.waitForEvent('download');
  await ada.page.getByRole('link', { name: 'Download hills.png' }).last().click();
  assert.equal((await saved).suggestedFilename(), 'hills.png');
  await ada.page.keyboard.press('Escape');
  await ada.page.getByRole('dialog').waitFor({ state: 'detached' });
  await ada.page.waitForFunction(
    () => document.activeElement?.getAttribute('aria-label') === 'Open tall.png',
  );
});

test('pasted and dropped files are attached; text pasted with a picture of itself stays text', async () => {
  assert.equal(await drag(ada, 'paste', '[data-composer]', [raw(NOTES)]), true);
  await there(ada, 'notes.txt');
  const text = await ada.page.evaluate(() => {
    const data = new DataTransfer();
    data.setData('text/plain', 'a cell');
    data.setData('text/html', '<b>a cell</b>');
    data.items.add(new File(['x'], 'image.png', { type: 'image/png' }));
    const e = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
    document.querySelector('[data-composer]').dispatchEvent(e);
    return e.defaultPrevented;
  });
  assert.equal(text, false);
  await drag(ada, 'dragenter', '[data-composer]', [raw(TONE)]);
  await ada.page.getByText('Drop files to attach them').waitFor();
  await drag(ada, 'dragover', '.zone', [raw(TONE)]);
  await accessible(ada.page, 'files over the column');
  await shot(ada.page, '107-files-drop-dark');
  await drag(ada, 'drop', '.zone', [raw(TONE)]);
  await there(ada, 'tone.wav');
  await ada.page.getByText('Drop files to attach them').waitFor({ state: 'detached' });
  await drag(ada, 'dragenter', '[data-composer]', [raw(TONE)]);
  await ada.page.getByText('Drop files to attach them').waitFor();
  await ada.page.keyboard.press('Escape');
  await ada.page.getByText('Drop files to attach them').waitFor({ state: 'detached' });
  await button(ada.page, 'Remove notes.txt').click();
  await button(ada.page, 'Send').click();
  await message(ada.page, '').locator('audio[aria-label="tone.wav"]').waitFor();
});

test('an upload shows its progress and can be canceled; the page asks before closing only during uploads', async () => {
  assert.equal(await asks(ada), false);
  const release = await hold(ada);
  await attach(ada, [HILLS, NOTES]);
  await chip(ada, 'hills.png').getByRole('progressbar', { name: 'Upload of hills.png' }).waitFor();
  assert.equal(await asks(ada), true);
  await accessible(ada.page, 'uploads under way');
  await shot(ada.page, '108-files-uploading-dark');
  await button(ada.page, 'Cancel hills.png').click();
  await chip(ada, 'hills.png').waitFor({ state: 'detached' });
  await release();
  await there(ada, 'notes.txt');
  assert.equal(await asks(ada), false);
  await button(ada.page, 'Remove notes.txt').click();
  await tray(ada).waitFor({ state: 'detached' });
});

test('a message waits for its uploads and is then sent automatically; other messages do not wait', async () => {
  const release = await hold(ada);
  await attach(ada, [NOTES, PLAN]);
  await chip(ada, 'plan.pdf').waitFor();
  await reply(ada.page, 'With two files');
  await ada.page.getByText('Waiting for 2 uploads').waitFor();
  await accessible(ada.page, 'a message that waits for uploads');
  await shot(ada.page, '109-files-waiting-dark');
  await reply(ada.page, 'Meanwhile this');
  await message(bo.page, 'Meanwhile this').waitFor();
  assert.equal(await message(bo.page, 'With two files').count(), 0);
  await release();
  const row = message(bo.page, 'With two files');
  await row.getByRole('link', { name: 'Download plan.pdf' }).waitFor();
  await row.getByRole('link', { name: 'Download notes.txt' }).waitFor();
  await ada.page.getByText(/^Waiting for \d/).waitFor({ state: 'detached' });
  assert.equal(await message(ada.page, 'With two files').count(), 1);
});

test('a waiting message can be moved back to the composer', async () => {
  const release = await hold(ada);
  await attach(ada, [NOTES]);
  await chip(ada, 'notes.txt').waitFor();
  await reply(ada.page, 'Not yet');
  await button(ada.page, 'Back to draft').click();
  assert.equal(await box(ada.page, REPLY_BOX).inputValue(), 'Not yet');
  await chip(ada, 'notes.txt').waitFor();
  await release();
  await there(ada, 'notes.txt');
  await button(ada.page, 'Remove notes.txt').click();
  await box(ada.page, REPLY_BOX).fill('');
});

test('a failed upload shows the reason and can be retried; a file over the limit is rejected immediately', async () => {
  let broken = true;
  await ada.page.route('**/v1/files', (r) =>
    broken
      ? r.fulfill({ status: 503, json: { error: { code: 'x', message: 'The disk is full.' } } })
      : r.continue(),
  );
  await attach(ada, [NOTES]);
  await chip(ada, 'notes.txt').getByText('The disk is full.').waitFor();
  await accessible(ada.page, 'an upload that failed');
  await shot(ada.page, '110-files-failed-dark');
  broken = false;
  await chip(ada, 'notes.txt').getByRole('button', { name: 'Try again' }).click();
  await there(ada, 'notes.txt');
  await ada.page.unroute('**/v1/files');
  await attach(ada, [
    { name: 'film.bin', mimeType: 'application/octet-stream', buffer: Buffer.alloc(26 * 1024 * 1024) },
  ]);
  await ada.page.getByText('film.bin is 26 MB; the limit is 25 MB.').first().waitFor();
  assert.equal(await chip(ada, 'film.bin').count(), 0);
});

test('a draft keeps its uploads over a reload, and drops deleted ones', async () => {
  await box(ada.page, REPLY_BOX).fill('Later');
  await ada.page.reload();
  await there(ada, 'notes.txt');
  assert.equal(await box(ada.page, REPLY_BOX).inputValue(), 'Later');
  await box(ada.page, REPLY_BOX).press('Enter');
  await message(ada.page, 'Later').getByRole('link', { name: 'Download notes.txt' }).waitFor();
  await attach(ada, [PLAN]);
  await there(ada, 'plan.pdf');
  // The draft is stored shortly after the upload.
  const kept = await ada.page.waitForFunction(() => {
    const files = Object.entries(localStorage).find(([k]) => /^openvibe\.draft\..*\.f:/.test(k))?.[1];
    return files && JSON.parse(JSON.parse(files).text)[0].id;
  });
  const id = await kept.jsonValue();
  await api(ada, 'DELETE', `files/${id}`);
  await ada.page.reload();
  await ada.page.getByText('plan.pdf is no longer available for this draft').first().waitFor();
  await chip(ada, 'plan.pdf').waitFor({ state: 'detached' });
  // The toast covers the newest messages.
  await ada.page.locator('.toast').waitFor({ state: 'detached' });
});

test('offline, an upload waits and continues automatically', async () => {
  await ada.context.setOffline(true);
  await ada.page.getByText('You are offline').waitFor();
  await attach(ada, [NOTES]);
  await chip(ada, 'notes.txt').getByText('Waiting for a connection').waitFor();
  await reply(ada.page, 'From the tunnel');
  await ada.page.getByText('Waiting for 1 upload').waitFor();
  await accessible(ada.page, 'an upload without a network');
  await ada.context.setOffline(false);
  await message(bo.page, 'From the tunnel').getByRole('link', { name: 'Download notes.txt' }).waitFor();
});

test('a thread that starts with files is named by them', async () => {
  await ada.page.getByRole('link', { name: 'Back to #general' }).click();
  await box(ada.page, 'Start a thread in #general').waitFor();
  await attach(ada, [PLAN]);
  await there(ada, 'plan.pdf');
  await button(ada.page, 'Send').click();
  await box(ada.page, REPLY_BOX).waitFor();
  await ada.page.getByRole('heading', { name: 'plan.pdf', level: 1 }).waitFor();
  await ada.page.getByRole('link', { name: 'Back to #general' }).click();
  await ada.page.getByRole('link', { name: 'plan.pdf' }).waitFor();
  await ada.page.locator('main').getByRole('link', { name: 'Pictures of the place' }).click();
});

test('text files are read beside the conversation: tables, text, and the beginning of long ones', async () => {
  const rows = ['City;Guests;Note', 'Oslo;1412;"Two halls; ""A"" and ""B"""', 'Bergen;56;<b>bold?</b>'];
  const text = (name, content) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(content) });
  const lines = Array.from({ length: 20_000 }, (_, i) => `line ${i + 1} of the log`);
  await attach(ada, [
    text('guests.csv', rows.join('\n')),
    text('notes.md', '# Monday\n\n<img src=x onerror=alert(1)> it is.'),
    text('server.log', lines.join('\n')),
  ]);
  for (const name of ['guests.csv', 'notes.md', 'server.log']) await there(ada, name);
  await reply(ada.page, 'Three texts');
  const row = ada.page.locator('article[data-seq]').filter({ hasText: 'Three texts' });
  const open = async (name) => {
    await row.getByRole('button', { name: `Preview ${name}` }).press('Enter');
    return ada.page.getByRole('dialog', { name });
  };
  const table = await open('guests.csv');
  await table.getByRole('columnheader', { name: 'Guests' }).waitFor();
  await table.getByRole('cell', { name: 'Two halls; "A" and "B"' }).waitFor();
  await table.getByRole('cell', { name: '<b>bold?</b>' }).waitFor();
  await accessible(ada.page, 'a table');
  await shot(ada.page, '113-preview-table-dark');
  await theme(ada, 'light');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'a table at 390 px');
  await shot(ada.page, '113-preview-table-390-light');
  await ada.page.setViewportSize(WIDE);
  await ada.page.keyboard.press('Escape');
  await table.waitFor({ state: 'detached' });
  await ada.page.waitForFunction(
    () => document.activeElement?.getAttribute('aria-label') === 'Preview guests.csv',
  );
  const notes = await open('notes.md');
  await notes.getByText('<img src=x onerror=alert(1)> it is.').waitFor();
  await shot(ada.page, '114-preview-text-light');
  await theme(ada, 'dark');
  await ada.page.setViewportSize(PHONE);
  await accessible(ada.page, 'a text at 390 px');
  await shot(ada.page, '114-preview-text-390-dark');
  await ada.page.setViewportSize(WIDE);
  await notes.getByRole('button', { name: 'Close' }).click();
  const part = ada.page.waitForResponse((r) => /\/v1\/files\/file_\w+$/.test(r.url()));
  const log = await open('server.log');
  assert.equal((await part).status(), 206);
  await log.getByText('Only the beginning is shown.').waitFor();
  const shown = await log.locator('pre').innerText();
  assert.ok(
    shown.startsWith('line 1 of the log\n') && shown.length <= 64 * 1024,
    `${shown.length} characters`,
  );
  assert.match(shown, /of the log\n?$/);
  await log.getByRole('button', { name: 'Close' }).click();
});

test('files in a dive', async () => {
  const row = message(ada.page, 'The view, and the plan');
  await messageList(ada).hover();
  await ada.page.mouse.wheel(0, -9000);
  await row.focus(); // the list may still be scrolling under the mouse
  await row.getByRole('button', { name: 'Deep dive from here' }).click();
  const panel = forkPanel(ada);
  await attach(ada, [TALL], panel);
  await there(ada, 'tall.png');
  await panel.getByRole('textbox').fill('What is on this one?');
  await panel.getByRole('button', { name: 'Send' }).click();
  await message(panel, 'What is on this one?').getByRole('img', { name: 'tall.png' }).waitFor();
  await accessible(ada.page, 'files in a dive');
  await shot(ada.page, '111-files-dive-dark');
  await panel.getByRole('button', { name: 'Close' }).click();
});

test('a composer stays while its dive is created, and the file that is being chosen', async () => {
  let create;
  const gate = new Promise((r) => (create = r));
  await ada.page.route('**/v1/threads/*/forks', async (r) => {
    if (r.request().method() === 'POST') await gate;
    await r.continue();
  });
  const row = message(ada.page, 'Meanwhile this');
  await row.hover();
  await row.getByRole('button', { name: 'Deep dive from here' }).click();
  const panel = forkPanel(ada);
  await panel.getByRole('textbox').fill('half a thought');
  await panel.getByRole('textbox').evaluate((el) => {
    el.dataset.same = 'yes';
    el.setSelectionRange(4, 4);
  });
  const chooser = ada.page.waitForEvent('filechooser');
  await panel.getByRole('button', { name: 'Attach files' }).click();
  const open = await chooser;
  create();
  await ada.page.waitForURL(/panel=dive:fork_/);
  await open.setFiles([TALL]);
  await there(ada, 'tall.png');
  const box = await panel
    .getByRole('textbox')
    .evaluate((el) => [el.dataset.same, el.value, el.selectionStart]);
  assert.deepEqual(box, ['yes', 'half a thought', 4]);
  await ada.page.unroute('**/v1/threads/*/forks');
  await panel.getByRole('button', { name: 'Close' }).click();
});

test('a deleted message’s files are deleted; a viewer has no attach button', async () => {
  const row = message(bo.page, 'With two files');
  await row.waitFor();
  const href = await row.getByRole('link', { name: 'Download notes.txt' }).getAttribute('href');
  await api(ada, 'DELETE', `messages/${await idOf(row)}`);
  await row.waitFor({ state: 'detached' });
  const gone = await bo.page.request.get(server.base + href);
  assert.equal(gone.status(), 404);
  await ada.page.goto('/northwind/settings/members');
  await ada.page.getByLabel('Role of Bo Chen').selectOption('viewer');
  await bo.page.getByText('You are a viewer here').waitFor();
  assert.equal(await bo.page.getByRole('button', { name: 'Attach files' }).count(), 0);
  await bo.page.getByRole('img', { name: 'hills.png' }).first().waitFor();
});

test('an agent receives a picture', async () => {
  const { data } = await api(ada, 'GET', 'agents');
  const vibe = data.find((a) => a.name === 'coder');
  await ada.page.goto(`/northwind/settings/agents/${vibe.id}/edit`);
  const chooser = ada.page.waitForEvent('filechooser');
  await button(ada.page, 'Upload picture').click();
  await (await chooser).setFiles(HILLS);
  await button(ada.page, 'Remove picture').waitFor();
  await ada.page.locator('[aria-busy="true"]').waitFor({ state: 'detached' }); // the preview is busy, too
  await accessible(ada.page, 'an agent with a picture');
  await shot(ada.page, '112-files-agent-dark');
  await ada.page.getByRole('button', { name: /^Save/ }).first().click();
  await ada.page.waitForFunction(
    () => document.querySelectorAll('nav .av.agent img[src^="/v1/files/"]').length === 1,
  );
  await bo.page.locator('nav .av.agent img[src^="/v1/files/"]').first().waitFor();
});

test('no page logged an error', () => {
  assert.deepEqual([...ada.errors, ...bo.errors], []);
});
