import { sendBytes, type Sending } from './files';
import { at, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];
export type ArchiveImport = S['ArchiveImport'];
export type ImportPreview = S['ImportPreview'];
export type ImportPerson = S['ImportPerson'];
export type ImportChannel = S['ImportChannel'];
export type ImportNumbers = S['ImportNumbers'];
export type ImportReport = S['ImportReport'];
export type ImportPatch = S['ImportPatch'];
export type ImportForm = S['ImportForm'];

/** Bytes of an archive: from `start` up to, but not including, `end`. */
export interface Piece extends Sending {
  archive: Blob;
  start: number;
  end: number;
}

/** API client for imports of other products' archives, `api.part(ImportsApi)`. Loaded with the dialog. */
export class ImportsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  /** Those of teams' archives, or the user's own of chats, newest first. */
  async list(format?: 'chats'): Promise<ArchiveImport[]> {
    const params = { query: { ...(format && { format }) } };
    return (await this.#take(this.#http.GET('/v1/imports', { params }))).data;
  }
  create(body: Partial<ImportForm>): Promise<ArchiveImport> {
    return this.#take(this.#http.POST('/v1/imports', { body }));
  }
  get(id: string): Promise<ArchiveImport> {
    return this.#take(this.#http.GET('/v1/imports/{id}', at({ id })));
  }
  /** Uploads the next piece. Returns the number of bytes that were received in all. */
  async put(id: string, { archive, start, end, ...sending }: Piece): Promise<number> {
    const path = `/v1/imports/${encodeURIComponent(id)}/archive`;
    const headers = { 'Content-Range': `bytes ${start}-${end - 1}/${archive.size}` };
    const body = archive.slice(start, end, 'application/octet-stream');
    const sent = await sendBytes<{ received: number }>({ method: 'PUT', path, headers, body, ...sending });
    return sent.received;
  }
  preview(id: string): Promise<ImportPreview> {
    return this.#take(this.#http.GET('/v1/imports/{id}/preview', at({ id })));
  }
  patch(id: string, body: ImportPatch): Promise<ArchiveImport> {
    return this.#take(this.#http.PATCH('/v1/imports/{id}', { ...at({ id }), body }));
  }
  start(id: string): Promise<ArchiveImport> {
    return this.#take(this.#http.POST('/v1/imports/{id}/start', at({ id })));
  }
  pause(id: string): Promise<ArchiveImport> {
    return this.#take(this.#http.POST('/v1/imports/{id}/pause', at({ id })));
  }
  resume(id: string): Promise<ArchiveImport> {
    return this.#take(this.#http.POST('/v1/imports/{id}/resume', at({ id })));
  }
  /** Deletes an import that has not started; begins to undo any other, and returns it. */
  async remove(id: string): Promise<ArchiveImport | null> {
    return (await this.#take(this.#http.DELETE('/v1/imports/{id}', at({ id })))) ?? null;
  }
  report(id: string): Promise<ImportReport> {
    return this.#take(this.#http.GET('/v1/imports/{id}/report', at({ id })));
  }
  /** The report as Markdown. */
  async reportFile(id: string): Promise<Blob> {
    const init = { params: { path: { id }, query: { format: 'md' } }, parseAs: 'blob' } as const;
    return this.#take(this.#http.GET('/v1/imports/{id}/report', init));
  }
}
