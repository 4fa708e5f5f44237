import type { Session } from './session.svelte';
import type { Ui } from './ui.svelte';

/** Signs out, but asks first if messages are not sent yet. */
export function signOut({ session, ui }: { session: Session; ui: Ui }): void {
  if (session.unsent) ui.dialog = { name: 'sign-out' };
  else void session.signOut();
}
