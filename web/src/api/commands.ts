import { at, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

/** What a bot's program answered: a message for everyone, or a text for one person. */
export type CommandResult = S['CommandResult'];
export type CommandForm = S['CommandForm'];
type Bot = S['Bot'];

/** API client for commands and buttons of bots, `api.part(CommandsApi)`. Loaded when someone types one. */
export class CommandsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  run(name: string, body: CommandForm): Promise<CommandResult> {
    return this.#take(this.#http.POST('/v1/commands/{name}', { ...at({ name }), body }));
  }
  press(id: string, button_id: string): Promise<CommandResult> {
    return this.#take(this.#http.POST('/v1/messages/{id}/buttons/{button_id}', at({ id, button_id })));
  }
  /** The first 100 bots, oldest first. */
  async bots(): Promise<Bot[]> {
    const params = { query: { limit: 100 } };
    return (await this.#take(this.#http.GET('/v1/bots', { params }))).data;
  }
}
