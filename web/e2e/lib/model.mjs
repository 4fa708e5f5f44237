// A small OpenAI-compatible model server. The text of each request controls its response, so that tests need no fixed
// waits.
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export const LONG = `Short version: **last-write-wins for each field is enough**, and it keeps the door open for more.

1. **Conflict log, 30 days.** 1,412 conflicting saves; 1,356 touched *different* fields.
2. **Same field.** 56 in all, and 49 of them in \`body\`.

| Approach | Edits lost | Effort |
|---|---|---|
| Whole note (today) | 1,412 | none |
| Each field | 56 | about 4 days |
| Full CRDT | 0 | 5 weeks |

\`\`\`rust
/// The newest stamp wins, field by field.
pub fn merge(local: &mut Note, remote: &Note) -> usize {
    let mut changed = 0;
    for (key, theirs) in &remote.fields {
        changed += local.take_newer(key, theirs);
    }
    changed
}
\`\`\`

I would ship it on Monday: two quiet days before the fair.`;

/**
 * Message of the fork that `DRAFT` resolves. `DRAFT` has the format that the server requests; `m1` is the
 * message that was forked.
 */
export const SAID =
  'We launch on Monday, because nobody deploys on a Friday. I will book the room. Who tells the press?';
export const DRAFT = {
  headline: 'We launch on Monday, because nobody deploys on a Friday',
  conclusion: 'We launch on Monday.',
  key_points: [
    { text: 'Nobody deploys on a Friday', sources: ['m2'] },
    { text: 'Vibe: two quiet days before the fair', sources: ['m2', 'm3'] },
  ],
  action_items: [{ text: 'Book the room', owner: null, due: null, sources: ['m2'] }],
  open_questions: [{ text: 'Who tells the press?', sources: ['m2'] }],
  deferred_items: [],
};

export class Model {
  #server = null;
  #held = [];
  #flaky = 0;
  #watchers = new Set();
  /** Every request body, in order, without those that name chats. */
  asked = [];
  /** Response to a request to draft the resolution of a fork. Without one, such requests are refused. */
  draft = DRAFT;
  /** Responses to requests that contain one of these words. */
  answers = new Map();
  /**
   * Tool calls before the response to a request that contains one of these words: `[text, name, arguments]`,
   * followed by more names and arguments for parallel calls.
   */
  calls = new Map();
  /** Requests that contain one of these words are refused. */
  refused = new Set();
  /** True if drafts wait for `release`. */
  holdDrafts = false;
  /** Pieces of a streamed response per second; a piece has nine characters, about two tokens. */
  rate = Infinity;
  /** Response to a request to summarize messages. Without one, such requests are refused. */
  segment = { gist: 'They talked.', items: [] };
  /** Response to a request for a catch-up. Without one, such requests are refused. */
  catchUp = null;
  /** True if summaries wait for `release`. */
  holdSegments = false;
  base = '';

  /** Starts the server; port 0 picks a free port. Fails if the port is in use. */
  async start(port = 0) {
    this.#server = createServer((req, res) => void this.#answer(req, res));
    await new Promise((done, fail) => {
      this.#server.once('error', fail);
      this.#server.listen(port, '127.0.0.1', done);
    });
    this.base = `http://127.0.0.1:${this.#server.address().port}/v1`;
    return this;
  }
  /** First matching request, past or future. */
  until(fits) {
    return new Promise((done, fail) => {
      const timer = setTimeout(() => fail(new Error('the model got no matching request')), 10_000);
      const check = () => {
        const found = this.asked.find(fits);
        if (!found) return;
        clearTimeout(timer);
        this.#watchers.delete(check);
        done(found);
      };
      this.#watchers.add(check);
      check();
    });
  }
  /** Completes all held responses. */
  release() {
    for (const go of this.#held.splice(0)) go();
  }
  async close() {
    this.release();
    this.#server.closeAllConnections();
    await new Promise((r) => this.#server.close(r));
  }

  async #answer(req, res) {
    let text = '';
    for await (const chunk of req) text += chunk;
    if (req.url.endsWith('/models')) {
      return this.#json(res, 200, { object: 'list', data: [{ id: 'scripted-1', object: 'model' }] });
    }
    if (!req.url.endsWith('/chat/completions'))
      return this.#json(res, 404, { error: { message: 'not found', type: 'invalid_request_error' } });
    const body = JSON.parse(text);
    const naming = /You name a chat/.test(String(body.messages[0].content));
    if (!naming) {
      this.asked.push(body);
      for (const check of this.#watchers) check();
    }
    const last = body.messages.findLast((message) => message.role !== 'tool' && !message.tool_calls);
    const content = String(last.content);
    // The prompt of a delegated task ends with the original request, which is not its question.
    const question = naming
      ? ''
      : /^Task from .+:$/m.test(content)
        ? content.slice(0, content.lastIndexOf('Original request:'))
        : content.split('\n\n').at(-1);
    if (/refuse/.test(question) || [...this.refused].some((word) => question.includes(word)))
      return this.#json(res, 400, { error: { message: 'I will not', type: 'invalid_request_error' } });
    if (/flaky/.test(question) && this.#flaky++ === 0)
      return this.#json(res, 503, { error: { message: 'overloaded' } });
    const drafting = /You are the resolver/.test(String(body.messages[0].content));
    if (drafting && this.holdDrafts) await new Promise((go) => this.#held.push(go));
    if (drafting && !this.draft) return this.#json(res, 400, { error: { message: 'I will not' } });
    const summarizing = /You condense a part of a team/.test(String(body.messages[0].content));
    if (summarizing && this.holdSegments) await new Promise((go) => this.#held.push(go));
    if (summarizing && !this.segment) return this.#json(res, 400, { error: { message: 'I will not' } });
    const catchingUp = /You help a person catch up/.test(String(body.messages[0].content));
    if (catchingUp && !this.catchUp) return this.#json(res, 400, { error: { message: 'I will not' } });
    const scripted = [...this.answers].find(([word]) => question.includes(word))?.[1];
    const [word, calls] = [...this.calls].find(([word]) => question.includes(word)) ?? [];
    // Earlier turns of the conversation can have called, too.
    const asked = body.messages.findLastIndex(
      (one) => one.role !== 'tool' && String(one.content).includes(word),
    );
    const called = body.messages.slice(asked).some((one) => one.role === 'tool');
    const call = called ? null : calls;
    // A chat is named by its first message.
    const whole = naming
      ? content.replace(/^Message:\n/, '').split('\n')[0]
      : call
        ? call[0]
        : drafting
          ? JSON.stringify(this.draft)
          : summarizing
            ? JSON.stringify(this.segment)
            : catchingUp
              ? JSON.stringify(this.catchUp)
              : scripted !== undefined
                ? scripted
                : /long/.test(question)
                  ? LONG
                  : /@coder/.test(question)
                    ? 'The build is **green**.'
                    : 'Monday: two quiet days before the fair.';
    if (!body.stream) {
      return this.#json(res, 200, {
        choices: [{ message: { role: 'assistant', content: whole }, finish_reason: 'stop' }],
        usage: usage(whole),
      });
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (x) =>
      res.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: body.model, ...x })}\n\n`,
      );
    const pieces = whole.match(/[\s\S]{1,9}/g) ?? [];
    const started = performance.now();
    const hold = /hold/.test(question) ? Math.ceil(pieces.length * 0.6) : Infinity;
    for (const [i, content] of pieces.entries()) {
      if (i === hold)
        await new Promise((go) => {
          this.#held.push(go);
          res.once('close', go);
        });
      const waitMs = started + (i * 1000) / this.rate - performance.now();
      if (waitMs > 0) await sleep(waitMs);
      if (res.destroyed) return;
      send({
        choices: [{ index: 0, delta: i ? { content } : { role: 'assistant', content }, finish_reason: null }],
      });
    }
    if (call) {
      const tool_calls = [];
      for (let i = 1; i < call.length; i += 2) {
        const fn = { name: call[i], arguments: JSON.stringify(call[i + 1]) };
        const index = tool_calls.length;
        tool_calls.push({ index, id: `call_${index + 1}`, type: 'function', function: fn });
      }
      send({ choices: [{ index: 0, delta: { tool_calls }, finish_reason: null }] });
    }
    const finish_reason = call ? 'tool_calls' : 'stop';
    send({ choices: [{ index: 0, delta: {}, finish_reason }], usage: usage(whole) });
    res.end('data: [DONE]\n\n');
  }
  #json(res, status, body) {
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  }
}
const usage = (text) => ({
  prompt_tokens: 800,
  completion_tokens: Math.ceil(text.length / 4),
  total_tokens: 800 + Math.ceil(text.length / 4),
});
