import { CommandsApi } from '../api/commands';
import { ApiError, errorMessage } from '../api/problem';
import type { Candidate } from '../lib/complete';
import { newId } from '../lib/secure';
import type { Slash } from '../lib/slash';
import { oneLine } from '../lib/text';
import type { ComposerContext } from './composer-context';
import type { Ui } from './ui.svelte';
import type { WorkspaceState } from './workspace.svelte';

interface Deps {
  ws: WorkspaceState;
  ui: Ui;
}

/** Completions for the commands of bots in a channel, sorted by name. */
export async function commandChoices({ api }: WorkspaceState, channel: string): Promise<Candidate[]> {
  const bots = await api.part(CommandsApi).bots();
  const here = bots.filter((bot) => bot.status === 'active' && bot.channel_ids.includes(channel));
  const choices = here.flatMap((bot) =>
    bot.commands.map(({ name, description, usage }): Candidate => ({
      key: `${bot.id} ${name}`,
      kind: 'command',
      insert: `/${name}`,
      title: `/${name}`,
      handle: name,
      note: oneLine([usage, description].filter(Boolean).join(' · ')) || bot.name,
    })),
  );
  return choices.sort((a, b) => a.handle.localeCompare(b.handle));
}

/** Runs a command of a bot. Returns true if the bot's program has answered. */
export async function runBotCommand(
  { command, text }: Extract<Slash, { name: 'bot' }>,
  { channel, conversation }: ComposerContext,
  { ws, ui }: Deps,
): Promise<boolean> {
  if (conversation?.fork) {
    ui.show('Bots don’t see deep dives: use their commands in the thread.');
    return false;
  }
  const place = conversation ? { thread_id: conversation.thread } : { channel_id: channel.id };
  try {
    const answer = await ws.api.part(CommandsApi).run(command, { ...place, text });
    const bot = [...ws.people.bots.values()].find((b) => b.commands?.includes(command));
    if (answer.text) {
      ws.ephemeral.add({
        type: 'ephemeral',
        id: newId(),
        channel_id: channel.id,
        thread_id: conversation?.thread ?? null,
        bot_id: bot?.id ?? null,
        user_id: null,
        name: bot?.name ?? `/${command}`,
        shown_as: null,
        content: answer.text,
        created_at: new Date().toISOString(),
      });
    } else if (!answer.message) ui.announce(`/${command} was sent`);
    return true;
  } catch (e) {
    const isAbsent = e instanceof ApiError && e.status === 404 && e.code === 'not_found';
    ui.show(
      isAbsent
        ? `Not sent: no bot in this channel has the command /${command}. To send it as a message, type //${command}.`
        : errorMessage(e),
    );
    return false;
  }
}
