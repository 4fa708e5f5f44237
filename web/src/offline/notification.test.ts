import { expect, test } from 'vitest';
import { changeOf, notificationOf } from './notification';

const push = {
  v: 1,
  item: 'inbox_1',
  tag: 'ab',
  title: 'Ada in #ops',
  body: 'hi',
  url: '/n/inbox',
  badge: 2,
};

test('a message shows a notification with its buttons, silent while a window is visible', () => {
  const shown = notificationOf(JSON.stringify(push), false);
  expect(shown.title).toBe('Ada in #ops');
  expect(shown.badge).toBe(2);
  expect(shown.options).toMatchObject({ tag: 'ab', body: 'hi', silent: false });
  expect(shown.options.data).toEqual({ url: '/n/inbox', item: 'inbox_1' });
  expect(shown.options.actions?.map((a) => a.title)).toEqual(['Done', 'Later']);
  expect(notificationOf(JSON.stringify(push), true).options.silent).toBe(true);
});
test.each(['', 'not JSON', '{}', '{"url":"https://evil.example"}'])(
  'a message that cannot be read, %j, shows one, too, and leads to the start',
  (text) => {
    const shown = notificationOf(text, false);
    expect(shown.title).toBe('New message');
    expect(shown.options.data).toEqual({ url: '/', item: null });
    expect(shown.options.actions).toBeUndefined();
  },
);
test('buttons close an item or postpone it', () => {
  expect(changeOf('done', 'inbox_1')).toEqual({ ids: ['inbox_1'], state: 'done' });
  const later = changeOf('later', 'inbox_1', new Date(2026, 10, 28, 23, 30)) as { until: string };
  expect(new Date(later.until)).toEqual(new Date(2026, 10, 29, 9));
  expect(changeOf('', 'inbox_1')).toBeNull();
});
