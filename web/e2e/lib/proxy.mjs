// A proxy that forwards requests, and WebSockets only if it is told to.
import { createServer, request } from 'node:http';
import { connect } from 'node:net';

export class Proxy {
  #server = null;
  #to;
  #sockets = new Set();
  /** True if WebSockets get through. */
  forwards = false;
  base = '';

  constructor(base) {
    this.#to = new URL(base);
  }
  async start() {
    const { hostname: host, port } = this.#to;
    this.#server = createServer((req, res) => {
      // Without its own handling of upgrades, a proxy drops the header, and the server sees a plain request.
      const headers = { ...req.headers };
      for (const name of ['connection', 'upgrade']) delete headers[name];
      const out = request({ host, port, method: req.method, path: req.url, headers }, (answer) => {
        res.writeHead(answer.statusCode, answer.rawHeaders);
        answer.pipe(res);
      });
      out.on('error', () => res.destroy());
      req.pipe(out);
    });
    this.#server.on('upgrade', (req, from, head) => {
      if (!this.forwards) return from.end('HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n');
      const to = connect(Number(port), host, () => {
        const headers = req.rawHeaders.map((text, at) => text + (at % 2 ? '\r\n' : ': ')).join('');
        to.write(`${req.method} ${req.url} HTTP/1.1\r\n${headers}\r\n`);
        to.write(head);
        to.pipe(from).pipe(to);
      });
      for (const [one, other] of [
        [to, from],
        [from, to],
      ]) {
        this.#sockets.add(one);
        one.on('error', () => other.destroy());
        one.on('close', () => this.#sockets.delete(one));
      }
    });
    await new Promise((done) => this.#server.listen(0, '127.0.0.1', done));
    this.base = `http://127.0.0.1:${this.#server.address().port}`;
    return this;
  }
  async close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }
}
