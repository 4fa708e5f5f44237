import { expect, test } from 'vitest';
import type { AdminApi } from '../api/admin';
import type { EmbeddingConnection, EmbeddingForm } from '../api/admin-types';
import { ApiError, Conflict } from '../api/problem';
import { MeaningEdit, meaningText } from './meaning-edit.svelte';

const stored = (x: Partial<EmbeddingConnection> = {}): EmbeddingConnection => ({
  base_url: 'http://127.0.0.1:11434/v1',
  model: 'nomic-embed-text',
  key_set: true,
  source: 'settings',
  status: 'ready',
  error: null,
  retry_at: null,
  dimensions: 768,
  pending: 0,
  done: 12,
  version: 3,
  ...x,
});
/** A form whose requests get this response. */
const edit = (answer: EmbeddingConnection | Error, from = stored()) => {
  const sent: [number, EmbeddingForm][] = [];
  const putEmbeddings = (_: string, version: number, body: EmbeddingForm) => {
    sent.push([version, body]);
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { sent, form: new MeaningEdit({ putEmbeddings } as unknown as AdminApi, 'ws_1', from) };
};

test('the state is a sentence', () => {
  expect(meaningText(stored({ status: 'off' }))).toBe('Files are searched by words alone.');
  expect(meaningText(stored({ status: 'waiting', pending: 412, error: '401 from the server' }))).toBe(
    '412 passages wait: 401 from the server',
  );
  expect(meaningText(stored({ status: 'filling', done: 1, pending: 3 }))).toBe(
    '1 passage of 4 can be found by meaning.',
  );
  expect(meaningText(stored({ status: 'no_memory' }))).toContain('searched by words alone');
  expect(meaningText(stored())).toBe('12 passages can be found by meaning.');
});
test('an empty address means the model server, and an empty key keeps the stored one', async () => {
  const { form, sent } = edit(stored({ version: 4 }));
  expect(form.key).toBe('');
  form.address = ' ';
  await form.save();
  expect(sent).toEqual([[3, { base_url: null, model: 'nomic-embed-text' }]]);
  form.key = ' sk-new ';
  await form.save();
  expect(sent[1]).toEqual([
    4,
    { base_url: 'http://127.0.0.1:11434/v1', model: 'nomic-embed-text', api_key: 'sk-new' },
  ]);
  expect(form.key).toBe('');
});
test('errors are beside their fields, and the typed values stay', async () => {
  const refusal = new ApiError(422, { error: { code: 'no_model', param: 'model', message: 'no' } }, '');
  const { form } = edit(refusal);
  form.model = 'other';
  expect(await form.save()).toBe(false);
  expect(form.errors).toEqual({ model: 'No' });
  expect(form.model).toBe('other');
});
test('after a change by somebody else, saving again replaces it', async () => {
  const current = stored({ version: 7 });
  const stale = new Conflict({ error: { code: 'version_conflict', message: 'no', current } }, '');
  const { form, sent } = edit(stale);
  expect(await form.save()).toBe(false);
  expect(form.problem).toContain('Save again');
  await form.save();
  expect(sent.map(([version]) => version)).toEqual([3, 7]);
});
