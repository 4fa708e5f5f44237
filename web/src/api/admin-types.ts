/** API types of keys, usage, the audit log, and other administration. */
import type { components } from './schema';

type S = components['schemas'];

export type Scope = S['Scope'];
export type ApiKey = S['ApiKey'];
export type AuthEvent = S['AuthEvent'];
/** The secret is only in the response that creates the key. */
export type NewKey = S['NewKey'];
export type KeyForm = S['KeyForm'];
export type InviteForm = S['InviteForm'];
export type AuditEntry = S['AuditEntry'];
export type AuditAction = S['AuditAction'];

export type UsageBy = S['GroupBy'];
export type UsageCount = S['Sums'];
export type UsageRow = S['Used'];
/** `storage` is null for members who are not admins. */
export type Usage = S['UsageAnswer'];
/** A limit on the tokens or costs of model calls. */
export type UsageBudget = S['UsageBudget'];
export type BudgetForm = S['BudgetForm'];
/** `version` is the version of the whole list. */
export interface Budgets {
  data: UsageBudget[];
  version: number;
}
/** Model for agents that do not request another one, or for every agent. */
export interface DefaultModel {
  id: string;
  provider: string;
  overridesAgents: boolean;
}
export type ModelTest = S['ModelTest'];
/** The model server of the workspace, as its admins see it. */
export type ModelConnection = S['ModelConnection'];
export type ModelForm = S['ModelForm'];
export type LocalServer = S['LocalServer'];
export type EmbeddingConnection = S['EmbeddingConnection'];
export type EmbeddingForm = S['EmbeddingForm'];
/** A server process that uses the database, as admins of the oldest workspace see it. */
export type ListedNode = S['Node'];
export type ListedNodes = S['NodeList'];
export type ErasureProgress = S['ErasureProgress'];
