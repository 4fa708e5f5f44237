import type { Router } from '../lib/router.svelte';
import type { ForkView } from './view';

/** Opens the resolution editor of a fork. A fork that is beside another one swaps places with it. */
export const resolveFork = (id: string, view: ForkView, router: Router): void =>
  router.open(`dive:${id}:resolve`, view === 'beside' ? (router.panel?.id ?? null) : router.focusText);
