import { at, type Transport } from './http';
import { ApiError, Unreachable, statusText } from './problem';
import type { components } from './schema';
import type { Attachment } from './types';

type S = components['schemas'];
/** A part of the text of a file. */
export type FileText = S['FileText'];

/** Time without any progress or response after which an upload fails. */
const SILENT_MS = 60_000;

/** Progress and cancellation of a request that sends bytes. */
export interface Sending {
  /** Receives the progress, from 0 to 1. */
  onpart: (part: number) => void;
  signal: AbortSignal;
}

export interface Sent extends Sending {
  file: Blob;
  name: string;
  /** An upload with the same ID creates the file only once. */
  clientId: string;
}

/** API client for file uploads, `api.part(FilesApi)`. Loaded with the first file. */
export class FilesApi {
  #transport: Transport;
  constructor(transport: Transport) {
    this.#transport = transport;
  }
  /** Sets the description of an own file; an empty one removes it. */
  describe(id: string, alt: string): Promise<S['UploadedFile']> {
    const { http, take } = this.#transport;
    return take(http.PATCH('/v1/files/{id}', { ...at({ id }), body: { alt } }));
  }
  /** Suggests a description; nothing is stored. */
  async suggest(id: string): Promise<string> {
    const { http, take } = this.#transport;
    return (await take(http.POST('/v1/files/{id}/suggest-alt', at({ id })))).alt;
  }
  metadata(id: string): Promise<S['FileMetadata']> {
    const { http, take } = this.#transport;
    return take(http.GET('/v1/files/{id}/metadata', at({ id })));
  }
  /** A part of the text; by default, the first one that contains `q`, or else the first one. */
  text(id: string, query: { part?: number; q?: string } = {}): Promise<FileText> {
    const { http, take } = this.#transport;
    return take(http.GET('/v1/files/{id}/text', { params: { path: { id }, query } }));
  }
  /** The first bytes of a file, at most `max` of them, even if a proxy ignores the range. */
  async head(id: string, max: number): Promise<Uint8Array> {
    const { http, take } = this.#transport;
    const params = { path: { id }, header: { Range: `bytes=0-${max - 1}` } };
    const body = await take(http.GET('/v1/files/{id}', { params, parseAs: 'stream' }));
    return body ? firstBytes(body, max) : new Uint8Array();
  }
  async remove(id: string): Promise<void> {
    const { http, take } = this.#transport;
    await take(http.DELETE('/v1/files/{id}', at({ id })));
  }
}

async function firstBytes(body: ReadableStream<Uint8Array>, max: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(max);
  const reader = body.getReader();
  let length = 0;
  while (length < max) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, max - length);
    bytes.set(part, length);
    length += part.length;
  }
  reader.cancel().catch(() => undefined); // the rest is not needed
  return bytes.subarray(0, length);
}

export interface SentBytes extends Sending {
  method: 'POST' | 'PUT';
  path: string;
  headers: Record<string, string>;
  body: FormData | Blob;
}

/** Uploads a file. Fails like other calls; `AbortError` when canceled. */
export function upload(workspace: string, { file, name, clientId, ...sending }: Sent): Promise<Attachment> {
  const body = new FormData();
  body.append('client_id', clientId);
  body.append('file', file, name);
  const headers = { 'X-Workspace-Id': workspace };
  return sendBytes<S['UploadedFile']>({ method: 'POST', path: '/v1/files', headers, body, ...sending });
}

/**
 * Sends with XMLHttpRequest, because `fetch` does not report progress. Fails like other calls; `AbortError` when
 * canceled.
 */
export function sendBytes<T>({ method, path, headers, body, onpart, signal }: SentBytes): Promise<T> {
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
      fail(new DOMException('Canceled', 'AbortError'));
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
      let answer: unknown = null;
      try {
        answer = JSON.parse(xhr.responseText);
      } catch {
        // The body is not JSON, so the response came from a proxy.
      }
      if (xhr.status >= 200 && xhr.status < 300 && answer) return done(answer as T);
      const wait = Number(xhr.getResponseHeader('retry-after'));
      fail(new ApiError(xhr.status, answer, statusText(xhr.status), wait || null));
    };
    xhr.open(method, path);
    for (const [header, value] of Object.entries(headers)) xhr.setRequestHeader(header, value);
    xhr.send(body);
    alive();
  });
}
