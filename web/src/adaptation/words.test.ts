import { expect, test } from 'vitest';
import { Scene } from '../test/backend';
import { fork } from '../test/make';
import { adaptationState as state } from '../test/make-adaptation';
import { shownStates, traitsText } from './words';

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
  const shown = await shownStates({ states: () => Promise.resolve(all) }, ws);
  expect(shown.map((s) => s.text)).toEqual([
    'Vibe in Launch plan: patient',
    'Coder in What breaks offline?: novice',
  ]);
  expect(new Set(shown.map((s) => s.key)).size).toBe(2);
  backend.fail = 404;
  const [gone] = await shownStates({ states: () => Promise.resolve([state({ thread_id: 'thread_2' })]) }, ws);
  expect(gone?.text).toBe('Vibe in a conversation: neutral');
});
