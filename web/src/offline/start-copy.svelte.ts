import type { Api } from '../api/api';
import type { Account } from '../api/types';
import { device } from '../lib/storage';
import type { WorkspaceState } from '../state/workspace.svelte';
import { disableControls, OFFLINE_TEXT } from './controls';
import { eraseLeftovers, indexedDatabase } from './database';
import { DeviceCopy } from './device-copy';
import { windowsOf } from './windows';

interface CopyStart {
  /** User and workspace, as `USER.WS`. */
  scope: string;
  /** The server itself, never the copy. */
  api: Api;
  account: () => Account | null;
  /** Shows a text to the user. */
  say: (text: string) => void;
}

/** Attaches the copy on this device to a workspace, and disables what needs the server while there is no connection. */
export function startCopy(ws: WorkspaceState, { scope, api, account, say }: CopyStart): void {
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
  copy.onDispose(
    $effect.root(() => {
      $effect(() => {
        if (ws.connection.net !== 'offline') return;
        return disableControls(document, () => say(OFFLINE_TEXT));
      });
    }),
  );
  eraseLeftovers(device).catch(() => undefined); // the next start tries again
  ws.copy = copy;
  if (ws.connection.live) void copy.live(false);
}
