import { expect, test } from 'vitest';
import { ApiError, Unreachable } from '../api/problem';
import { PIECE_BYTES, sendArchive } from './send-archive';

const MB = 1024 * 1024;
const refusal = (status: number, code: string) => new ApiError(status, { error: { code } }, '');

/** Sends 20 MiB to a server that has `received` and fails as scripted; returns the pieces and the waits. */
async function sent(received: number, faults: (Error | null)[] = [], size = 20 * MB) {
  const pieces: [number, number][] = [];
  const waits: number[] = [];
  let known = received;
  const end = sendArchive({
    size,
    received,
    position: () => Promise.resolve(known),
    wait: (ms) => Promise.resolve(void waits.push(ms)),
    send: (from, to) => {
      pieces.push([from / MB, to / MB]);
      const fault = faults.shift();
      if (fault) return Promise.reject(fault);
      known = Math.max(known, to);
      return Promise.resolve(known);
    },
  });
  const problem = await end.then(
    () => null,
    (e: unknown) => e,
  );
  return { pieces, waits, problem };
}

test('an archive is sent in pieces of 8 MiB', async () => {
  expect(PIECE_BYTES).toBe(8 * MB);
  expect((await sent(0)).pieces).toEqual([
    [0, 8],
    [8, 16],
    [16, 20],
  ]);
});
test('an upload goes on where the server is', async () => {
  expect((await sent(12 * MB)).pieces).toEqual([[12, 20]]);
  // Everything was received, and the archive was not checked.
  expect((await sent(20 * MB)).pieces).toEqual([[20 - 1 / MB, 20]]);
});
test('a piece is sent again after a lost connection, each time after a longer pause', async () => {
  const lost = new Unreachable(false);
  const { pieces, waits, problem } = await sent(0, [null, lost, lost]);
  expect([pieces, waits, problem]).toEqual([
    [
      [0, 8],
      [8, 16],
      [8, 16],
      [8, 16],
      [16, 20],
    ],
    [1000, 2000],
    null,
  ]);
});
test('a wrong offset is corrected without a pause', async () => {
  const { waits, problem } = await sent(0, [refusal(409, 'wrong_offset')]);
  expect([waits, problem]).toEqual([[], null]);
});
test('a refusal ends the upload, and so does a server that fails all the time', async () => {
  const unknown = refusal(422, 'unknown_archive');
  expect(await sent(16 * MB, [unknown])).toMatchObject({ problem: unknown, waits: [] });
  const fault = refusal(500, 'internal');
  const { problem, pieces } = await sent(0, Array<Error>(20).fill(fault));
  expect([problem, pieces.length]).toEqual([fault, 6]);
});
