// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { FilesApi, type FileText } from '../api/files';
import type { Channel } from '../api/types';
import { responderOf } from '../state/composer-context';
import { UNBOUND } from '../lib/responder';
import { agent, myChannel } from '../test/make';
import { Screen } from '../test/screen';
import FileTray from './FileTray.svelte';

const screen = new Screen();
const FILE = {
  id: 'file_1',
  name: 'Manual.pdf',
  content_type: 'application/pdf',
  size_bytes: 9000,
  message_id: null,
  url: '/v1/files/file_1',
};

/** Shows the tray of a draft with a PDF, which the server has read with this result. */
function show(text: string, found: { state: string; reason?: string; parts?: number; fits?: boolean }) {
  const { ws } = screen;
  const { fits = true, reason = null, parts = 12, state } = found;
  const metadata = { ...FILE, seen: null, fits, document: { state, reason, parts } };
  vi.spyOn(FilesApi.prototype, 'metadata').mockResolvedValue(metadata as never);
  vi.spyOn(FilesApi.prototype, 'text').mockResolvedValue({ unread_parts: [3, 7] } as unknown as FileText);
  ws.people.agentsById.set('agent_coder', agent('agent_coder', 'coder', 'Coder'));
  ws.workspace = { ...ws.workspace, default_agent_id: 'agent_vibe' };
  ws.drafts.set('f:place', JSON.stringify([FILE]));
  const channel: Channel = myChannel({});
  const context = { channel, conversation: null, responder: responderOf(UNBOUND, ws) };
  screen.show(FileTray, { place: 'place', text, context });
}

test('the default agent reads a file, unless another one is asked', async () => {
  show('', { state: 'ready' });
  expect(await page.findByText(/Vibe reads this file \(12 pages\)$/)).toBeTruthy();
});
test('the agent that is mentioned reads the file', async () => {
  show('@coder look', { state: 'ready', parts: 80, fits: false });
  expect(await page.findByText(/Coder reads the parts that fit \(80 pages\)$/)).toBeTruthy();
});
test('pages that were not read are named', async () => {
  show('', { state: 'partial', reason: 'scanned' });
  expect(await page.findByText(/Pages 3, 7 could not be read$/)).toBeTruthy();
});
