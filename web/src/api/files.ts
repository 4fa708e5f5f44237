import type { Wire } from './api';
import { ApiError, Unreachable } from './problem';
import type { Attachment } from './types';

/** A server that says nothing for so long, while nothing moves either, is not there. */
const SILENT_MS = 60_000;

export interface Sent {
  file: Blob;
  name: string;
  /** The same again is the same file. */
  clientId: string;
  /** From 0 to 1. */
  onpart: (part: number) => void;
  signal: AbortSignal;
}

/** The calls of files: `api.part(FilesApi)`. Loaded with the first file. */
export class FilesApi {
  #wire: Wire;
  constructor(wire: Wire) {
    this.#wire = wire;
  }
  metadata(id: string): Promise<Attachment> {
    return this.#wire.call('GET', `/v1/files/${id}/metadata`, {});
  }
  remove(id: string): Promise<void> {
    return this.#wire.call('DELETE', `/v1/files/${id}`, {});
  }
}

/** `fetch` does not tell how far it is. Fails as the other calls do; with an `AbortError` when it is called off. */
export function upload(
  workspace: string,
  { file, name, clientId, onpart, signal }: Sent,
): Promise<Attachment> {
  return new Promise((done, fail) => {
    const xhr = new XMLHttpRequest();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        xhr.abort();
        fail(new Unreachable(true));
      }, SILENT_MS);
    };
    const off = () => {
      xhr.abort();
      fail(new DOMException('Called off', 'AbortError'));
    };
    signal.addEventListener('abort', off);
    xhr.onloadend = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', off);
    };
    xhr.upload.onprogress = (e) => {
      alive();
      onpart(e.total ? e.loaded / e.total : 0);
    };
    xhr.onerror = () => fail(new Unreachable(false));
    xhr.onload = () => {
      let body: unknown = null;
      try {
        body = JSON.parse(xhr.responseText);
      } catch {
        // What stands between us and the server answered.
      }
      if (xhr.status >= 200 && xhr.status < 300 && body) return done(body as Attachment);
      const wait = Number(xhr.getResponseHeader('retry-after'));
      fail(new ApiError(xhr.status, body, `The server answered ${xhr.status}.`, wait || null));
    };
    const form = new FormData();
    form.append('client_id', clientId);
    form.append('file', file, name);
    xhr.open('POST', '/v1/files');
    xhr.setRequestHeader('X-Workspace-Id', workspace);
    xhr.send(form);
    alive();
  });
}
