import { expect, test } from 'vitest';
import { ApiError } from '../api/problem';
import { Confirmation } from './confirmation.svelte';

const needed = () => new ApiError(403, { error: { code: 'confirmation_required' } }, '');
/** A change that is refused until the person is confirmed. */
function guarded() {
  const state = { isConfirmed: false, tries: 0 };
  const change = () => {
    state.tries++;
    return state.isConfirmed ? Promise.resolve('done') : Promise.reject(needed());
  };
  return { state, change };
}

test('a change is made again after the confirmation', async () => {
  const [confirmation, { state, change }] = [new Confirmation(), guarded()];
  const made = confirmation.run(change);
  await expect.poll(() => confirmation.settle).not.toBeNull();
  state.isConfirmed = true;
  confirmation.settle?.(true);
  expect(await made).toBe('done');
  expect(state.tries).toBe(2);
  expect(confirmation.settle).toBeNull();
});
test('a person who declines changes nothing', async () => {
  const [confirmation, { state, change }] = [new Confirmation(), guarded()];
  const made = confirmation.run(change);
  await expect.poll(() => confirmation.settle).not.toBeNull();
  confirmation.settle?.(false);
  expect(await made).toBeNull();
  expect(state.tries).toBe(1);
});
test('other errors are not questions', async () => {
  const confirmation = new Confirmation();
  await expect(confirmation.run(() => Promise.reject(new ApiError(409, {}, 'taken')))).rejects.toThrow(
    'taken',
  );
  expect(confirmation.settle).toBeNull();
});
