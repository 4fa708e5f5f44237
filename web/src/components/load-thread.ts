/** Loads the view of a thread, which has its own file. */
export const loadThread = () => import('./ThreadView.svelte');
