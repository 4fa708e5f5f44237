import { at, ifMatch, type Transport } from './http';
import type { components } from './schema';
import type { Account } from './types';

type S = components['schemas'];
/** A connection of the account with an identity provider. */
export type Identity = S['Identity'];
export type SignInMethods = S['SignInMethods'];
export type SignInProvider = S['SignInProvider'];
export type StartForm = Partial<S['StartForm']>;
/** An identity provider, as admins of the server see it. */
export type IdentityProvider = S['IdentityProvider'];
export type ProviderPatch = S['ProviderPatch'];
/** A workspace that a provider brings people into. */
export type ProviderWorkspace = S['ProviderWorkspace'];
/** Role and channels of the members of a group. */
export type GroupRule = S['GroupRule'];
/** A token with which a provider sends accounts and groups. */
export type ScimToken = S['ScimToken'];
/** A person who could not sign in without a provider. */
export type DependentPerson = S['DependentPerson'];
export type NewScimToken = S['NewScimToken'];
export type ProviderForm = Pick<S['ProviderForm'], 'name' | 'issuer' | 'client_id'> &
  Partial<S['ProviderForm']>;

/** API client for identity providers, `api.part(IdentityApi)`. */
export class IdentityApi {
  #http: Transport['http'];
  #take: Transport['take'];
  constructor(transport: Transport) {
    this.#http = transport.http;
    this.#take = transport.take;
  }
  /** Returns the ways to sign in, providers for the address first; null if the server cannot be reached. */
  async methods(email = ''): Promise<SignInMethods | null> {
    const params = { query: { email: email.trim() } };
    const methods = await this.#take(this.#http.GET('/v1/auth/methods', { params })).catch(() => null);
    return (
      methods && {
        ...methods,
        providers: methods.providers.toSorted((a, b) => Number(b.for_domain) - Number(a.for_domain)),
      }
    );
  }
  /** Returns the address of the provider's page. */
  async start(id: string, form: StartForm): Promise<string> {
    const body = { connect: false, confirm: false, ...form };
    return (await this.#take(this.#http.POST('/v1/auth/oidc/{id}/start', { ...at({ id }), body }))).url;
  }
  /** Connects a provider to the account that has its address. Without a password, others lose their access to the account. */
  link(password: string | null): Promise<Account> {
    const body = { password, unknown: password === null };
    return this.#take(this.#http.POST('/v1/auth/oidc/link', { body }));
  }
  async identities(): Promise<Identity[]> {
    return (await this.#take(this.#http.GET('/v1/auth/identities'))).data;
  }
  disconnect(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/auth/identities/{id}', at({ id })));
  }
  async providers(): Promise<IdentityProvider[]> {
    return (await this.#take(this.#http.GET('/v1/identity-providers'))).data;
  }
  addProvider(form: ProviderForm): Promise<IdentityProvider> {
    const body = {
      domains: [],
      email_trust: 'claim' as const,
      groups_claim: 'groups',
      second_factor: 'claim' as const,
      workspaces: [],
      ...form,
    };
    return this.#take(this.#http.POST('/v1/identity-providers', { body }));
  }
  setSecret(id: string, value: string): Promise<void> {
    return this.#take(
      this.#http.PUT('/v1/identity-providers/{id}/secret', { ...at({ id }), body: { value } }),
    );
  }
  turn(id: string, enabled: boolean): Promise<IdentityProvider> {
    return this.#take(this.#http.PATCH('/v1/identity-providers/{id}', { ...at({ id }), body: { enabled } }));
  }
  /** Fails with `Conflict` if the provider has changed since it was read. */
  changeProvider({ id, version }: IdentityProvider, body: ProviderPatch): Promise<IdentityProvider> {
    const params = { path: { id }, header: ifMatch(version) };
    return this.#take(this.#http.PATCH('/v1/identity-providers/{id}', { params, body }));
  }
  async scimTokens(id: string): Promise<ScimToken[]> {
    return (await this.#take(this.#http.GET('/v1/identity-providers/{id}/scim-tokens', at({ id })))).data;
  }
  /** Returns the token with its secret, which is shown only once. */
  createScimToken(id: string): Promise<NewScimToken> {
    return this.#take(this.#http.POST('/v1/identity-providers/{id}/scim-tokens', at({ id })));
  }
  deleteScimToken(id: string, token_id: string): Promise<void> {
    return this.#take(
      this.#http.DELETE('/v1/identity-providers/{id}/scim-tokens/{token_id}', at({ id, token_id })),
    );
  }
  deleteProvider(id: string): Promise<void> {
    return this.#take(this.#http.DELETE('/v1/identity-providers/{id}', at({ id })));
  }
  /** People who could not sign in without the provider; at most 100. */
  async dependents(id: string): Promise<DependentPerson[]> {
    return (await this.#take(this.#http.GET('/v1/identity-providers/{id}/people', at({ id })))).data;
  }
  /** Sends them links that set a password. Returns their number. */
  async sendLinks(id: string): Promise<number> {
    return (await this.#take(this.#http.POST('/v1/identity-providers/{id}/links', at({ id })))).people;
  }
  /** Returns the address of the provider's page, from which the browser comes back to `next`. */
  async try(id: string, next: string): Promise<string> {
    const body = { next };
    return (await this.#take(this.#http.POST('/v1/identity-providers/{id}/try', { ...at({ id }), body })))
      .url;
  }
}
