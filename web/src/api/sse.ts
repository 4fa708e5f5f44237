/** One event of a `text/event-stream`. */
export interface ServerSent {
  event: string;
  data: string;
}

/** Parses a stream that arrives in arbitrary pieces into events. Comments, IDs, and retry times are ignored. */
export class SseParser {
  #rest = '';
  #event = '';
  #data: string[] = [];

  push(text: string): ServerSent[] {
    const found: ServerSent[] = [];
    // A CR at the end may be the first half of a CRLF.
    const whole = this.#rest + text;
    const lines = whole.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop()!;
    for (const line of lines) {
      if (line !== '') this.#line(line);
      else this.#end(found);
    }
    return found;
  }
  #line(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event = value;
    else if (field === 'data') this.#data.push(value);
  }
  #end(found: ServerSent[]): void {
    if (this.#data.length) found.push({ event: this.#event || 'message', data: this.#data.join('\n') });
    this.#event = '';
    this.#data = [];
  }
}

/** Events of a body, until it ends. */
export async function* serverSent(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerSent> {
  const parser = new SseParser();
  const reader = body.getReader();
  const decoder = new TextDecoder();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
    yield* parser.push('\n\n'); // completes a last event without an empty line
  } finally {
    reader.cancel().catch(() => undefined); // when the consumer stops early, the request is canceled
  }
}
