import { FilesApi, upload } from '../api/files';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';
import { Uploads } from './uploads.svelte';

/** Uploads of a workspace, created with the first file. */
export function uploadsOf(ws: WorkspaceState, ui: Pick<Ui, 'show'>): Uploads {
  return (ws.uploads ??= new Uploads({
    drafts: ws.drafts,
    outbox: ws.outbox,
    channels: ws.channels,
    files: ws.api.part(FilesApi),
    get fileBytesMax() {
      return ws.fileBytesMax;
    },
    upload: (sent) => upload(ws.id, sent),
    notify: (text) => ui.show(text),
  }));
}
