import type { AgentFields, AgentTool } from '../api/agent-types';
import type { Collection } from '../api/collections';

type Named = Pick<Collection, 'id' | 'handle' | 'name'>;
/** A collection that can be attached, or a name that belongs to none of them. */
export interface CollectionRow {
  label: string;
  /** Names by which it is attached: its ID, or its handle. */
  names: string[];
}

const nameOf = (store: Named): string => store.name || store.handle || 'Unnamed';

/** The collections, and the attached names that belong to none of them. */
export function collectionRows(stores: readonly Named[], attached: readonly string[]): CollectionRow[] {
  const rows = stores.map((store) => ({
    label: nameOf(store),
    names: store.handle ? [store.id, `vs_${store.handle}`] : [store.id],
  }));
  const known = rows.flatMap(({ names }) => names);
  const others = attached.filter((name) => !known.includes(name));
  return [...rows, ...others.map((name) => ({ label: `${name} (not available)`, names: [name] }))];
}
export const isAttached = (row: CollectionRow, attached: readonly string[]): boolean =>
  row.names.some((name) => attached.includes(name));
/** The attached names with or without a collection. */
export function withCollection(attached: readonly string[], row: CollectionRow, on: boolean): string[] {
  const others = attached.filter((name) => !row.names.includes(name));
  return on ? [...others, row.names[0]!] : others;
}

type SearchTool = Extract<AgentTool, { type: 'file_search' }>;
type Attaching = Pick<AgentFields, 'tools' | 'memory'>;
const isSearch = (tool: AgentTool): tool is SearchTool => tool.type === 'file_search';

/** Names of the collections that an agent reads at every question. */
export function attachedTo({ tools, memory }: Attaching): string[] {
  const ofTools = tools.filter(isSearch).flatMap((tool) => tool.vector_store_ids ?? []);
  return [...new Set([...ofTools, ...(memory?.vector_store_ids ?? [])])];
}
/** Fields of an agent with these collections. Those that are new are attached to the search, if the agent can search. */
export function attachTo({ tools, memory }: Attaching, names: readonly string[]): Attaching {
  const kept = (memory?.vector_store_ids ?? []).filter((name) => names.includes(name));
  const rest = names.filter((name) => !kept.includes(name));
  const search = tools.find(isSearch);
  const ofMemory = search ? kept : [...names];
  return {
    tools: search
      ? tools.map((tool) => (tool === search ? { ...search, vector_store_ids: rest } : tool))
      : tools,
    memory: memory || ofMemory.length ? { ...(memory ?? {}), vector_store_ids: ofMemory } : memory,
  };
}
