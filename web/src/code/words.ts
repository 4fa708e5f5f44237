import type { Check, CodeSession, Step } from '../api/code';
import { oneLine, withCodes } from '../lib/text';
import { plural, seconds } from '../lib/time';

/** Maximum length of a name or step in a line of text. */
const SHORT_MAX = 60;
/** A text from outside on one line, with codes for characters that could hide or reorder others. */
export const shown = (text: string, max = SHORT_MAX): string => {
  const line = withCodes(oneLine(text));
  return line.length > max ? `${line.slice(0, max).trimEnd()}…` : line;
};

/** A path from outside on one line, with codes also for line breaks; the end of a long one is shown. */
export const pathText = (path: string, max = Infinity): string => {
  const line = withCodes(path).replace(/[\n\t]/g, (c) => (c === '\n' ? '\\u{A}' : '\\u{9}'));
  return line.length > max ? `…${line.slice(-max)}` : line;
};
/** Title of a step; agents put commands in backticks. */
export const stepTitle = (step: Step, max = SHORT_MAX): string =>
  shown(step.title.replace(/^`(.*)`$/s, '$1'), max) || 'A step';
/** "Running npm test · 12 s". */
export function runningText(step: Step, ms: number): string {
  const title = stepTitle(step);
  const text = step.kind === 'execute' && !/^running\b/i.test(title) ? `Running ${title}` : title;
  return `${text} · ${Math.floor(Math.max(0, ms) / 1000)} s`;
}
/** "Waiting for build-1 · 2 ahead". */
export const waitingText = (runner: string | undefined, ahead = 0): string =>
  `Waiting for ${runner ? shown(runner) : 'a runner'}${ahead > 0 ? ` · ${ahead} ahead` : ''}`;

/** "Coder worked in api on branch vibe/123: 3 files, +24 −9". */
export function workText(agent: string, repository: string, session: CodeSession): string {
  const { file_count, additions, deletions, branch } = session;
  const place = `${agent} worked in ${repository}${branch ? ` on branch ${shown(branch)}` : ''}`;
  return `${place}: ${plural(file_count, 'file')}, ${countText(additions, deletions)}`;
}
export const countText = (additions: number, deletions: number): string => `+${additions} −${deletions}`;
/** "Tests passed, 41 s". */
export function checkText(check: Check | null): string {
  if (!check || check.state === 'none') return 'No check';
  const took = check.ms < 60_000 ? `${Math.round(check.ms / 1000)} s` : seconds(check.ms);
  return check.state === 'passed' ? `Tests passed, ${took}` : 'Tests failed';
}

const CI_PATHS_SHOWN = 5;
/** Files that a git server reads to run commands, with its secrets, before anyone merges the branch. */
const CI =
  /^(\.(github|gitea|forgejo)\/(workflows|actions)\/.|\.gitlab-ci\.ya?ml$|\.gitlab\/.|\.(circleci|buildkite|woodpecker|semaphore)\/.|\.(drone|travis|woodpecker|cirrus)\.ya?ml$|appveyor\.ya?ml$|azure-pipelines\.ya?ml$|bitbucket-pipelines\.ya?ml$|jenkinsfile|\.builds?[/.])/i;
const CI_ANYWHERE = /(^|\/)(\.gitlab-ci\.ya?ml|azure-pipelines\.ya?ml|jenkinsfile)$/i;
const isCi = (path: string): boolean => CI.test(path) || CI_ANYWHERE.test(path);
/** "Changes what runs in CI: .github/workflows/test.yml"; blank if it does not. */
export function ciText({ files, file_count }: Pick<CodeSession, 'files' | 'file_count'>): string {
  const paths = [...new Set(files.flatMap((f) => [f.path, f.old_path ?? '']).filter(isCi))];
  if (!paths.length)
    return file_count > files.length ? 'Can change what runs in CI: the list of files is not complete' : '';
  const rest = paths.length - CI_PATHS_SHOWN;
  const named = paths.slice(0, CI_PATHS_SHOWN).map((path) => pathText(path, 120));
  return `Changes what runs in CI: ${named.join(', ')}${rest > 0 ? `, and ${rest} more` : ''}`;
}

/** Address of a pull request; null if it is not one that a browser opens as a page. */
export function linkOf(url: string | null | undefined): string | null {
  if (!url || !URL.canParse(url)) return null;
  const { protocol, href } = new URL(url);
  return protocol === 'https:' || protocol === 'http:' ? href : null;
}

/** Command that starts a runner on another machine. The key has no characters that a shell would read. */
export const runnerCommand = (server: string, key: string): string =>
  `openvibe runner --server ${server} --key ${key} --repository api=PATH_OR_URL`;
