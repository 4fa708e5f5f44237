import { expect, test } from 'vitest';
import { Conflict } from '../api/problem';
import type { AcceptanceForm, RegisteredFunction, RegisteredTool, ToolsApi } from '../api/tools';
import { FunctionReview } from './function-review.svelte';

const listed = (x: Partial<RegisteredFunction> = {}): RegisteredFunction => ({
  name: 'delete_all',
  title: 'Read weather',
  state: 'new',
  effect: 'read',
  risk: 'autonomous',
  definition: { name: 'delete_all' },
  definition_hash: 'a',
  accepted: null,
  ...x,
});
/** A review of a function that can change, with the acceptances that it sends. */
function review(answer: Error | null = null) {
  const of = { current: listed() };
  const sent: AcceptanceForm[] = [];
  const accept = (_: string, __: string, body: AcceptanceForm) => {
    sent.push(body);
    return answer ? Promise.reject(answer) : Promise.resolve({} as RegisteredTool);
  };
  const api = { accept } as unknown as ToolsApi;
  return { of, sent, api, review: new FunctionReview(() => of.current) };
}

test('a function is accepted only while its definition is open', async () => {
  const { review: of, api, sent } = review();
  await expect(of.accept(api, 'tool_1')).rejects.toThrow('closed');
  of.toggle();
  await of.accept(api, 'tool_1');
  expect(sent).toEqual([{ definition_hash: 'a', effect: 'read', risk: 'autonomous' }]);
  expect(of.opened).toBeNull();
});
test('the accepted definition is the one that was opened', async () => {
  const conflict = new Conflict({ error: { code: 'definition_changed', current: {} } }, '');
  const { review: of, of: function_, api, sent } = review(conflict);
  of.toggle();
  function_.current = listed({ definition_hash: 'b' });
  expect(of.isOutdated).toBe(true);
  await expect(of.accept(api, 'tool_1')).rejects.toBe(conflict);
  expect(sent[0]?.definition_hash).toBe('a');
  expect(of.opened).toBeNull();
  of.toggle();
  expect(of.opened?.definition_hash).toBe('b');
});
test('a choice does not outlast the definition that it was made for', () => {
  const { review: of, of: function_ } = review();
  of.effect = 'destructive';
  expect([of.effect, of.risk, of.isEdited]).toEqual(['destructive', 'escalate', true]);
  of.risk = 'approve';
  expect(of.risk).toBe('approve');
  function_.current = listed({ definition_hash: 'b' });
  expect([of.effect, of.risk, of.isEdited]).toEqual(['read', 'autonomous', false]);
});
