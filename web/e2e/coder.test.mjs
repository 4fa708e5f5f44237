// Coder at work with the real runner, its sandbox, and git: from a mention to a branch of the repository.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, test } from 'node:test';
import { box, button, startThread } from './lib/browser.mjs';
import { answers, main, pictures, REPLY_BOX } from './lib/parts.mjs';
import { api, known, startTeam } from './lib/team.mjs';

const bin = resolve(
  process.env.OPENVIBE_BIN ?? new URL('../../target/debug/openvibe', import.meta.url).pathname,
);
/** The runner does not stay root. */
const NOBODY = '65534';

const { server, model, ada } = await startTeam({ model: true, bo: null });
const dir = await mkdtemp(join(tmpdir(), 'openvibe-coder-'));
const origin = join(dir, 'origin.git');
let runner = null;
after(async () => {
  runner?.kill();
  await rm(dir, { recursive: true, force: true });
});

const sh = (script) => execFileSync('sh', ['-ec', script], { cwd: dir, encoding: 'utf8' }).trim();
const git = (words) =>
  execFileSync('git', ['-c', 'safe.directory=*', '-C', origin, ...words.split(' ')], {
    encoding: 'utf8',
  }).trim();

const startRunner = () =>
  spawn(bin, ['runner', '--config', join(dir, 'runner.toml')], {
    cwd: dir,
    env: { PATH: process.env.PATH, HOME: dir },
    stdio: ['ignore', 'inherit', 'inherit'],
  });

test('a mention becomes a checked change, which a press pushes', async () => {
  const { key } = await api(ada, 'POST', 'runners', { name: 'build-1' });
  await writeFile(join(dir, 'key'), key, { mode: 0o600 });
  await writeFile(
    join(dir, 'runner.toml'),
    [
      `server = "${server.base}"`,
      'key_file = "key"',
      `data_dir = "${join(dir, 'data')}"`,
      '[repository.api]',
      `url = "${origin}"`,
      'check = "sh test.sh"',
    ].join('\n'),
  );
  sh(`mkdir work data && cd work && git init -q -b main . && echo 'echo $(($1 - $2))' > sum.sh
    printf 'test "$(sh sum.sh 1 2)" = 3\\n' > test.sh
    git add -A && git -c user.name=Ada -c user.email=ada@example.com commit -qm Start
    cd .. && git clone -q --bare work origin.git && chmod 755 . && chmod 644 runner.toml`);
  if (process.getuid() === 0) sh(`chown -R ${NOBODY}:${NOBODY} data origin.git`);
  runner = startRunner();

  const { channelId } = await known(ada);
  let repository;
  while (!repository) [repository] = (await api(ada, 'GET', 'repositories')).data;
  const allowed = { state: 'allowed', channel_ids: [channelId('general')] };
  await api(ada, 'PATCH', `repositories/${repository.id}`, allowed, {
    'if-match': `"${repository.version}"`,
  });

  model.calls.set('fix the sum', [
    '',
    'edit',
    { path: 'sum.sh', old: '$1 - $2', new: '$1 + $2' },
    'run',
    { command: 'sh test.sh && echo passed' },
  ]);
  model.answers.set('fix the sum', 'Add instead of subtracting\n\nThe sum subtracted its second number.');
  await ada.page.goto('/northwind/c/general');
  await startThread(ada.page, '@coder fix the sum in api');
  const card = ada.page.getByRole('article', { name: 'Changes: api', exact: true });
  await card.waitFor({ timeout: 60_000 });
  await card.getByText(/^Tests passed/).waitFor();
  await pictures(ada, 'coder-changes');
  assert.equal(git('branch --list vibe/*'), '', 'nothing is pushed before a person approves');

  await button(ada.page, 'Approve and push').click();
  await main(ada)
    .getByText(/^Pushed by you/)
    .waitFor();
  await pictures(ada, 'coder-pushed');
  assert.equal(git('show vibe/1:sum.sh'), 'echo $(($1 + $2))');
  assert.equal(git('show vibe/1:test.sh'), git('show main:test.sh'));
  assert.equal(git('log -1 --format=%s vibe/1'), 'Add instead of subtracting');
  assert.equal(git('rev-parse vibe/1~'), git('rev-parse main'));
});

test('a killed server takes the turn up again, in the same copy', async () => {
  model.calls.set('more numbers', [
    '',
    'edit',
    { path: 'test.sh', old: '3', new: '3 && test "$(sh sum.sh 2 2)" = 4' },
    'run',
    { command: 'sleep 2; sh test.sh' },
  ]);
  model.answers.set('more numbers', 'Test more numbers');
  const { page } = ada;
  await box(page, REPLY_BOX).fill('@coder test more numbers');
  await page.keyboard.press('Enter');
  await main(ada)
    .getByText(/^Running sleep 2/)
    .first()
    .waitFor({ timeout: 30_000 });
  await server.stop('SIGKILL');
  await server.start();
  const pushing = main(ada).getByRole('button', { name: 'Approve and push', exact: true });
  await pushing.waitFor({ timeout: 60_000 });
  await main(ada).getByText('Test more numbers').first().waitFor();
  assert.equal(await answers(ada, 'Coder').count(), 2);
  await pushing.click();
  await main(ada)
    .getByText(/^Pushed by you/)
    .nth(1)
    .waitFor();
  assert.match(git('show vibe/1:test.sh'), /sum\.sh 2 2/);
  assert.equal(git('rev-list --count main..vibe/1'), '2');
  assert.equal(git('show vibe/1:sum.sh'), 'echo $(($1 + $2))');
});
