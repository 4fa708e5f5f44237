// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { beforeEach, expect, test, vi } from 'vitest';
import ToldTexts from '../settings/ToldTexts.svelte';
import { profile } from '../test/make-agents';
import { Screen } from '../test/screen';
import { StoredFile, StoredPolicy } from '../test/versioned';
import { AgentsContext } from './agents-context.svelte';
import FileEditor from './FileEditor.svelte';

const screen = new Screen();
const PATH = 'MEMORY.md';
const KEY = 'openvibe.agent.user_me.ws_1.agent_quill.file.MEMORY.md';
let file: StoredFile;
beforeEach(() => {
  file = new StoredFile(PATH, 'One.');
  const { scene, ws } = screen;
  scene.backend.objects.set(`/v1/agents/agent_quill/files/${PATH}`, file);
  ws.people.me = { ...ws.people.me, role: 'admin' };
});
/** Opens the editor of the file; `fresh` if the file does not exist yet. */
function show(fresh = false) {
  const events = { onchange: vi.fn(), ongone: vi.fn() };
  const context = new AgentsContext(screen.ws);
  const summary = fresh ? { ...file.summary(), version: 0 } : file.summary();
  const shown = screen.show(FileEditor, {
    ...{ context, profile: profile(), file: summary, fresh, note: '' },
    ...events,
  });
  return { ...events, ...shown };
}
const field = (name = PATH) => page.findByRole<HTMLTextAreaElement>('textbox', { name });
const type = async (value: string, name = PATH) => fireEvent.input(await field(name), { target: { value } });
const click = async (name: string | RegExp) => fireEvent.click(await page.findByRole('button', { name }));
const conflict = (version: number) =>
  page.findByRole('heading', { name: new RegExp(`saved version ${version} in the meantime`) });

test('a file is saved over the version that it was read from', async () => {
  const { onchange } = show();
  await type('Two.');
  await click('Save file');
  await vi.waitFor(() => expect(onchange).toHaveBeenCalledOnce());
  expect([file.content, file.matched]).toEqual(['Two.', ['"1"']]);
});
test('a draft that is restored after a reload is not saved over a newer version', async () => {
  const { unmount } = show();
  await type('Mine.');
  unmount();
  file.write('Theirs.');
  show();
  expect(await page.findByText(/^Version 2 was saved in the meantime/)).toBeTruthy();
  expect((await field()).value).toBe('Mine.');
  await click('Save file');
  expect(await conflict(2)).toBeTruthy();
  expect(file.content).toBe('Theirs.');
});
test('an overwritten version is the one that was shown', async () => {
  const { onchange } = show();
  await type('Mine.');
  file.write('Theirs.');
  await click('Save file');
  await conflict(2);
  expect(page.getByText('Theirs.')).toBeTruthy();
  file.write('Theirs, again.');
  await fireEvent.click(page.getByRole('radio', { name: 'Yours' }));
  await click('Save choices');
  await conflict(3);
  expect(file.content).toBe('Theirs, again.');
  await fireEvent.click(page.getByRole('radio', { name: 'Yours' }));
  await click('Save choices');
  await vi.waitFor(() => expect(onchange).toHaveBeenCalledOnce());
  expect([file.content, file.matched]).toEqual(['Mine.', ['"1"', '"2"', '"3"']]);
});
test('a draft of an earlier client, which has no version, is compared with the file', async () => {
  screen.ws.store.set(KEY, 'Old draft.');
  show();
  expect((await field()).value).toBe('Old draft.');
  await click('Compare');
  expect(await conflict(1)).toBeTruthy();
});
test('a file that someone changed is not deleted unread', async () => {
  const { ongone } = show();
  await field();
  file.write('Theirs.');
  await click(/^Delete/);
  expect(await page.findByText(/^Someone else changed this in the meantime/)).toBeTruthy();
  expect((await field()).value).toBe('Theirs.');
  await click(/^Delete/);
  await vi.waitFor(() => expect(ongone).toHaveBeenCalledOnce());
  expect(file.matched).toEqual(['"1"', '"2"']);
});
test('a draft stays if its file cannot be deleted', async () => {
  show();
  await type('Mine.');
  screen.scene.backend.lost = /^DELETE/;
  await click(/^Delete/);
  expect(await page.findByText('The server cannot be reached.')).toBeTruthy();
  expect((await field()).value).toBe('Mine.');
});
test('a file that was deleted before can be written again', async () => {
  file.write(null);
  const { onchange } = show(true);
  await type('New.');
  await click('Save file');
  await vi.waitFor(() => expect(onchange).toHaveBeenCalledOnce());
  expect([file.content, file.matched]).toEqual(['New.', ['"0"', '"2"']]);
});

/** Shows the working rules of the workspace. */
function showShared(content: string | null) {
  const shared = new StoredFile('AGENTS.md', content);
  const { backend } = screen.scene;
  backend.objects.set('/v1/workspaces/ws_1/files/AGENTS.md', shared);
  backend.sharedFiles = [shared];
  backend.objects.set('/v1/workspaces/ws_1/policy', new StoredPolicy());
  screen.show(ToldTexts, { onsaved: vi.fn() });
  return shared;
}
test('a new file of the workspace is not written over another one', async () => {
  const shared = showShared(null);
  await type('Mine.', 'Working rules');
  shared.write('Theirs.');
  await click('Save');
  expect(await conflict(1)).toBeTruthy();
  expect(page.getByText('Theirs.')).toBeTruthy();
  expect([shared.content, shared.matched]).toEqual(['Theirs.', ['"0"']]);
});
test('a file of the workspace is deleted only in the version that was shown', async () => {
  const shared = showShared('One.');
  await type('', 'Working rules');
  shared.write('Theirs.');
  await click('Save');
  await conflict(2);
  await fireEvent.click(page.getByRole('radio', { name: 'Yours' }));
  await click('Save choices');
  await vi.waitFor(() => expect(shared.content).toBeNull());
  expect(shared.matched).toEqual(['"1"', '"2"']);
});
