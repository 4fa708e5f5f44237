import { at, ifMatch, type Transport } from './http';
import { allPages } from './pages';
import type { components } from './schema';

type S = components['schemas'];

export type Bot = S['Bot'];
/** A bot with its keys and its subscription to events. */
export type BotWithKeys = S['BotWithKeys'];
export type BotForm = S['BotForm'];
export type BotPatch = S['BotPatch'];
/** `/name`, which people type in the bot's channels. */
export type BotCommand = S['BotCommand'];
/** A key with its secret, which is shown only once. */
export type NewBotKey = S['NewBotKey'];
/** Events that a bot gets, and how. */
export type BotSubscription = S['BotSubscription'];
export type BotSubscriptionForm = S['BotSubscriptionForm'];
/** `secret` is null unless the subscription is new. */
export type BotSubscriptionWithSecret = S['BotSubscriptionWithSecret'];
export type BotEventKind = S['BotEventKind'];
/** An event for a bot. */
export type BotDelivery = S['BotDelivery'];
export type BotDeliveryState = S['BotDeliveryState'];
/** A method of Slack's API that is not offered. */
export type MissingMethod = S['MissingMethod'];
export type EventTestResult = S['EventTestResult'];

/** API client for bots, `api.part(BotsApi)`. Loaded with their settings. */
export class BotsApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor({ http, take }: Transport) {
    this.#http = http;
    this.#take = take;
  }
  /** Oldest first. */
  all(): Promise<Bot[]> {
    return allPages((query) => this.#take(this.#http.GET('/v1/bots', { params: { query } })));
  }
  get(id: string): Promise<BotWithKeys> {
    return this.#take(this.#http.GET('/v1/bots/{id}', at({ id })));
  }
  create(body: BotForm): Promise<Bot> {
    return this.#take(this.#http.POST('/v1/bots', { body }));
  }
  patch(id: string, version: number, body: BotPatch): Promise<Bot> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/bots/{id}', { params, body }));
  }
  async remove(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/bots/{id}', at({ id })));
  }
  async addTo(channel: string, bot_id: string): Promise<void> {
    await this.#take(this.#http.PUT('/v1/channels/{id}/bots/{bot_id}', at({ id: channel, bot_id })));
  }
  async removeFrom(channel: string, bot_id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/channels/{id}/bots/{bot_id}', at({ id: channel, bot_id })));
  }
  createKey(id: string, name: string): Promise<NewBotKey> {
    return this.#take(this.#http.POST('/v1/bots/{id}/keys', { ...at({ id }), body: { name } }));
  }
  async removeKey(id: string, key_id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/bots/{id}/keys/{key_id}', at({ id, key_id })));
  }
  subscribe(id: string, body: BotSubscriptionForm): Promise<BotSubscriptionWithSecret> {
    return this.#take(this.#http.PUT('/v1/bots/{id}/subscription', { ...at({ id }), body }));
  }
  async unsubscribe(id: string): Promise<void> {
    await this.#take(this.#http.DELETE('/v1/bots/{id}/subscription', at({ id })));
  }
  test(id: string): Promise<EventTestResult> {
    return this.#take(this.#http.POST('/v1/bots/{id}/subscription/test', at({ id })));
  }
  /** The newest 20 events in a state, newest first. */
  async deliveries(id: string, state: BotDeliveryState): Promise<BotDelivery[]> {
    const params = { path: { id }, query: { state, limit: 20 } };
    return (await this.#take(this.#http.GET('/v1/bots/{id}/subscription/deliveries', { params }))).data;
  }
  sendAgain(id: string, delivery_id: string): Promise<BotDelivery> {
    const params = { path: { id, delivery_id } };
    return this.#take(
      this.#http.POST('/v1/bots/{id}/subscription/deliveries/{delivery_id}/replay', { params }),
    );
  }
}
