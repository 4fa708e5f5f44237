/** API types of keys, usage, the audit log, and other administration; derived as in types.ts. */
import type { components } from './schema';

type S = components['schemas'];
type Sent<T> = { [K in keyof T]-?: Exclude<T[K], undefined> };

export type Scope = S['Scope'];
export type ApiKey = Sent<S['ApiKey']>;
export type AuthEvent = Sent<S['AuthEvent']>;
/** The secret is only in the response that creates the key. */
export type NewKey = ApiKey & { key: string };
export interface KeyForm {
  name: string;
  scopes: Scope[];
  expires_in_s?: number;
}
export interface InviteForm {
  email?: string;
  role: S['Role'];
  max_uses?: number;
  expires_in_s: number;
}
export type AuditEntry = Omit<Sent<S['AuditEntry']>, 'data'> & { data: Record<string, unknown> };

export type UsageBy = 'person' | 'agent' | 'model' | 'month';
export type UsageCount = Sent<S['Sums']>;
export type UsageRow = UsageCount & Pick<S['Used'], 'key' | 'name'>;
export interface Usage extends Pick<S['UsageAnswer'], 'from' | 'to'> {
  data: UsageRow[];
  total: UsageCount;
  /** Only for admins. */
  storage: S['Storage'] | null;
}
export type Model = Sent<S['Model']>;
/** The model of agents that ask for no other, or of every agent. */
export interface DefaultModel {
  id: string;
  provider: string;
  overridesAgents: boolean;
}
export type ModelTest = Sent<S['ModelTest']>;
/** Deleted objects. */
export type Erased = S['Erased'];
