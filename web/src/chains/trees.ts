import type { HiddenTask, TaskTree } from '../api/task-trees';
import type { Message, Task } from '../api/types';

type TreeTask = TaskTree['tasks'][number];
export const isHidden = (t: TreeTask): t is HiddenTask => 'hidden' in t;
/** Tasks of a tree that the person may see. */
export const visible = (tree: TaskTree | null): Task[] =>
  (tree?.tasks ?? []).filter((t): t is Task => !isHidden(t));

/** Tasks delegated below a task, each followed by the tasks that it delegated. */
const below = (parent: string, all: Task[]): Task[] =>
  all
    .filter((t) => t.kind === 'delegate' && t.parent_task_id === parent)
    .flatMap((t) => [t, ...below(t.id, all)]);

/** Agents at work: the links of a chain, and delegated tasks. */
export interface Work {
  /** ID of the root task. */
  root: string;
  tasks: Task[];
}
/** Work that a message started, by tree. A retry replaces the task that it retries. */
export function worksOf(m: Message, known: Iterable<Task>): Work[] {
  const all = [...known].sort((a, b) => (a.id < b.id ? -1 : 1));
  const retryOf = (id: string) => all.find((t) => t.retry_of === id);
  const newest = (id: string): Task | undefined => {
    const again = retryOf(id);
    return again ? newest(again.id) : all.find((t) => t.id === id);
  };
  const chain = m.metadata.chain ?? [];
  const links = chain.flatMap((id) => newest(id) ?? []);
  if (links.length) return [{ root: chain[0]!, tasks: links.flatMap((t) => [t, ...below(t.id, all)]) }];
  const passedOn = all.filter((t) => t.kind === 'delegate' && t.trigger_message_id === m.id);
  const ids = new Set(passedOn.map((t) => t.id));
  const first = passedOn.filter((t) => !ids.has(t.parent_task_id ?? ''));
  const roots = [...new Set(first.map((t) => t.root_task_id))].filter((id) => !retryOf(id));
  const ofRoot = (root: string) => first.filter((t) => t.root_task_id === root);
  return roots.map((root) => ({ root, tasks: ofRoot(root).flatMap((t) => [t, ...below(t.id, all)]) }));
}

/** A step of the panel, with its position in the ARIA tree. */
export interface WorkRow {
  task: TreeTask;
  /** ID of the row above; null on the first level. */
  parent: string | null;
  level: number;
  position: number;
  size: number;
}
/** Summaries and similar background tasks are not steps. */
const isStep = (t: TreeTask): boolean => isHidden(t) || ['reply', 'resolve', 'delegate'].includes(t.kind);

/** Steps of a tree from top to bottom: delegated tasks are below the task that delegated them. */
export function workRows(tree: TaskTree): WorkRow[] {
  const steps = tree.tasks.filter(isStep);
  const ids = new Set(steps.map((t) => t.id));
  const parentOf = (t: TreeTask): string | null => {
    const parent = !isHidden(t) && t.kind === 'delegate' ? t.parent_task_id : null;
    return parent !== null && ids.has(parent) ? parent : null;
  };
  const under = (parent: string | null, level: number): WorkRow[] => {
    const siblings = steps.filter((t) => parentOf(t) === parent);
    return siblings.flatMap((task, i) => [
      { task, parent, level, position: i + 1, size: siblings.length },
      ...under(task.id, level + 1),
    ]);
  };
  return under(null, 1);
}
