// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { responderOf } from '../state/composer-context';
import { thread } from '../test/make';
import { Screen } from '../test/screen';
import StyleChip from './StyleChip.svelte';

const screen = new Screen();
const chip = (style: string) => page.findByRole('button', { name: `Reply style for Vibe: ${style}` });

/** Shows the chip of a thread in which someone chose the style `concise` for Vibe. */
function show(): void {
  const { ws } = screen;
  const conversation = { thread: 'thread_1', fork: null };
  const binding = { agent_id: 'agent_vibe', agent_version: 1, auto_reply: true };
  ws.threads.put(thread({ presets: [{ agent_id: 'agent_vibe', preset: 'concise', chosen_by: 'person' }] }));
  const responder = responderOf(binding, ws);
  const context = { channel: ws.channels.map.get('chan_1')!, conversation, responder };
  screen.show(StyleChip, { text: '', context, conversation });
}

test('a style that was renamed has its new name when the window is shown again', async () => {
  show();
  await chip('Brief');
  const { backend } = screen.scene;
  backend.presets = [{ ...backend.presets[0]!, name: 'Short' }];
  await fireEvent(document, new Event('visibilitychange'));
  await chip('Short');
});
test('a style that was renamed has its new name after all state was loaded again', async () => {
  show();
  await chip('Brief');
  const { backend } = screen.scene;
  backend.presets = [{ ...backend.presets[0]!, name: 'Short' }];
  screen.ws.outcomes.starts++;
  await chip('Short');
});
test('if the names cannot be loaded, the last one stays', async () => {
  show();
  await chip('Brief');
  const { backend } = screen.scene;
  backend.fail = 503;
  await fireEvent(document, new Event('visibilitychange'));
  const requests = () => backend.calls.filter((call) => call === 'GET /v1/prompt-profiles');
  await vi.waitFor(() => expect(requests()).toHaveLength(2));
  expect(await chip('Brief')).toBeTruthy();
  expect(screen.app.ui.toast).toBeNull();
});
