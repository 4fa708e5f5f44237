import { expect, test } from 'vitest';
import type { PushStatus } from '../api/push';
import { bytesOf, createdAt, tagOf } from './ids';
import { repairOf } from './repair';

const device = {
  id: 'device_a',
  endpoint: 'https://push/a',
  label: '',
  created_at: '',
  is_current: true,
  refused_until: null,
};
const gone = { at: '', reason: null, device_id: 'device_a', state: 'gone' as const, status: 410, answer: '' };
const status = (of: Partial<PushStatus> = {}): PushStatus => ({
  available: true,
  reason: null,
  public_key: 'key',
  subject_ok: true,
  devices: [device],
  recent: [],
  mail_problem: null,
  answers: [],
  ...of,
});
const own = { endpoint: 'https://push/a', key: 'key' };

test.each([
  ['works', 'device_a', own, status(), 'keep'],
  ['is known without its ID, as after a change by the browser', null, own, status(), 'keep'],
  ['was lost in the browser', 'device_a', null, status(), 'subscribe'],
  ['has an old key', 'device_a', { ...own, key: 'old' }, status(), 'subscribe'],
  ['has another address', 'device_a', { ...own, endpoint: 'https://push/b' }, status(), 'subscribe'],
  ['ended at the push service', 'device_a', own, status({ devices: [], recent: [gone] }), 'subscribe'],
  ['was removed in another browser', 'device_a', own, status({ devices: [] }), 'forget'],
  ['was removed here', null, null, status({ devices: [] }), 'none'],
  ['cannot be repaired without a key', 'device_a', null, status({ available: false }), 'none'],
] as const)('a subscription that %s', (_, wanted, sub, from, act) => {
  expect(repairOf('granted', wanted, sub, from).act).toBe(act);
});
test('nothing is done without the permission', () => {
  expect(repairOf('denied', 'device_a', own, status()).act).toBe('none');
  expect(repairOf('default', 'device_a', null, status()).act).toBe('none');
});
test('IDs have a time, and tags are the same as those of the server', async () => {
  expect([...bytesOf('thread_01h455vb4pex5vsknk084sn02q')].slice(0, 2)).toEqual([0x01, 0x89]);
  expect(new Date(createdAt('user_01h455vb4pex5vsknk084sn02q')).toISOString().slice(0, 7)).toBe('2023-06');
  expect(await tagOf('thread_00000000000000000000000000')).toBe(
    '68f04a6c7544a13c9969b387e87ac460', // src/push/payload.rs has the same value
  );
});
