// A mail server that keeps what it receives.
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';

export class Mail {
  #server;
  #waiting = [];
  received = [];
  url = '';

  async start() {
    this.#server = createServer((socket) => void this.#converse(socket).catch(() => {}));
    await new Promise((done) => this.#server.listen(0, '127.0.0.1', done));
    this.url = `smtp://127.0.0.1:${this.#server.address().port}`;
    return this;
  }
  close() {
    this.#server.close();
  }
  /** Waits for an email with a link to this path; returns the path with its token. */
  link(path) {
    const pattern = new RegExp(`${path}[\\w-]+`);
    return new Promise((done) => {
      this.#waiting.push((text) => pattern.test(text) && done(pattern.exec(text)[0]));
      this.#tell();
    });
  }
  #tell() {
    for (const text of this.received) for (const look of this.#waiting) look(text);
  }
  async #converse(socket) {
    socket.write('220 mail.example.org\r\n');
    let text = null;
    for await (const line of createInterface({ input: socket })) {
      if (text !== null && line !== '.') {
        text += `${line}\n`;
      } else if (text !== null) {
        this.received.push(text.replaceAll('=\n', '').replaceAll('=3D', '='));
        text = null;
        socket.write('250 queued\r\n');
        this.#tell();
      } else if (line === 'DATA') {
        text = '';
        socket.write('354 go on\r\n');
      } else {
        socket.write('250 ok\r\n');
      }
    }
  }
}
