// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import type { TaskContext } from '../api/types';
import { Screen } from '../test/screen';
import InspectorFunctions from './InspectorFunctions.svelte';

const screen = new Screen();
const show = (given: Partial<TaskContext>) =>
  screen.show(InspectorFunctions, {
    seen: { model: 'tiny', functions_left_out: [], calls_in_text: false, ...given } as unknown as TaskContext,
  });

test('rejected functions are counted, and their reasons are for admins', () => {
  show({
    functions_left_out: [
      { name: 'create_issue', reason: 'status 400, no' },
      { name: 'wipe', reason: null },
    ],
  });
  const text = document.body.textContent ?? '';
  expect(text).toContain('2 functions left out');
  expect(text).toContain('tiny refused create_issue: status 400, no');
  expect(text).not.toContain('refused wipe');
});

test('a server that does not parse calls is named', () => {
  show({ calls_in_text: true });
  expect(document.body.textContent).toContain('tiny: the server does not parse tool calls.');
});

test('nothing is shown if all functions were offered', () => {
  show({});
  expect(document.querySelector('section')).toBeNull();
});
