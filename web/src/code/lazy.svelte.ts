import { lazyComponent } from '../components/lazy.svelte';

/** Plan, steps, log, and changes of a reply that was written in a repository. */
export const codeParts = lazyComponent(() => import('./CodeParts.svelte'));
/** Changes of a session, with the decision to push them. */
export const changesCard = lazyComponent(() => import('./ChangesCard.svelte'));
/** Question of an agent. */
export const questionCard = lazyComponent(() => import('./QuestionCard.svelte'));
