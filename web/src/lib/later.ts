/** Parts that a composer needs once somebody writes: the start does not carry them. */
export const menuPart = () => import('../components/CompletionMenu.svelte');
export const slashPart = () => import('../state/slashes');
export const filesPart = () => import('../files/part');
export type SlashPart = Awaited<ReturnType<typeof slashPart>>;

export const NOT_LOADED =
  'Could not load this part: the connection is gone, or OpenVibe was updated meanwhile.';
