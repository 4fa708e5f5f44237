import { errorMessage } from '../api/problem';
import { SuggestionsApi } from '../api/suggestions';
import type { Session } from '../state/session.svelte';
import type { Ui } from '../state/ui.svelte';

/** Turns suggestions on or off, on all devices of the user. */
export async function setSuggestions(
  on: boolean,
  { session, ui }: { session: Session; ui: Ui },
): Promise<void> {
  try {
    session.user = (await session.api.part(SuggestionsApi).set(on)).user;
  } catch (e) {
    ui.show(errorMessage(e));
  }
}
