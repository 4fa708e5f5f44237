// @vitest-environment happy-dom
import { fireEvent, screen as page, waitFor, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import { CodeRoutes, codeSession } from '../test/make-code';
import { Screen } from '../test/screen';
import CodePanel from './CodePanel.svelte';

const screen = new Screen();
const PATCH = [
  'diff --git a/<img src=x>.js b/<img src=x>.js',
  'index 1..2 100644',
  '--- a/<img src=x>.js\t',
  '+++ b/<img src=x>.js\t',
  '@@ -11,2 +11,2 @@',
  ' same',
  '-let a = 1;',
  '+let a\u202E = <b>2</b>;',
  'diff --git a/b.txt b/b.txt',
  'deleted file mode 100644',
  'index 1..0',
  '--- a/b.txt',
  '+++ /dev/null',
  '@@ -1 +0,0 @@',
  '-gone',
  '\\ No newline at end of file',
].join('\n');

function setUp(session = codeSession({ file_count: 2 }), patch = PATCH) {
  const { backend } = screen.scene;
  backend.code = new CodeRoutes();
  backend.code.sessions = [session];
  backend.code.patch = patch;
  return backend.code;
}
async function open() {
  screen.show(CodePanel, { id: 'code_1' });
  const region = await page.findByRole('region', { name: 'Changes' });
  await within(region).findByRole('list', { name: 'Files' });
  return within(region);
}
test('files and lines are text', async () => {
  setUp();
  const it = await open();
  const files = within(it.getByRole('list', { name: 'Files' }));
  expect(await files.findByRole('button', { name: /<img src=x>\.js/ })).toBeTruthy();
  expect(await it.findByText('let a\\u{202E} = <b>2</b>;')).toBeTruthy();
  expect(document.querySelector('.code-panel img, .code-panel b')).toBeNull();
});
test('comments on lines are sent together, with the tree that was shown', async () => {
  setUp();
  const it = await open();
  await fireEvent.click(await it.findByRole('button', { name: 'Comment on line 12' }));
  const field = await it.findByRole('textbox', { name: 'Comment on line 12' });
  expect(document.activeElement).toBe(field);
  expect(it.queryByRole('button', { name: /^Send/ })).toBeNull();
  await fireEvent.input(field, { target: { value: 'Why two?' } });
  await fireEvent.click(await it.findByRole('button', { name: 'Comment on removed line 12' }));
  await fireEvent.input(await it.findByRole('textbox', { name: 'Comment on removed line 12' }), {
    target: { value: 'Keep it.' },
  });
  await fireEvent.click(await it.findByRole('button', { name: 'Send 2 comments' }));
  await waitFor(() => expect(it.queryByRole('textbox')).toBeNull());
  const path = '<img src=x>.js';
  expect(screen.scene.backend.calls).toContain('POST /v1/threads/thread_1/messages');
  expect(screen.scene.backend.bodies).toContainEqual(
    expect.objectContaining({
      review: {
        session_id: 'code_1',
        tree: 't1',
        comments: [
          { path, side: 'new', line: 12, text: 'Why two?' },
          { path, side: 'old', line: 12, text: 'Keep it.' },
        ],
      },
    }),
  );
});
test('comments survive a refusal, newer changes, and closing the panel', async () => {
  const code = setUp();
  const { backend } = screen.scene;
  const shown = screen.show(CodePanel, { id: 'code_1' });
  await fireEvent.click(await page.findByRole('button', { name: 'Comment on line 12' }));
  await fireEvent.input(await page.findByRole('textbox'), { target: { value: 'Why?' } });
  backend.refuse = /messages$/;
  await fireEvent.click(await page.findByRole('button', { name: 'Send 1 comment' }));
  expect((await page.findByRole('alert')).textContent).toContain('No.');
  backend.refuse = null;
  code.sessions = [codeSession({ tree: 't2', version: 2 })];
  code.patch = PATCH.replaceAll(',2 ', ',1 ')
    .replace('-let a = 1;\n', '')
    .replace(/\+let.*\n/, '');
  const changed = { code_session_id: 'code_1', version: 2 };
  screen.scene.event('code_session.updated', changed);
  await fireEvent.click(await page.findByRole('button', { name: 'Show them' }));
  expect(await page.findByText(/^Line 12 of .* has changed\. Your comment: Why\?/)).toBeTruthy();
  shown.unmount();
  await open();
  await fireEvent.click(await page.findByRole('button', { name: 'Delete comment' }));
  await waitFor(() => expect(page.queryByText(/Your comment/)).toBeNull());
});
test('lines are side by side in a wide window, or in one column', async () => {
  setUp();
  await open();
  expect(page.getByRole('button', { name: 'Side by side' }).getAttribute('aria-pressed')).toBe('true');
  await waitFor(() => expect(document.querySelector('.two')).not.toBeNull());
  await fireEvent.click(page.getByRole('button', { name: 'Unified' }));
  await waitFor(() => expect(document.querySelector('.two')).toBeNull());
});
test('a narrow window has one column', async () => {
  (window as unknown as { happyDOM: { setViewport(size: object): void } }).happyDOM.setViewport({
    width: 1179,
  });
  setUp();
  const it = await open();
  expect(await it.findByRole('button', { name: 'Comment on line 12' })).toBeTruthy();
  expect(page.queryByRole('button', { name: 'Side by side' })).toBeNull();
  expect(document.querySelector('.two')).toBeNull();
});
test('the last push is a choice only if the server has its patch', async () => {
  const pushed = { commit: 'c', url: null, tree: null, by: 'user_bo', at: '2026-01-05T09:00:00.000Z' };
  const code = setUp(codeSession({ pushed }));
  await open();
  expect(page.queryByRole('button', { name: 'Since the last push' })).toBeNull();
  code.sessions = [codeSession({ pushed: { ...pushed, tree: 't0' }, version: 2 })];
  screen.scene.event('code_session.updated', { code_session_id: 'code_1', version: 2 });
  await fireEvent.click(await page.findByRole('button', { name: 'Since the last push' }));
  expect(await page.findByText('No changes since the last push.')).toBeTruthy();
});
test('changes that are gone, or cannot be loaded, are told apart', async () => {
  setUp();
  const { backend } = screen.scene;
  backend.refuse = /code-sessions/;
  const shown = screen.show(CodePanel, { id: 'code_1' });
  await fireEvent.click(await page.findByRole('button', { name: 'Try again' }));
  backend.refuse = null;
  shown.unmount();
  backend.fail = 404;
  screen.show(CodePanel, { id: 'code_1' });
  expect(await page.findByText('These changes are no longer available.')).toBeTruthy();
});
