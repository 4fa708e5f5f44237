// @vitest-environment happy-dom
import { expect, test } from 'vitest';
import { inboxItem } from '../test/inbox';
import { Screen } from '../test/screen';
import { hrefOf } from './places';

const screen = new Screen();

test.each([
  ['bot_1', 'integrations'],
  ['user_1', 'members'],
  ['tool_1', 'tools'],
  [null, 'costs'],
])('a notice about %s leads to the settings page %s', (subject_id, page) => {
  const item = inboxItem({ reason: 'notice', subject_id, channel_id: null, thread_id: null });
  expect(hrefOf(item, screen.ws)).toBe(`/${screen.ws.slug}/settings/${page}`);
});
