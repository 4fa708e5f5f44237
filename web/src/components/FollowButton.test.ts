// @vitest-environment happy-dom
import { screen as page } from '@testing-library/svelte';
import { expect, test } from 'vitest';
import type { Follow } from '../api/types';
import { fork, thread } from '../test/make';
import { Screen } from '../test/screen';
import FollowButton from './FollowButton.svelte';

const screen = new Screen();

test.each<[Follow, string, string]>([
  [
    { level: 'all', cause: 'wrote' },
    'Unfollow this thread',
    'You follow this thread because you wrote in it.',
  ],
  [
    { level: 'all', cause: 'mentioned' },
    'Unfollow this thread',
    'You follow this thread because you were mentioned in it.',
  ],
  [
    { level: 'none', cause: 'manual' },
    'Unmute this thread',
    'Only mentions reach your inbox, without a notification.',
  ],
  [{ level: 'mentions', cause: null }, 'Follow this thread', 'You are notified of mentions only.'],
])('the bell of a thread with %j says why', (follow, name, why) => {
  screen.show(FollowButton, { thread: thread({ follow }) });
  expect(page.getByRole('button', { name }).title).toBe(`${name}. ${why}`);
});
test('a dive that the user started is followed', () => {
  screen.show(FollowButton, { fork: fork({ follow: { level: 'all', cause: 'fork' } }) });
  const { title } = page.getByRole('button', { name: 'Unfollow this dive' });
  expect(title).toBe('Unfollow this dive. You follow this dive because you started it.');
});
