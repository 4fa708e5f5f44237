import { expect, test, vi } from 'vitest';
import { PaintQueue } from './paint-queue';

const FAST_MS = 16;
const SLOW_MS = 60;

/** A queue whose frames are run by the test. */
function open(replies: Record<string, { visible: boolean; urgent?: boolean; broken?: boolean }>) {
  let next: ((now: number) => void) | null = null;
  let now = 0;
  let painted: string[] = [];
  const queue = new PaintQueue((f) => {
    next = f;
    return 1;
  });
  const painters = Object.entries(replies).map(([name, { visible, urgent, broken }]) => ({
    paint: () => {
      if (broken) throw new Error('broken');
      painted.push(name);
    },
    isVisible: () => visible,
    isUrgent: () => urgent ?? false,
  }));
  const run = (ms: number): string => {
    const due = next;
    next = null;
    painted = [];
    due?.((now += ms));
    return painted.join();
  };
  /** Runs one frame in which every reply has new text, and returns the painted replies. */
  const frame = (ms: number): string => {
    for (const painter of painters) queue.add(painter);
    return run(ms);
  };
  return { queue, painters, frame, run, isIdle: () => next === null };
}

test('every reply is painted once per frame while frames are fast', () => {
  const { frame } = open({ a: { visible: true }, b: { visible: true } });
  expect([frame(FAST_MS), frame(FAST_MS)]).toEqual(['a,b', 'a,b']);
});

test('one reply is painted in every third frame while frames are slow, each in turn', () => {
  const { frame } = open({ a: { visible: true }, b: { visible: true } });
  frame(FAST_MS);
  const shown = Array.from({ length: 9 }, () => frame(SLOW_MS));
  expect(shown).toEqual(['', '', 'a', '', '', 'b', '', '', 'a']);
});

test('visible replies are painted first while frames are slow', () => {
  const { frame } = open({ below: { visible: false }, a: { visible: true } });
  frame(FAST_MS);
  const shown = Array.from({ length: 6 }, () => frame(SLOW_MS));
  expect(shown).toEqual(['', '', 'a', '', '', 'a']);
});

test('every reply is painted again after three fast frames', () => {
  const { frame } = open({ a: { visible: true }, b: { visible: true } });
  frame(FAST_MS);
  frame(SLOW_MS);
  const shown = Array.from({ length: 3 }, () => frame(FAST_MS));
  expect(shown).toEqual(['', 'a', 'b,a']);
});

test('a reply that begins or ends does not wait while frames are slow', () => {
  const { frame } = open({ a: { visible: true }, end: { visible: false, urgent: true } });
  frame(FAST_MS);
  expect([frame(SLOW_MS), frame(SLOW_MS)]).toEqual(['end', 'end']);
});

test('an error in one reply does not stop the others', () => {
  vi.stubGlobal('reportError', vi.fn());
  const { frame } = open({ bad: { visible: true, broken: true }, a: { visible: true } });
  expect([frame(FAST_MS), frame(FAST_MS)]).toEqual(['a', 'a']);
  expect(reportError).toHaveBeenCalledTimes(2);
  vi.unstubAllGlobals();
});

test('a removed reply is not painted', () => {
  const { queue, painters, frame, run } = open({ a: { visible: true } });
  frame(FAST_MS);
  queue.add(painters[0]!);
  queue.remove(painters[0]!);
  expect([run(FAST_MS), run(FAST_MS), run(FAST_MS)]).toEqual(['', '', '']);
});

test('the queue stops when nothing waits', () => {
  const { frame, isIdle, run } = open({ a: { visible: true } });
  frame(FAST_MS);
  for (let n = 0; n < 3; n++) run(FAST_MS);
  expect(isIdle()).toBe(true);
});
