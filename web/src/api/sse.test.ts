import { expect, test } from 'vitest';
import { serverSent, SseParser } from './sse';

const STREAM =
  ': hello\n\nevent: response.created\ndata: {"a":1}\n\nid: 7\ndata: one\ndata: two\n\ndata:[DONE]\n\n';
const EVENTS = [
  { event: 'response.created', data: '{"a":1}' },
  { event: 'message', data: 'one\ntwo' },
  { event: 'message', data: '[DONE]' },
];

test('a stream is parsed the same wherever it is cut, and with any line ending', () => {
  for (const ends of ['\n', '\r\n']) {
    const text = STREAM.replaceAll('\n', ends);
    for (const size of [1, 2, 3, 7, text.length]) {
      const parser = new SseParser();
      const found = [];
      for (let i = 0; i < text.length; i += size) found.push(...parser.push(text.slice(i, i + size)));
      expect(found, `${size} at a time`).toEqual(EVENTS);
    }
  }
});

test('multi-byte characters survive a cut; the last event needs no empty line', async () => {
  const bytes = new TextEncoder().encode('data: größer 🎉\n');
  const body = new ReadableStream<Uint8Array>({
    start(c) {
      for (const b of bytes) c.enqueue(new Uint8Array([b]));
      c.close();
    },
  });
  const found = [];
  for await (const e of serverSent(body)) found.push(e);
  expect(found).toEqual([{ event: 'message', data: 'größer 🎉' }]);
});

test('a consumer that stops reading cancels the stream', async () => {
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (c) => c.enqueue(new TextEncoder().encode('data: a\n\ndata: b\n\n')),
    cancel: () => void (cancelled = true),
  });
  for await (const e of serverSent(body)) {
    expect(e.data).toBe('a');
    break;
  }
  expect(cancelled).toBe(true);
});
