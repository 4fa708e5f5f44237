import { errorMessage } from '../api/problem';
import { RunsApi, type NewRun, type Workflow } from '../api/runs';
import { to, type Router } from '../lib/router.svelte';
import { newId } from '../lib/secure';
import type { Slash } from '../lib/slash';
import type { ComposerContext } from '../state/composer-context';
import type { Ui } from '../state/ui.svelte';
import type { WorkspaceState } from '../state/workspace.svelte';

interface Deps {
  ws: WorkspaceState;
  ui: Ui;
  router: Router;
}

/** The last command, until it succeeds: the server may have received its request. */
interface Attempt {
  command: string;
  client_id: string;
  at: number;
}
const attempts = new WeakMap<WorkspaceState, Attempt>();
/** After this time, repeating the command starts another run. */
const REPEAT_MS = 10 * 60_000;
/**
 * ID of a command. A command that has just failed keeps its ID, so that a retry does not start a second run.
 */
function clientId(ws: WorkspaceState, command: string): string {
  const last = attempts.get(ws);
  if (last?.command === command && Date.now() - last.at < REPEAT_MS) return last.client_id;
  return newId();
}

/** Starts a run for the user. */
export async function startRun(workflow: Workflow, form: NewRun, { ws, ui, router }: Deps): Promise<void> {
  const { run, task } = await ws.api.part(RunsApi).start(workflow.id, form);
  ws.tasks.learn(task);
  const show = () => router.go(to.run(ws.slug, run.id));
  ui.show(`Started ${workflow.name}`, { label: 'Show run', run: show });
}

/** Executes `/run NAME` in a composer. Returns true if the run was started. */
export async function runNamed(
  { query, input }: Extract<Slash, { name: 'run' }>,
  { channel, conversation }: ComposerContext,
  deps: Deps,
): Promise<boolean> {
  const { ws, ui } = deps;
  try {
    const workflow = await ws.api.part(RunsApi).named(query.toLowerCase());
    if (!workflow) {
      ui.show(
        `Not started: no workflow is named “${query}”. To send a message that starts with /run, type //run.`,
      );
      return false;
    }
    const place = conversation ? { thread_id: conversation.thread } : { channel_id: channel.id };
    const command = JSON.stringify([workflow.id, place, input]);
    const client_id = clientId(ws, command);
    attempts.set(ws, { command, client_id, at: Date.now() });
    await startRun(workflow, { ...place, input, client_id }, deps);
    attempts.delete(ws);
    return true;
  } catch (e) {
    ui.show(errorMessage(e));
    return false;
  }
}
