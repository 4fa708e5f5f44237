import { AdminApi } from '../api/admin';
import { AgentsApi } from '../api/agents';
import type { WorkspaceState } from '../state/workspace.svelte';
import { Loaded } from '../ui/loaded.svelte';
import { ModelEdit } from './model-edit.svelte';

/** The model server of a workspace, with the form that changes it. */
export function modelPage(api: AdminApi, workspace: string) {
  return new Loaded(async () => {
    const connection = await api.model(workspace);
    const isNone = connection.source === 'none';
    const [now, found] = await Promise.all([
      isNone ? null : api.defaultModel(),
      // Found servers are only an offer: the form works without them.
      isNone ? api.localModels(workspace).catch(() => []) : [],
    ]);
    return { connection, now, found, edit: new ModelEdit(api, workspace, connection) };
  });
}

/** The same, in the workspace that is open. */
export function modelSettings(ws: WorkspaceState) {
  const api = ws.api.part(AdminApi);
  const page = modelPage(api, ws.id);
  /** A new connection changes the model names that are shown elsewhere, too. */
  const changed = async () => {
    await page.load();
    const { agentsById } = ws.people;
    for (const agent of await ws.api.part(AgentsApi).all())
      if (agentsById.has(agent.id)) agentsById.set(agent.id, agent);
  };
  return { api, page, changed };
}
