import { at, type Transport } from './http';
import type { components } from './schema';
import type { Message } from './types';

type S = components['schemas'];

/** Something that wants the user's attention. */
export type InboxItem = S['InboxItem'];
export type InboxReason = S['InboxReason'];
export type InboxState = S['InboxState'];
export type InboxSummary = S['InboxSummary'];
export type InboxPage = S['InboxPage'];
/** Items that changed since an event, in any state. */
export type InboxChanges = S['InboxChanges'];
export type ChangedItems = S['ChangedItems'];

/** State of an item after a change, as in `inbox.updated`. */
export type InboxItemChange = Pick<InboxItem, 'id' | 'state' | 'until'>;

/** Maximum number of items in one change. */
export const CHANGED_MAX = 200;

/** API client for the inbox, `api.part(InboxApi)`. */
export class InboxApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** The user's questions that somebody has not answered, newest first. */
  async asked(): Promise<Message[]> {
    return (await this.#take(this.#http.GET('/v1/inbox/asked'))).data;
  }
  changes(since: number): Promise<InboxChanges> {
    return this.#take(this.#http.GET('/v1/inbox/changes', { params: { query: { since } } }));
  }
  list(of: {
    state: InboxState;
    reason?: InboxReason | undefined;
    cursor?: string | undefined;
  }): Promise<InboxPage> {
    return this.#take(this.#http.GET('/v1/inbox', { params: { query: { limit: 50, ...of } } }));
  }
  setState(ids: string[], state: InboxState, until: string | null): Promise<ChangedItems> {
    return this.#take(this.#http.PUT('/v1/inbox/state', { body: { ids, state, until } }));
  }
  /** Saves a message; with `until`, its item opens at that time. */
  save(message: string, until: string | null): Promise<InboxItem> {
    const path = at({ id: message });
    return this.#take(this.#http.PUT('/v1/messages/{id}/saved', { ...path, body: { until } }));
  }
  async unsave(message: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/messages/{id}/saved', at({ id: message })));
  }
}
