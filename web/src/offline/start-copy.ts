import type { Api } from '../api/api';
import type { Account } from '../api/types';
import { device } from '../lib/storage';
import type { WorkspaceState } from '../state/workspace.svelte';
import { indexedDatabase } from './database';
import { DeviceCopy } from './device-copy';
import { windowsOf } from './windows';

/** Attaches the copy on this device to a workspace. `scope`: user and workspace, as `USER.WS`. */
export function startCopy(ws: WorkspaceState, scope: string, api: Api, account: () => Account | null): void {
  const copy = new DeviceCopy(ws, {
    scope,
    store: device,
    database: indexedDatabase(scope),
    windows: windowsOf(scope),
    api,
    account,
    isVisible: () => document.visibilityState === 'visible',
  });
  const write = () => void copy.flush();
  for (const type of ['offline', 'pagehide']) addEventListener(type, write);
  document.addEventListener('visibilitychange', write);
  copy.onDispose(() => {
    for (const type of ['offline', 'pagehide']) removeEventListener(type, write);
    document.removeEventListener('visibilitychange', write);
  });
  ws.copy = copy;
  if (ws.connection.live) void copy.live(false);
}
