// @vitest-environment happy-dom
import { fireEvent, screen as page } from '@testing-library/svelte';
import { expect, test, vi } from 'vitest';
import { adaptationState as state } from '../test/make-adaptation';
import { Screen } from '../test/screen';
import MyAdaptation from './MyAdaptation.svelte';

const screen = new Screen();
const buttons = () => page.queryAllByRole('button', { name: 'Delete' });

function show(x: { allowed?: boolean; on?: boolean } = {}) {
  const onchange = vi.fn();
  screen.show(MyAdaptation, { allowed: true, on: true, busy: false, onchange, ...x });
  return onchange;
}
/** States of Vibe and Coder for Mia. */
function keep() {
  const { backend } = screen.scene;
  backend.threads.set('thread_1', { ...backend.threads.get('thread_1')!, title: 'Launch plan' });
  backend.adaptation = [state({ mood: 'patient', user_skill: 'expert' }), state({ agent_id: 'agent_coder' })];
}

test('the switch has a hint and reports changes', async () => {
  const onchange = show({ on: false });
  const choice = page.getByRole('switch', { name: 'Adapt to me' });
  expect((choice as HTMLInputElement).checked).toBe(false);
  expect(page.getByText(/^Agents that support it keep a mood score per conversation/)).toBeTruthy();
  await fireEvent.click(choice);
  expect(onchange).toHaveBeenCalledExactlyOnceWith(true);
});
test('each conversation has a line, which can be deleted', async () => {
  keep();
  show();
  expect(await page.findByText('Vibe in Launch plan: patient, expert')).toBeTruthy();
  expect(page.getByText('Coder in Launch plan: neutral')).toBeTruthy();
  await fireEvent.click(buttons()[0]!);
  await vi.waitFor(() => expect(buttons()).toHaveLength(1));
  expect(screen.scene.backend.calls.at(-1)).toBe('DELETE /v1/agents/agent_vibe/state');
  expect(page.queryByText(/^Vibe in/)).toBeNull();
});
test('states can be deleted even if the workspace has turned adaptation off', async () => {
  keep();
  show({ allowed: false });
  expect(page.getByText(/has turned adaptation off\. An admin can turn it on/)).toBeTruthy();
  expect(page.queryByRole('switch')).toBeNull();
  await vi.waitFor(() => expect(buttons()).toHaveLength(2));
  expect(page.getByRole('button', { name: 'Delete all' })).toBeTruthy();
});
test('older ones are shown on request, and the focus moves to the first of them', async () => {
  screen.scene.backend.adaptation = Array.from({ length: 21 }, (_, n) => state({ agent_id: `agent_${n}` }));
  show();
  await vi.waitFor(() => expect(buttons()).toHaveLength(20));
  await fireEvent.click(page.getByRole('button', { name: 'Show older' }));
  await vi.waitFor(() => expect(buttons()).toHaveLength(21));
  await vi.waitFor(() => expect(document.activeElement).toBe(buttons()[20]));
  expect(page.queryByRole('button', { name: 'Show older' })).toBeNull();
});
test('all are deleted after a question, also those that are not shown', async () => {
  screen.scene.backend.adaptation = Array.from({ length: 21 }, (_, n) => state({ agent_id: `agent_${n}` }));
  show();
  await vi.waitFor(() => expect(buttons()).toHaveLength(20));
  const all = () => page.queryAllByRole('button', { name: 'Delete all' });
  await fireEvent.click(all()[0]!);
  expect(page.getByText('Delete all mood scores?')).toBeTruthy();
  await fireEvent.click(page.getByRole('button', { name: 'Cancel' }));
  expect(buttons()).toHaveLength(20);
  await fireEvent.click(all()[0]!);
  await fireEvent.submit(all().at(-1)!.closest('form')!);
  expect(await page.findByText('No agent has adapted to you yet.')).toBeTruthy();
  expect(screen.scene.backend.calls.at(-1)).toBe('DELETE /v1/adaptation');
  expect(all()).toHaveLength(0);
});
test('a list that could not be loaded is loaded again', async () => {
  keep();
  screen.scene.backend.fail = 503;
  show();
  expect(await page.findByText('Couldn’t load the mood scores')).toBeTruthy();
  screen.scene.backend.fail = null;
  await fireEvent.click(page.getByRole('button', { name: 'Try again' }));
  expect(await page.findByText('Vibe in Launch plan: patient, expert')).toBeTruthy();
});
test('a line that was not deleted stays', async () => {
  keep();
  show();
  await vi.waitFor(() => expect(buttons()).toHaveLength(2));
  screen.scene.backend.fail = 503;
  await fireEvent.click(buttons()[1]!);
  await vi.waitFor(() => expect(screen.scene.backend.calls.at(-1)).toMatch(/^DELETE/));
  expect(buttons()).toHaveLength(2);
});
