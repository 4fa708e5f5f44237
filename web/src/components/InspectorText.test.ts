// @vitest-environment happy-dom
import { screen as page, within } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { TaskContext } from '../api/types';
import { Screen } from '../test/screen';
import InspectorText from './InspectorText.svelte';

const screen = new Screen();
const system = { text: 'You are Sage.', hidden: false, tokens: 4, parts: [] };
const show = (given: Pick<TaskContext, 'tools' | 'turns'>) =>
  screen.show(InspectorText, { seen: { system, ...given } as unknown as TaskContext });

test('the functions that were offered are shown as sent, and calls with their names', () => {
  const parameters = { type: 'object', properties: { summary: { type: 'string' } } };
  show({
    tools: [
      { name: 'jira__create_issue', description: 'Creates an\u202e issue', parameters },
      { name: 'delegate', description: null, parameters: null },
    ],
    turns: [{ role: 'assistant', content: 'jira__create_issue {"summary":"Offline sync"}' }],
  });
  const names = page.getAllByRole('heading', { level: 4, hidden: true });
  expect(names.map((name) => name.textContent)).toEqual(['jira__create_issue', 'delegate']);
  expect(page.getByText('Creates an\\u{202E} issue')).toBeTruthy();
  const shown = page.getByRole('region', { name: 'Arguments of jira__create_issue', hidden: true });
  expect(JSON.parse(shown.textContent ?? '')).toEqual(parameters);
  expect(page.getByText('jira__create_issue {"summary":"Offline sync"}')).toBeTruthy();
});
test('nothing is shown if no function was offered', () => {
  show({ tools: [], turns: [] });
  expect(within(document.body).queryByText('Functions')).toBeNull();
});
