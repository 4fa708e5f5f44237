import { at, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];
export type WorkspaceExport = S['WorkspaceExport'];
export type ExportForm = S['ExportForm'];

/** API client for archives of the workspace, `api.part(ExportsApi)`. Loaded with the dialog. */
export class ExportsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  create(body: ExportForm): Promise<WorkspaceExport> {
    return this.#take(this.#http.POST('/v1/exports', { body }));
  }
  get(id: string): Promise<WorkspaceExport> {
    return this.#take(this.#http.GET('/v1/exports/{id}', at({ id })));
  }
  cancel(id: string): Promise<unknown> {
    return this.#take(this.#http.DELETE('/v1/exports/{id}', at({ id })));
  }
}
/** Address of an archive, for a link. */
export const exportUrl = (id: string): string => `/v1/exports/${encodeURIComponent(id)}/file`;
