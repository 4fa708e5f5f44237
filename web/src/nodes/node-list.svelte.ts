import { createContext } from 'svelte';
import type { AdminApi } from '../api/admin';
import type { ListedNode } from '../api/admin-types';
import { isMissing } from '../api/problem';
import { Loaded } from '../ui/loaded.svelte';

export const REFRESH_MS = 5000;

export interface Nodes {
  nodes: ListedNode[];
  /** Size of the files in the database. */
  fileBytes: number;
  /** Time of the response. */
  at: Date;
}

/** The nodes, shared by the tabs of Settings and the page. */
export class NodeList {
  list: Loaded<Nodes>;
  /** True if the server refuses to list the nodes for this user. */
  isRefused = $state(false);

  constructor(api: Pick<AdminApi, 'nodes'>) {
    this.list = new Loaded(async () => {
      try {
        const { data, file_bytes_in_database: fileBytes } = await api.nodes();
        this.isRefused = false;
        return { nodes: data, fileBytes, at: new Date() };
      } catch (e) {
        this.isRefused = isMissing(e);
        throw e;
      }
    });
  }
  /** True once the server has returned the list. */
  get isListed(): boolean {
    return this.list.value !== null && !this.isRefused;
  }
  /** Refreshes the list every 5 s while the page is visible. Returns a function that stops it. */
  follow = (): (() => void) => {
    const refresh = () => {
      if (document.visibilityState === 'visible' && !this.list.busy) void this.list.load();
    };
    const timer = setInterval(refresh, REFRESH_MS);
    document.addEventListener('visibilitychange', refresh);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', refresh);
    };
  };
}
/** Available only inside Settings. */
export const [getNodes, setNodes] = createContext<NodeList>();
