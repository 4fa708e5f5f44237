import { expect, test } from 'vitest';
import type { ArchiveImport, ImportChannel } from '../api/imports';
import { sizeText } from '../files/size-text';
import {
  becomesText,
  contentText,
  doneText,
  privateText,
  progressText,
  startText,
  storageText,
} from './texts';

const progress = (of: Partial<ArchiveImport>) =>
  progressText({
    state: 'running',
    phase: 'messages',
    done: 410,
    total: 1000,
    per_second: 3100,
    eta_s: 200,
    ...of,
  } as ArchiveImport);

test('progress names the part, the speed, and the time that is left', () => {
  expect(progress({})).toBe('Importing, 41 %, 3,100 per second, 4 minutes left');
  expect(progress({ eta_s: 12 })).toBe('Importing, 41 %, 3,100 per second, less than a minute left');
  expect(progress({ per_second: 0, eta_s: null })).toBe('Importing, 41 %');
  expect(progress({ phase: 'people' })).toBe('Importing people');
  expect(progress({ state: 'paused' })).toBe('Paused at 41 %');
  expect(progress({ state: 'undoing', done: 0, total: 0 })).toBe('Undoing');
});
test('what was private is named, and what its reader has to do', () => {
  expect(privateText({ private_channels: 12 }, true, 3)).toBe(
    '12 private channels: only their members will see them. You are in 3.',
  );
  expect(privateText({ private_channels: 12 }, true, 0)).toBe(
    '12 private channels: only their members will see them. You will see what you were in.',
  );
  expect(privateText({ direct_channels: 1 }, false, 0)).toBe(
    '1 direct conversation: only its members will see it. Match yourself below to see what you were in.',
  );
  expect(privateText({}, true, 0)).toBe('');
});
test('contents and results are counted', () => {
  expect(contentText({ messages: 1204, people: 1, channels: 2, files_here: 1, files_linked: 2 })).toBe(
    'Found 1,204 messages, 1 person, 2 channels, and 3 files.',
  );
  const messages = { read: 20, imported: 10, existing: 7, merged: 1, left_out: 2 };
  expect(doneText({ kinds: { messages } })).toBe('Done. 10 imported, 2 left out. 7 were here already.');
  expect(doneText({})).toBe('Done. 0 imported, 0 left out.');
});
test('the storage that an import needs is named, with what is free', () => {
  expect(storageText({ bytes_needed: 2_000_000, bytes_free: 5_000_000_000 })).toBe(
    `They need ${sizeText(2_000_000)} of storage; ${sizeText(5_000_000_000)} is free.`,
  );
  expect(storageText({ bytes_needed: 2_000_000, bytes_free: 1_000_000 })).toBe(
    `They need ${sizeText(2_000_000)}, but only ${sizeText(1_000_000)} of storage is free.`,
  );
});
test('the button names what will be imported', () => {
  const channels = [{ key: 'a' }, { key: 'b' }] as ImportChannel[];
  const preview = { counts: { messages: 1204, minutes: 6 }, channels };
  expect(startText(preview, new Set())).toBe('Import 1,204 messages, about 6 minutes');
  expect(startText(preview, new Set(['a']))).toBe('Import 1 channel');
});
test('a channel is new, joins another one, or stays private', () => {
  const channel: ImportChannel = {
    key: 'C1',
    name: 'general',
    kind: 'public',
    members: 1,
    messages: 1,
    becomes: 'joins',
    channel_id: 'chan_1',
    is_member: true,
  };
  const text = (of: Partial<ImportChannel>, leftOut = false) =>
    becomesText({ ...channel, ...of }, leftOut, () => 'general');
  expect(text({})).toBe('joins #general');
  expect(text({ becomes: 'new', channel_id: null })).toBe('new');
  expect(text({ kind: 'private', becomes: 'new' })).toBe('private');
  expect(text({}, true)).toBe('left out');
});
