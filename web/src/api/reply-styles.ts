import { at, ifMatch, type Transport } from './http';
import type { components } from './schema';

type S = components['schemas'];

/** Add-ons, presets, and rules of a workspace. */
export type ReplyStyles = S['PromptProfiles'];
export type StyleAddon = S['PromptAddon'];
export type StylePreset = S['PromptPreset'];
export type StyleRule = S['PresetRule'];
export type StyleRouting = S['PromptRouting'];
export interface StylesForm {
  addons: StyleAddon[];
  presets: StylePreset[];
  routing: StyleRouting;
  rules: StyleRule[];
}
/** Preset of an agent in a conversation. */
export type ConversationStyle = S['ConversationPreset'];
/** A thread, or a fork in it. */
export interface StyledConversation {
  thread: string;
  fork: string | null;
}

/** API client for reply styles, `api.part(ReplyStylesApi)`. Loaded with the composer's chip and the page. */
export class ReplyStylesApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  get(): Promise<ReplyStyles> {
    return this.#take(this.#http.GET('/v1/prompt-profiles'));
  }
  /** Fails with `Conflict` if the document no longer has `version`. */
  put(version: number, body: StylesForm): Promise<ReplyStyles> {
    return this.#take(this.#http.PUT('/v1/prompt-profiles', { params: { header: ifMatch(version) }, body }));
  }
  /** Sets the agent's preset; returns all presets of the conversation. */
  async choose(of: StyledConversation, agent_id: string, preset: string): Promise<ConversationStyle[]> {
    const body = { agent_id, preset };
    const { presets } = await this.#take(
      of.fork
        ? this.#http.PUT('/v1/forks/{id}/preset', { ...at({ id: of.fork }), body })
        : this.#http.PUT('/v1/threads/{id}/preset', { ...at({ id: of.thread }), body }),
    );
    return presets;
  }
  /** Removes the preset that a person chose; returns all presets of the conversation. */
  async reset(of: StyledConversation, agent_id: string): Promise<ConversationStyle[]> {
    const query = { agent_id };
    const { presets } = await this.#take(
      of.fork
        ? this.#http.DELETE('/v1/forks/{id}/preset', { params: { path: { id: of.fork }, query } })
        : this.#http.DELETE('/v1/threads/{id}/preset', { params: { path: { id: of.thread }, query } }),
    );
    return presets;
  }
}
