import { focusComposerOf } from '../lib/focus';
import { to, type Router } from '../lib/router.svelte';
import type { Channel } from '../api/types';
import { GROUPS, isFor } from '../settings/pages';
import { TITLES } from './commands.svelte';
import { newChat } from './new-chat';
import type { Session } from './session.svelte';
import { signOut } from './sign-out';
import type { SwitcherItem } from './switcher';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

/** Commands and the pages of settings, for a query that begins with `>`. */
export function switcherCommands(
  ws: WorkspaceState,
  { router, session, ui }: { router: Router; session: Session; ui: Ui },
): SwitcherItem[] {
  const { slug, people, channels } = ws;
  const item = (title: string, note: string, go: () => void): SwitcherItem => ({
    key: `${note} ${title}`,
    kind: 'command',
    id: '',
    title,
    note,
    go,
  });
  const command = (title: string, go: () => void) => item(title, 'Command', go);
  const page = (title: string, path: string, note = 'Page') => item(title, note, () => router.go(path));
  const { route } = router;
  const here = 'channel' in route ? channels.find(route.channel) : undefined;
  const room = here?.kind === 'direct' ? undefined : (here ?? channels.home(null));
  const startThread = (at: Channel) => () => {
    router.go(to.channel(slug, channels.segment(at)));
    focusComposerOf(`c:${at.id}`);
  };
  const writes = people.canWrite
    ? [
        ...(room ? [command('New thread', startThread(room))] : []),
        command('New chat with an agent', () => void newChat(here, { ws, router, ui })),
        command('New message', () => (ui.dialog = { name: 'new-direct' })),
        command('New channel', () => (ui.dialog = { name: 'new-channel' })),
      ]
    : [];
  const invite = people.isAdmin ? [command('Invite people', () => (ui.dialog = { name: 'invite' }))] : [];
  const themes = (['system', 'light', 'dark'] as const).map((theme) =>
    command(`Theme: ${theme}`, () => ui.setTheme(theme)),
  );
  return [
    ...writes,
    ...invite,
    command('Browse channels', () => (ui.dialog = { name: 'browse-channels' })),
    page(TITLES.search, to.search(slug)),
    page(TITLES.inbox, to.inbox(slug)),
    page(TITLES.actions, to.actions(slug)),
    page(TITLES.decisions, to.decisions(slug)),
    page(TITLES.conversations, to.conversations(slug)),
    page(TITLES.drafts, to.drafts(slug)),
    page(TITLES.workflows, to.workflows(slug)),
    page(TITLES.schedules, to.schedules(slug)),
    page(TITLES.runs, to.runs(slug)),
    ...GROUPS.flatMap((group) => group.pages)
      .filter((entry) => isFor(entry, ws))
      .map((entry) => page(entry.name, to.settings(slug, entry.key), 'Settings')),
    ...themes,
    command('Keyboard shortcuts', () => (ui.dialog = { name: 'keys' })),
    command('Sign out', () => signOut({ session, ui })),
  ];
}
