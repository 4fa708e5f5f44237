import { afterRows, lazyModule } from './lazy-module.svelte';

/** Parts of the composer that are loaded when someone starts to write, to keep them out of the startup bundle. */
export const loadCompletionMenu = () => import('../components/CompletionMenu.svelte');
export const loadSlashCommands = () => import('../state/slashes');
export const loadUploads = () => import('../files/uploads-of');
export const loadNotifyQuestion = () => import('../state/notify-question');
/** Marks, lists, and links in a text box; loaded after the first rows. */
export const markup = lazyModule(afterRows(() => import('./markup')));
export type SlashModule = Awaited<ReturnType<typeof loadSlashCommands>>;

export const NOT_LOADED =
  'Couldn’t load this part of the page: the connection was lost, or OpenVibe was updated.';
