import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, box, button, fits, startThread } from './lib/browser.mjs';
import { inspect, main, messageList } from './lib/parts.mjs';
import { api, startTeam } from './lib/team.mjs';

const { ada, bo } = await startTeam({ model: true, bo: { theme: 'light' } });
const table = main(ada).getByRole('table', { name: 'Budgets' });
const row = (name) => table.getByRole('row').filter({ hasText: name });
const open = async (p = ada) => {
  await p.page.goto('/northwind/settings/budgets');
  await main(p).getByRole('heading', { name: 'Budgets', exact: true }).waitFor();
};
const home = async (p) => {
  await p.page.goto('/northwind');
  await box(p.page, 'Start a thread in #general').waitFor();
};
/** Waits until `fits` accepts the API's response. */
async function until(path, fits) {
  for (let n = 0; n < 500; n++) {
    const found = await api(ada, 'GET', path);
    if (fits(found)) return;
  }
  assert.fail(`${path} did not change`);
}
/** Fills in the budget form and saves it. */
async function save({ covered = 'The workspace', period = 'Month', unit, limit }) {
  const form = main(ada).getByRole('form', { name: /budget$/ });
  await form.getByLabel('For', { exact: true }).selectOption({ label: covered });
  await form.getByLabel('Period').selectOption({ label: period });
  await form.getByLabel('Unit').selectOption({ label: unit });
  await form.getByLabel('Limit', { exact: true }).fill(String(limit));
  await button(ada.page, 'Save budget').click();
  await form.waitFor({ state: 'detached' });
}

test('without budgets, the page says so, and members do not see it', async () => {
  await open();
  await main(ada).getByText('Calls are counted, but not limited.').waitFor();
  await inspect(ada, 'budgets-none');
  await bo.page.goto('/northwind/settings/budgets');
  await main(bo).getByRole('heading', { name: 'Usage', exact: true }).waitFor();
  assert.equal(await main(bo).getByRole('heading', { name: 'Budgets' }).count(), 0);
});

test('a budget is added, changed, and listed with what was used', async () => {
  await open();
  await button(ada.page, 'Add budget').click();
  await button(ada.page, 'Save budget').click();
  await main(ada).getByText('Enter a limit').waitFor();
  await save({ unit: 'Tokens', limit: 2000000 });
  await row('The workspace').getByText('2,000,000 tokens').waitFor();
  await button(ada.page, 'Add budget').click();
  await save({ covered: 'Bo Chen', period: 'Day', unit: 'US dollars', limit: 12.5 });
  await row('Bo Chen').getByText('$12.50').waitFor();
  await row('The workspace').getByRole('button', { name: 'Change: The workspace, Month' }).click();
  await save({ unit: 'Tokens', limit: 3000000 });
  await row('The workspace').getByText('3,000,000 tokens').waitFor();
  const headers = await table.getByRole('columnheader').allTextContents();
  assert.deepEqual(headers.slice(0, 5), ['For', 'Period', 'Limit', 'Used', 'Reserved']);
  await inspect(ada, 'budgets-listed');
});

test('a model without a known price is named beside dollar limits', async () => {
  await home(bo);
  await startThread(bo.page, '@vibe hello');
  await until('budgets', ({ data }) => data[0].spent > 0 && data[0].reserved === 0);
  await open();
  await main(ada)
    .getByText(/no known price: dollar limits do not cover/)
    .waitFor();
  assert.match(await row('The workspace').textContent(), /[1-9]\d* tokens/);
});

test('the list follows when another admin changes it', async () => {
  await open();
  await row('Bo Chen').waitFor();
  const { data } = await api(ada, 'GET', 'budgets');
  await api(ada, 'PUT', 'budgets', { data: data.slice(0, 1) });
  await row('Bo Chen').waitFor({ state: 'detached' });
  await row('The workspace').waitFor();
});

test('a reply without budget leaves a notice that says where to raise it', async () => {
  await api(ada, 'PUT', 'budgets', {
    data: [{ scope: 'workspace', period: 'month', limit_tokens: 1000 }],
  });
  await home(bo);
  await startThread(bo.page, '@vibe what next?');
  const month = new Intl.DateTimeFormat('en-US', { month: 'long', timeZone: 'UTC' }).format(new Date());
  await messageList(bo)
    .getByText(
      `Vibe could not answer: the workspace has used its 1,000 tokens for ${month}. An admin can raise it in Settings › Costs.`,
    )
    .waitFor();
  await accessible(bo.page, 'the notice');
  await open();
  await row('The workspace').waitFor();
});

test('a budget is removed after a question', async () => {
  await open();
  await row('The workspace').getByRole('button', { name: 'Remove: The workspace, Month' }).click();
  await ada.page.getByRole('dialog').getByRole('button', { name: 'Remove budget' }).click();
  await main(ada).getByText('Calls are counted, but not limited.').waitFor();
  await fits(ada.page, 'Budgets');
});

test('who sees costs is a choice of the admins', async () => {
  await open();
  const rule = main(ada).getByRole('group', { name: 'Who sees what replies cost' });
  assert.equal(await rule.getByLabel('Everyone').isChecked(), true);
  await rule.getByLabel('Admins').check();
  const { workspaces } = await api(ada, 'GET', 'auth/me');
  await until(`workspaces/${workspaces[0].id}/policy`, ({ show_costs }) => show_costs === 'admins');
  await ada.page.reload();
  await rule.getByLabel('Admins').waitFor();
  assert.equal(await rule.getByLabel('Admins').isChecked(), true);
});
