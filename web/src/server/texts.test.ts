import { expect, test } from 'vitest';
import type { Check, ServerInfo } from '../api/server';
import { backups, certificate, serverInfo } from '../test/make-server';
import {
  agoText,
  backupText,
  certificateProblem,
  certificateText,
  checkName,
  checksText,
  dateText,
  dayText,
  diskText,
  nextBackupText,
  nextText,
  sorted,
  updateText,
  versionText,
} from './texts';

/** A Wednesday. */
const NOW = new Date('2026-05-06T10:30:00');
const check = (x: Partial<Check> = {}): Check => ({
  name: 'dns',
  state: 'ok',
  text: '',
  hint: null,
  ms: 1,
  ...x,
});

test('days and times are relative as long as that is clear', () => {
  expect(dateText('2026-05-03T09:00:00', NOW)).toBe('May 3');
  expect(dateText('2027-05-03T09:00:00', NOW)).toBe('May 3, 2027');
  const ago = (iso: string) => agoText(iso, NOW);
  expect(ago('2026-05-06T10:29:30')).toBe('just now');
  expect(ago('2026-05-06T10:29:00')).toBe('1 minute ago');
  expect(ago('2026-05-06T03:30:00')).toBe('7 hours ago');
  expect(ago('2026-05-03T10:30:00')).toBe('3 days ago');
  const day = (iso: string) => dayText(iso, NOW);
  expect(day('2026-05-06T00:10:00')).toBe('today');
  expect(day('2026-05-05T23:50:00')).toBe('yesterday');
  expect(day('2026-05-03T04:00:00')).toBe('on Sunday');
  expect(day('2026-04-29T04:00:00')).toBe('on April 29');
  const next = (iso: string) => nextText(iso, NOW);
  expect(next('2026-05-06T23:30:00')).toBe('at 23:30');
  expect(next('2026-05-07T03:30:00')).toBe('tomorrow at 03:30');
  expect(next('2026-05-09T03:30:00')).toBe('on May 9 at 03:30');
});
test('the version names the commit and the origin', () => {
  expect(versionText(serverInfo(), NOW)).toBe(
    'OpenVibe 1.3.0 (4f32632), from the Debian package. Started 3 days ago.',
  );
  expect(versionText(serverInfo({ commit: null, installed: 'binary' }), NOW)).toBe(
    'OpenVibe 1.3.0. Started 3 days ago.',
  );
});
test('a certificate says until when it is valid, and who renews it', () => {
  const text = (x: Parameters<typeof certificate>[0]) => certificateText(certificate(x), NOW);
  expect(text({ expires_at: '2026-05-30T09:00:00', renew_at: '2026-05-10T09:00:00' })).toEqual({
    tone: 'ok',
    text: 'Valid until May 30, renews itself on May 10.',
  });
  expect(text({ source: 'files', renew_at: null }).text).toBe(
    'Valid until August 3. Replace its files before then: they are read again within a minute.',
  );
  expect(text({ source: 'files', expires_at: '2026-05-06T10:00:00' })).toEqual({
    tone: 'bad',
    text: 'Expired on May 6.',
  });
  expect(text({ source: 'proxy', state: null }).text).toContain('A proxy in front of this server');
  expect(text({ source: 'none', state: null }).tone).toBe('wait');
  expect(text({ state: 'pending', expires_at: null }).text).toBe(
    'The first certificate for chat.example.org is being ordered.',
  );
  expect(text({ state: 'failing' })).toEqual({
    tone: 'bad',
    text: 'Valid until August 3, and could not be renewed.',
  });
  expect(text({ state: 'failing', expires_at: null }).text).toBe('There is no certificate.');
});
test('the cause of a failed order comes with the next attempt', () => {
  const error = {
    reason: 'connect' as const,
    text: 'Let’s Encrypt could not connect to chat.example.org: open the port',
  };
  expect(certificateProblem(certificate(), NOW)).toBe('');
  expect(certificateProblem(certificate({ error, next_attempt_at: '2026-05-06T11:30:00' }), NOW)).toBe(
    'Let’s Encrypt could not connect to chat.example.org: open the port. The next attempt is at 11:30.',
  );
});
test('backups name the last one and its test', () => {
  const text = (x: Parameters<typeof backups>[0]) => backupText(backups(x), NOW);
  const drill = { name: 'a.ovb', at: '2026-05-05T04:00:00', fault: null, skipped: null };
  expect(text({})).toEqual({
    tone: 'ok',
    text: 'Last backup 7 hours ago, 212 MB. Restored and compared on Sunday.',
  });
  expect(text({ drill: null }).text).toBe('Last backup 7 hours ago, 212 MB. Not tested yet.');
  expect(text({ drill: { ...drill, fault: 'messages has 41 rows instead of 42' } })).toEqual({
    tone: 'bad',
    text: 'Last backup 7 hours ago, 212 MB. The test yesterday found a fault: messages has 41 rows instead of 42.',
  });
  expect(text({ drill: { ...drill, skipped: 'too little free space' } })).toEqual({
    tone: 'wait',
    text: 'Last backup 7 hours ago, 212 MB. Not tested yesterday: too little free space.',
  });
  expect(text({ last: null, drill: null }).text).toBe('There is no backup yet.');
  expect(text({ to: null, last: null }).text).toContain('set OPENVIBE_BACKUP_TO');
});
test('the next backup, and the cause of a failure, are shown', () => {
  expect(nextBackupText(backups(), NOW)).toBe('Next backup tomorrow at 03:30.');
  expect(nextBackupText(backups({ error: 'the disk is full' }), NOW)).toBe(
    'The newest backup failed: the disk is full. Next backup tomorrow at 03:30.',
  );
  expect(nextBackupText(backups({ to: null, next_at: null }), NOW)).toBe('');
});
test('checks that need attention come first, and are counted', () => {
  const checks = [
    check(),
    check({ name: 'mail', state: 'skipped' }),
    check({ name: 'public', state: 'failed' }),
    check({ name: 'data', state: 'warning' }),
  ];
  expect(sorted(checks).map((c) => c.name)).toEqual(['public', 'data', 'dns', 'mail']);
  expect(checksText(checks, '2026-05-06T10:00:00', NOW)).toBe('Checked 30 minutes ago: 1 failed, 1 warning.');
  expect(checksText([check()], '2026-05-06T10:30:00', NOW)).toBe('Checked just now: nothing is wrong.');
  expect(checksText(null, null)).toBe('Not checked yet.');
  expect(checkName('sign_in')).toBe('Sign in');
});
test('the disk is bad once it is full within a week', () => {
  expect(diskText(serverInfo())).toEqual({
    tone: 'ok',
    text: '120 GB free. The SQLite database has 3 MB.',
  });
  const disk = { free_bytes: 1024 ** 3, days_left: 6, uploads_paused: false };
  expect(diskText(serverInfo({ disk }))).toEqual({
    tone: 'bad',
    text: '1 GB free. At this rate, the disk is full in 6 days. The SQLite database has 3 MB.',
  });
  expect(diskText(serverInfo({ disk: { ...disk, uploads_paused: true } }))).toEqual({
    tone: 'bad',
    text: '1 GB free: uploads are paused. The SQLite database has 3 MB.',
  });
  expect(diskText(serverInfo({ disk: { ...disk, free_bytes: null, days_left: null } })).text).toContain(
    'cannot be measured',
  );
});
test('a newer version is named with the command that installs it', () => {
  const update = { enabled: true, latest: '1.4.0', security: false, notes_url: null, error: null };
  const text = (x: Partial<ServerInfo['update']>) => updateText(serverInfo({ update: { ...update, ...x } }));
  expect(text({})).toEqual({ tone: 'wait', text: '1.4.0 is available: sudo openvibe update' });
  expect(text({ security: true })?.text).toBe('1.4.0, a security update, is available: sudo openvibe update');
  expect(text({ latest: '1.3.0' })).toBeNull();
  expect(text({ latest: null, error: 'the release is not signed' })?.text).toBe(
    'Could not look for updates: the release is not signed.',
  );
});
