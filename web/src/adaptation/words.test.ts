import { expect, test } from 'vitest';
import type { AdaptationState } from '../api/adaptation';
import { Scene } from '../test/backend';
import { fork } from '../test/make';
import { adaptationState as state } from '../test/make-adaptation';
import { shownStates, traitsText } from './words';

/** An API that returns one page of states and the cursor of the next page. */
const api = (data: AdaptationState[], next_cursor: string | null = null) => ({
  states: () => Promise.resolve({ data, has_more: next_cursor !== null, next_cursor }),
});

test('traits that change something are named', () => {
  expect(traitsText(state({ mood: 'patient', user_skill: 'expert' }))).toBe('patient, expert');
  expect(traitsText(state({ task_complexity: 'simple' }))).toBe('simple');
  expect(traitsText(state())).toBe('neutral');
});

test('a state is shown with its agent and its conversation, if the caller can still read it', async () => {
  const { ws, backend } = new Scene();
  await ws.start();
  backend.threads.set('thread_1', { ...backend.threads.get('thread_1')!, title: 'Launch plan' });
  backend.forks.set('fork_1', fork({ title: 'What breaks offline?' }));
  const all = [
    state({ mood: 'patient' }),
    state({ agent_id: 'agent_coder', fork_id: 'fork_1', user_skill: 'novice' }),
  ];
  const { list: shown, cursor } = await shownStates(api(all, 'older'), ws);
  expect(cursor).toBe('older');
  expect(shown.map((s) => s.text)).toEqual([
    'Vibe in Launch plan: patient',
    'Coder in What breaks offline?: novice',
  ]);
  expect(new Set(shown.map((s) => s.key)).size).toBe(2);
  backend.fail = 404;
  const { list: gone } = await shownStates(api([state({ thread_id: 'thread_2' })]), ws);
  expect(gone[0]?.text).toBe('Vibe in a conversation: neutral');
});
