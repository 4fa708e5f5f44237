// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { markup } from '../lib/lazy';
import { rowsShown } from '../lib/lazy-module.svelte';
import { responderOf } from '../state/composer-context';
import { Drafts } from '../state/drafts.svelte';
import { task } from '../test/make';
import { Screen } from '../test/screen';
import Composer from './Composer.svelte';

const screen = new Screen();
const LABEL = 'Reply, or @mention an agent';
const field = () => page.getByRole<HTMLTextAreaElement>('textbox', { name: LABEL });

/** Shows the composer of a thread that Vibe replies to; returns the sent texts. */
function show(more: { onediting?: () => void; onsend?: () => void } = {}) {
  const { ws } = screen;
  const sent: string[] = [];
  const binding = { agent_id: 'agent_vibe', agent_version: 1, auto_reply: true };
  screen.show(Composer, {
    place: 't:thread_1',
    label: LABEL,
    context: {
      channel: ws.channels.map.get('chan_1')!,
      conversation: { thread: 'thread_1', fork: null },
      responder: responderOf(binding, ws),
    },
    onsend: (content: string) => void sent.push(content),
    ...more,
  });
  return sent;
}
async function type(text: string): Promise<void> {
  field().focus();
  await fireEvent.input(field(), { target: { value: text } });
}

test('Enter sends the text and empties the field', async () => {
  const sent = show();
  await type('Friday or Monday?');
  await fireEvent.keyDown(field(), { key: 'Enter' });
  await vi.waitFor(() => expect(sent).toEqual(['Friday or Monday?']));
  await vi.waitFor(() => expect(field().value).toBe(''));
});
test('while it has the focus, the text of another window is offered and not taken', async () => {
  rowsShown();
  show();
  await type('Friday');
  new Drafts(screen.scene.browser.open().store, 'user_me.ws_1').set('t:thread_1', 'Monday');
  await page.findByText(/This draft was also edited in another window\./);
  expect(field().value).toBe('Friday');
  await fireEvent.click(page.getByRole('button', { name: 'Use that text' }));
  await vi.waitFor(() => expect(field().value).toBe('Monday'));
  expect(page.queryByRole('button', { name: 'Use that text' })).toBeNull();
});
test('Shift-Enter starts a new line', async () => {
  const sent = show();
  await type('Friday');
  await fireEvent.keyDown(field(), { key: 'Enter', shiftKey: true });
  expect(sent).toEqual([]);
  expect(field().value).toBe('Friday');
});
test('an empty message cannot be sent', async () => {
  const sent = show();
  expect(page.getByRole<HTMLButtonElement>('button', { name: 'Send' }).disabled).toBe(true);
  await fireEvent.keyDown(field(), { key: 'Enter' });
  expect(sent).toEqual([]);
});
test('a mentioned agent that is turned off is named', async () => {
  const { people } = screen.ws;
  const coder = people.agentsById.get('agent_coder')!;
  people.agentsById.set(coder.id, { ...coder, status: 'inactive' });
  show();
  await markup();
  await type('@coder, please');
  expect(await page.findByText('Coder is turned off')).toBeTruthy();
});
test('the agent that will reply is named', async () => {
  rowsShown();
  show();
  await type('What now?');
  expect(await page.findByText('Vibe will reply here')).toBeTruthy();
});
test('an @ suggests people and agents, and Enter completes the selected one', async () => {
  const sent = show();
  await type('@cod');
  const option = await page.findByRole('option', { name: /Coder/ });
  expect(option.getAttribute('aria-selected')).toBe('true');
  await fireEvent.keyDown(field(), { key: 'Enter' });
  await vi.waitFor(() => expect(field().value).toBe('@coder '));
  expect(sent).toEqual([]);
});
test('the Up key in an empty composer edits the last message', async () => {
  const onediting = vi.fn();
  show({ onediting });
  field().focus();
  await fireEvent.keyDown(field(), { key: 'ArrowUp' });
  expect(onediting).toHaveBeenCalledOnce();
});

test('pasted code can become a block', async () => {
  rowsShown();
  show();
  await vi.waitFor(() => expect(markup()).not.toBeNull());
  const code = 'fn main() {\n    run();\n}';
  const clipboardData = {
    files: [],
    types: [],
    getData: (type: string) => (type === 'text/plain' ? code : ''),
  };
  await fireEvent.paste(field(), { clipboardData });
  const offer = screen.app.ui.toast;
  expect(offer?.text).toBe('Pasted 3 lines');
  expect(offer?.action?.label).toBe('Paste as code');
  await type(code);
  screen.app.ui.runToastAction();
  await vi.waitFor(() => expect(field().value).toBe('```\nfn main() {\n    run();\n}\n```\n'));
});
test('pasted prose is only pasted', async () => {
  rowsShown();
  show();
  await vi.waitFor(() => expect(markup()).not.toBeNull());
  const clipboardData = { files: [], types: [], getData: () => 'We meet on Friday.\nBring the plan.\nBo' };
  await fireEvent.paste(field(), { clipboardData });
  expect(screen.app.ui.toast).toBeNull();
});

// --- steering ---

/** Shows the composer beside a running reply; returns the tasks that the sent messages steer. */
async function beside() {
  rowsShown();
  const { ws } = screen;
  ws.tasks.put(task({ id: 'task_9', status: 'running' }));
  const steers: (string | undefined)[] = [];
  const target = { channel_id: 'chan_1', thread_id: 'thread_1', direct: false };
  show({ onsend: () => steers.push(ws.outgoing.steering?.of(target)) });
  await page.findByText('Vibe is writing');
  return steers;
}
test('Enter steers the running reply', async () => {
  const steers = await beside();
  await type('Shorter, please');
  expect(await page.findByRole('button', { name: 'Vibe reads this now' })).toBeTruthy();
  await fireEvent.keyDown(field(), { key: 'Enter' });
  await vi.waitFor(() => expect(steers).toEqual(['task_9']));
});
test('Alt-Enter sends after the reply, and only this message', async () => {
  const steers = await beside();
  await type('And then the budget');
  await page.findByRole('button', { name: 'Vibe reads this now' });
  await fireEvent.keyDown(field(), { key: 'Enter', altKey: true });
  await vi.waitFor(() => expect(steers).toEqual([undefined]));
  await vi.waitFor(() => expect(field().value).toBe(''));
  await type('Shorter, please');
  await page.findByRole('button', { name: 'Vibe reads this now' });
  await fireEvent.keyDown(field(), { key: 'Enter' });
  await vi.waitFor(() => expect(steers).toEqual([undefined, 'task_9']));
});
test('the choice can be made by touch, and ends with the draft', async () => {
  const steers = await beside();
  await type('And then the budget');
  await fireEvent.click(await page.findByRole('button', { name: 'Vibe reads this now' }));
  expect(await page.findByRole('button', { name: 'After this reply' })).toBeTruthy();
  await type('');
  await type('Shorter, please');
  expect(await page.findByRole('button', { name: 'Vibe reads this now' })).toBeTruthy();
  await fireEvent.click(page.getByRole('button', { name: 'Vibe reads this now' }));
  await fireEvent.click(page.getByRole('button', { name: 'Send' }));
  await vi.waitFor(() => expect(steers).toEqual([undefined]));
});
test('beside the text of another window, the choice stays', async () => {
  const steers = await beside();
  await type('And then the budget');
  new Drafts(screen.scene.browser.open().store, 'user_me.ws_1').set('t:thread_1', 'Monday');
  await page.findByRole('button', { name: 'Use that text' });
  expect(page.getByRole('button', { name: 'Vibe reads this now' })).toBeTruthy();
  await fireEvent.keyDown(field(), { key: 'Enter', altKey: true });
  await vi.waitFor(() => expect(steers).toEqual([undefined]));
});
