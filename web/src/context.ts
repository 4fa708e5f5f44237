import { createContext } from 'svelte';
import type { Api } from './api/api';
import type { Router } from './lib/router.svelte';
import type { Session } from './state/session.svelte';
import type { Ui } from './state/ui.svelte';
import type { WorkspaceState } from './state/workspace.svelte';

export interface App {
  api: Api;
  router: Router;
  session: Session;
  ui: Ui;
}
export const [getApp, setApp] = createContext<App>();
/** Available only inside the workspace's shell. */
export const [getWorkspace, setWorkspace] = createContext<WorkspaceState>();
