import { expect, it } from 'vitest';
import type { AgentTool } from '../api/agent-types';
import { attachedTo, attachTo, collectionRows, isAttached, withCollection } from './collections';

const handbook = { id: 'vs_1', handle: 'handbook', name: 'Handbook' };
const unnamed = { id: 'vs_2', handle: null, name: '' };
const search = { type: 'file_search', vector_store_ids: ['vs_1'], max_num_results: 3 } as AgentTool;

it('lists collections, and attached names that are not available', () => {
  const rows = collectionRows([handbook, unnamed], ['vs_handbook', 'vs_gone']);
  expect(rows.map((row) => row.label)).toEqual(['Handbook', 'Unnamed', 'vs_gone (not available)']);
  expect(rows.map((row) => isAttached(row, ['vs_handbook', 'vs_gone']))).toEqual([true, false, true]);
});

it('attaches a collection by its ID, and detaches it by either name', () => {
  const [row] = collectionRows([handbook], []);
  expect(withCollection(['vs_2'], row!, true)).toEqual(['vs_2', 'vs_1']);
  expect(withCollection(['vs_handbook', 'vs_2'], row!, false)).toEqual(['vs_2']);
});

it('attaches collections to the search of an agent, or to its memory', () => {
  const memory = { summary_enabled: true, vector_store_ids: ['vs_3'] };
  const fields = { tools: [search], memory };
  expect(attachedTo(fields)).toEqual(['vs_1', 'vs_3']);
  const both = attachTo(fields, ['vs_1', 'vs_3', 'vs_4']);
  expect(both.tools[0]).toEqual({ ...search, vector_store_ids: ['vs_1', 'vs_4'] });
  expect(both.memory).toEqual(memory);
  expect(attachedTo(attachTo(fields, []))).toEqual([]);
  const without = attachTo({ tools: [], memory: null }, ['vs_1']);
  expect(without).toEqual({ tools: [], memory: { vector_store_ids: ['vs_1'] } });
  expect(attachTo({ tools: [], memory: null }, []).memory).toBeNull();
});
