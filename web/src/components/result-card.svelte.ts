import type { Component } from 'svelte';
import type { Message } from '../api/types';

type Card = Component<{ message: Message }>;
let card = $state.raw<Card | null>(null);
let asked = false;

/** The card of a result, fetched when the first one is on screen; null until then. */
export function resultCard(): Card | null {
  if (!asked) {
    asked = true;
    import('./ResultCard.svelte').then(
      (part) => (card = part.default),
      () => (asked = false), // the next row asks again; until then the text of the card is shown
    );
  }
  return card;
}
