/** Parts of the composer that are loaded when someone starts to write, to keep them out of the startup bundle. */
export const menuPart = () => import('../components/CompletionMenu.svelte');
export const slashPart = () => import('../state/slashes');
export const filesPart = () => import('../files/part');
export type SlashPart = Awaited<ReturnType<typeof slashPart>>;

export const NOT_LOADED =
  'Couldn’t load this part of the page: the connection was lost, or OpenVibe was updated.';
