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
  const choice = page.getByRole('switch', { name: 'Let agents adapt to me' });
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
  expect(page.getByText('Your workspace has turned this off.')).toBeTruthy();
  expect(page.queryByRole('switch')).toBeNull();
  await vi.waitFor(() => expect(buttons()).toHaveLength(2));
  expect(page.getByRole('button', { name: 'Delete all' })).toBeTruthy();
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
