import type { LogLine, Step } from '../api/code';

/** Lines of a log that can be read; others are skipped. */
export function linesIn(log: string): LogLine[] {
  return log.split('\n').flatMap((text) => {
    try {
      const line = JSON.parse(text) as LogLine | null;
      return line && (line.kind === 'step' || line.kind === 'content') ? [line] : [];
    } catch {
      return [];
    }
  });
}
/** Steps of a log, as they ended. */
export function stepsIn(log: string): Step[] {
  const steps = new Map<number, Step>();
  for (const line of linesIn(log)) {
    if (line.kind !== 'step') continue;
    const { step: n, title, state, ms, tool } = line;
    steps.set(n, { n, title: String(title), kind: tool ?? 'other', state, ms: Number(ms) || 0 });
  }
  return [...steps.values()].sort((a, b) => a.n - b.n);
}

/** A line of a log as it is shown. */
export interface ShownLine {
  key: number;
  isStep: boolean;
  text: string;
}
/** Lines of a log as text: a heading for each step that began or ended, and below it what it returned. */
export function shownLines(log: string): ShownLine[] {
  const shown: ShownLine[] = [];
  const add = (isStep: boolean, text: string) => shown.push({ key: shown.length, isStep, text });
  let last = '';
  for (const line of linesIn(log)) {
    if (line.kind === 'content') {
      for (const text of String(line.text).split('\n')) add(false, text);
      continue;
    }
    const state = line.state === 'running' ? '' : line.state === 'failed' ? ' · failed' : ' · done';
    const heading = `${line.step + 1}. ${String(line.title)}${state}`;
    if (heading !== last) add(true, heading);
    last = heading;
  }
  return shown;
}
