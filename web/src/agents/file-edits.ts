import type { AgentFile, AgentProfile, WholeFile } from '../api/agent-types';
import { isMissing } from '../api/problem';
import { readJson, type KeyValueStore } from '../lib/storage';
import { storedEditIn } from '../state/edit-storage';
import { isKeptEdit, type KeptEdit } from '../state/shared-edit.svelte';
import { VersionedEdit, type StoredFields } from '../state/versioned-edit.svelte';
import type { AgentsContext } from './agents-context.svelte';

export interface FileFields {
  content: string;
}
export type FileEdit = VersionedEdit<FileFields>;

const fieldsOf = (file: WholeFile): StoredFields<FileFields> => ({
  version: file.version,
  fields: { content: file.content },
  changedBy: file.updated_by,
});
const none = (version: number): StoredFields<FileFields> => ({ version, fields: { content: '' } });
/** Version of the file, or of the agent if the file is part of its profile. */
const versionIn = (current: unknown): number => (current as { version: number }).version;

function storageIn(store: KeyValueStore, key: string) {
  const text = store.get(key);
  if (text !== null && !readJson(store, key, isKeptEdit<FileFields>)) {
    // Until 0.1, only the text was stored, so the user has to compare it with the file.
    const edit: KeptEdit<FileFields> = { ...none(0), start: { content: '' }, fields: { content: text } };
    store.set(key, JSON.stringify(edit));
  }
  return storedEditIn(store, key, isKeptEdit<FileFields>);
}

/** Editor of an agent's file; `isNew` if it does not exist yet. */
export function agentFileEdit(
  context: AgentsContext,
  profile: AgentProfile,
  { path, version: newVersion }: AgentFile,
  isNew: boolean,
): FileEdit {
  const { api, ws } = context;
  const { id } = profile;
  const read = () =>
    api.file(id, path).catch((e: unknown) => {
      if (isMissing(e)) return null;
      throw e;
    });
  return new VersionedEdit(
    {
      read: async () => {
        const file = isNew ? null : await read();
        if (!file) return none(newVersion);
        // Saving creates the agent's own file, as part of the agent's next version.
        return { ...fieldsOf(file), ...(file.source === 'workspace' && { version: profile.version }) };
      },
      write: async (version, _, { content }) => fieldsOf(await api.putFile(id, path, content, version)),
      newest: async ({ current }) => {
        const file = await read();
        return { ...(file ? fieldsOf(file) : none(0)), version: versionIn(current) };
      },
    },
    storageIn(ws.store, context.fileDraftKey(id, path)),
  );
}

/** Editor of a workspace file. Saving an empty text deletes the file. */
export function sharedFileEdit(context: AgentsContext, path: string): FileEdit {
  const { api, ws } = context;
  return new VersionedEdit(
    {
      read: async () => {
        const file = await api.sharedFile(ws.id, path);
        return file ? fieldsOf(file) : none(0);
      },
      write: async (version, _, { content }) => {
        if (content.trim()) return fieldsOf(await api.putSharedFile(ws.id, path, content, version));
        if (version) await api.removeSharedFile(ws.id, path, version);
        return none(0);
      },
      newest: async ({ current }) => fieldsOf(current as WholeFile),
    },
    storageIn(ws.store, `openvibe.file.${ws.myId}.${ws.id}.${path}`),
  );
}
