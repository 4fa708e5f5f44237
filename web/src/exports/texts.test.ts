import { expect, test } from 'vitest';
import type { WorkspaceExport } from '../api/exports';
import { AT } from '../test/make';
import { isReady, progressText, readyText } from './texts';

const made = (x: Partial<WorkspaceExport> = {}): WorkspaceExport => ({
  object: 'export',
  id: 'exp_1',
  scope: 'public',
  files: true,
  format: 'openvibe',
  state: 'running',
  counts: {},
  size_bytes: 0,
  problem: null,
  created_by: 'user_me',
  created_at: AT,
  finished_at: null,
  expires_at: null,
  ...x,
});

test('the progress has what is in the archive', () => {
  expect(progressText(made())).toBe('Writing the archive, 0 bytes');
  const half = made({ counts: { channels: 3, messages: 1200 }, size_bytes: 2048 });
  expect(progressText(half)).toBe('Writing the archive, 1,200 messages, 2 KB');
});
test('an archive is ready until it expires', () => {
  const done = made({ state: 'done', size_bytes: 2048, expires_at: '2026-01-06T09:00:00.000Z' });
  expect(isReady(done, Date.parse(AT))).toBe(true);
  expect(isReady(done, Date.parse('2026-01-06T09:00:01.000Z'))).toBe(false);
  expect(isReady(made({ state: 'failed' }))).toBe(false);
  const at = (local: string) =>
    readyText({ ...done, expires_at: new Date(local).toISOString() }, new Date('2026-01-05T10:00'));
  expect(at('2026-01-06T09:24')).toBe('2 KB. Ready until tomorrow, 09:24.');
  expect(at('2026-01-05T23:59')).toBe('2 KB. Ready until today, 23:59.');
});
