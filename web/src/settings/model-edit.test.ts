import { expect, test } from 'vitest';
import type { AdminApi } from '../api/admin';
import type { ModelConnection, ModelForm } from '../api/admin-types';
import { ApiError, Conflict } from '../api/problem';
import { AT } from '../test/make';
import { modelsOf } from './model-text';
import { ModelEdit } from './model-edit.svelte';

const stored = (x: Partial<ModelConnection> = {}): ModelConnection => ({
  provider: 'other',
  base_url: 'http://127.0.0.1:8000/v1',
  model: null,
  utility_model: null,
  key_set: true,
  source: 'settings',
  status: 'ok',
  checked_at: AT,
  version: 3,
  ...x,
});
/** A form whose requests get this response. */
const edit = (answer: ModelConnection | Error, from = stored()) => {
  const sent: [number, ModelForm][] = [];
  const putModel = (_: string, version: number, body: ModelForm) => {
    sent.push([version, body]);
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { sent, form: new ModelEdit({ putModel } as unknown as AdminApi, 'ws_1', from) };
};
const refusal = (code: string, param: string) =>
  new ApiError(422, { error: { code, param, message: 'no' } }, '');

test('the stored key is kept, replaced, or removed, and never shown', async () => {
  const { form, sent } = edit(stored({ version: 4 }));
  expect(form.key).toBe('');
  await form.save();
  form.key = ' sk-new ';
  await form.save();
  expect(form.key).toBe('');
  form.removeKey = true;
  await form.save();
  expect(sent.map(([version]) => version)).toEqual([3, 4, 4]);
  expect(sent.map(([, body]) => body.api_key)).toEqual([undefined, 'sk-new', null]);
});
test('a stored key is not offered for another server', () => {
  const { form } = edit(stored());
  expect(form.keepsKey).toBe(true);
  form.address = 'http://127.0.0.1:8000/other';
  expect(form.keepsKey).toBe(true);
  form.address = 'http://127.0.0.1:8001/v1';
  expect(form.keepsKey).toBe(false);
  form.provider = 'openai';
  expect(form.keepsKey).toBe(false);
});
test('an error is shown beside its field; only a failed test can be ignored', async () => {
  const down = edit(refusal('unreachable', 'base_url'));
  expect(await down.form.save()).toBe(false);
  expect(down.form.errors).toEqual({ base_url: 'No' });
  expect(down.form.failed).toBe(true);
  const denied = edit(refusal('address_not_allowed', 'base_url'));
  await denied.form.save(true);
  expect(denied.sent[0]![1].force).toBe(true);
  expect(denied.form.failed).toBe(false);
  const vendor = edit(refusal('unreachable', 'base_url'), stored({ provider: 'openai' }));
  await vendor.form.save();
  expect(vendor.form.errors).toEqual({});
  expect(vendor.form.problem).toBe('No');
});
test('after a conflict, the typed values apply to the current version', async () => {
  const now = stored({ version: 7, model: 'theirs' });
  const { form, sent } = edit(new Conflict({ error: { code: 'version_conflict', current: now } }, ''));
  form.model = 'mine';
  await form.save();
  expect(form.problem).toContain('changed in the meantime');
  expect(form.model).toBe('mine');
  await form.save();
  expect(sent.map(([version]) => version)).toEqual([3, 7]);
});
test('a few models of a server are named', () => {
  const of = (...models: string[]) => modelsOf({ base_url: '', models });
  expect([of('a'), of('a', 'b'), of('a', 'b', 'c', 'd')]).toEqual(['a', 'a and b', 'a, b, and 2 more']);
});
