import { expect, test, vi } from 'vitest';
import { FormulaQueue } from './queue';
import { SOURCE_MAX, toMathml } from './tex';

test('a formula becomes MathML without its source, addresses, styles, or classes', () => {
  const html = toMathml('\\frac{a}{b} + \\sqrt{x}', true);
  expect(html).toMatch(/^<math[^>]*display="block"/);
  expect(html).toContain('<mfrac>');
  expect(html).not.toMatch(/annotation|semantics|sqrt\{/);
  for (const source of ['\\href{https://a.example}{x}', '\\htmlClass{a}{x}', '\\includegraphics{a.png}'])
    expect(toMathml(source, false), source).toBeNull();
});

test('errors, long sources, and macros without end are not drawn', () => {
  expect(toMathml('\\frac{a', false)).toBeNull();
  expect(toMathml('\\def\\a{\\a\\a}\\a', false)).toBeNull();
  expect(toMathml('x'.repeat(SOURCE_MAX + 1), false)).toBeNull();
  expect(toMathml(' ', false)).toBeNull();
});

/** A worker that answers each formula except those that contain `slow`. */
class FakeWorker {
  static made = 0;
  static ended = 0;
  onmessage: ((e: MessageEvent<unknown>) => void) | null = null;
  onerror = null;
  constructor() {
    FakeWorker.made++;
    this.#answer('ready');
  }
  #answer(data: unknown): void {
    queueMicrotask(() => this.onmessage?.({ data } as MessageEvent<unknown>));
  }
  postMessage({ source }: { source: string }): void {
    if (!source.includes('slow')) this.#answer(source === 'bad' ? null : `<math>${source}</math>`);
  }
  terminate(): void {
    FakeWorker.ended++;
  }
}
const newQueue = () => {
  FakeWorker.made = FakeWorker.ended = 0;
  return new FormulaQueue(() => new FakeWorker() as unknown as Worker);
};
const of = (source: string) => ({ source, display: false });

test('formulas are rendered once, and one that cannot be drawn is known', async () => {
  const queue = newQueue();
  expect(await Promise.all(['a', 'bad', 'a'].map((x) => queue.render(of(x))))).toEqual([
    '<math>a</math>',
    null,
    '<math>a</math>',
  ]);
  expect(queue.known(of('bad'))).toBeNull();
  expect(queue.known(of('c'))).toBeUndefined();
  expect(FakeWorker.made).toBe(1);
});

test('a slow formula ends its worker, the next one is drawn, and after five no more are tried', async () => {
  vi.useFakeTimers();
  try {
    const queue = newQueue();
    const all = Promise.all(
      ['slow', 'b', 'slow2', 'slow3', 'slow4', 'slow5', 'c'].map((x) => queue.render(of(x))),
    );
    await vi.advanceTimersByTimeAsync(5 * 200);
    expect(await all).toEqual([null, '<math>b</math>', null, null, null, null, null]);
    expect(FakeWorker.made).toBe(5);
    expect(FakeWorker.ended).toBe(5);
    expect(queue.known(of('c'))).toBeUndefined();
  } finally {
    vi.useRealTimers();
  }
});
