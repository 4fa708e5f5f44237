/** One event of a `text/event-stream`. */
export interface ServerSent {
  event: string;
  data: string;
}

/** Takes the stream as it comes, cut anywhere, and gives whole events. Comments, ids and retry times are skipped. */
export class SseParser {
  #rest = '';
  #event = '';
  #data: string[] = [];

  push(text: string): ServerSent[] {
    const found: ServerSent[] = [];
    // A CR at the end may be half of a CRLF: it waits.
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

/** The events of a body, until it ends. */
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
    yield* parser.push('\n\n'); // one that was not closed by an empty line
  } finally {
    reader.cancel().catch(() => undefined); // whoever stops early lets the server know
  }
}
