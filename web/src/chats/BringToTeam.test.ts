// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { message } from '../test/make';
import { Screen } from '../test/screen';
import AskAgent from './AskAgent.svelte';
import BringToTeam from './BringToTeam.svelte';

const screen = new Screen();
const onclose = vi.fn();
const general = () => screen.ws.channels.find('general')!.id;

test('chosen messages become block quotes in the composer of a channel', async () => {
  const asked = message({ content: 'Monday?' });
  screen.ws.thread(asked.thread_id).messages.push(asked, message({ content: 'Monday\nsuits' }));
  screen.show(BringToTeam, { message: asked, onclose });
  page.getByRole('heading', { name: 'Bring to the team' });
  const boxes = page.getAllByRole('checkbox');
  expect(boxes.map((box) => (box as HTMLInputElement).checked)).toEqual([true, false]);
  await fireEvent.click(boxes[1]!);
  await fireEvent.click(page.getByRole('button', { name: 'Quote' }));
  const name = screen.ws.people.nameOf(asked.author);
  expect(screen.ws.drafts.get(`c:${general()}`)).toBe(
    `> **${name}:** Monday?\n\n> **${name}:** Monday\n> suits\n\n`,
  );
});
test('“Here” puts the quote and a mention into the composer of the conversation', async () => {
  const asked = message({ content: 'Monday?' });
  screen.show(AskAgent, { message: asked, onclose });
  page.getByRole('heading', { name: 'Ask an agent' });
  page.getByRole('button', { name: 'Privately' });
  await fireEvent.click(page.getByRole('button', { name: 'Here' }));
  const draft = screen.ws.drafts.get(`t:${asked.thread_id}`);
  expect(draft).toMatch(/^> \*\*.+:\*\* Monday\?\n\n@\w+ $/);
});
