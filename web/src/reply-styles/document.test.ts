import { expect, test } from 'vitest';
import type { StylesForm } from '../api/reply-styles';
import { choicesIn, styleIn, withChoices, withoutStyle, withStyle } from './document';

const preset = (id: string, name: string, addons = [id]) => ({ id, name, description: '', addons });
const DOC: StylesForm = {
  addons: [
    { id: 'concise', text: 'Be brief.' },
    { id: 'plan', text: 'Make a plan.' },
  ],
  presets: [preset('concise', 'Brief'), preset('both', 'Both', ['plan', 'concise'])],
  routing: {
    review_every_n_turns: 6,
    force_review_on_compaction: true,
    default_preset_by_mode: { direct: 'concise', thread: 'both' },
  },
  rules: [
    { keywords: ['in short', 'tl;dr'], min_length: null, max_length: 400, preset: 'both', priority: 100 },
  ],
};

test('a style has the texts of its add-ons, in their order', () => {
  expect(styleIn(DOC, 'both')).toEqual({ name: 'Both', description: '', text: 'Make a plan.\n\nBe brief.' });
  expect(styleIn(DOC, null)).toEqual({ name: '', description: '', text: '' });
});
test('saving a style unchanged sends the document as it was read', () => {
  for (const { id } of DOC.presets) expect(withStyle(DOC, id, styleIn(DOC, id))).toEqual(DOC);
});
test('a changed text does not change another style that used the same one', () => {
  const changed = withStyle(DOC, 'concise', { ...styleIn(DOC, 'concise'), text: 'One sentence.' });
  expect(styleIn(changed, 'concise').text).toBe('One sentence.');
  expect(styleIn(changed, 'both')).toEqual(styleIn(DOC, 'both'));
  expect(changed.addons.map(({ id }) => id)).toEqual(['concise', 'plan', 'brief']);
});
test('a changed text replaces the texts that only this style used', () => {
  const changed = withStyle(DOC, 'both', { ...styleIn(DOC, 'both'), text: 'Plan briefly.' });
  expect(changed.presets[1]).toEqual(preset('both', 'Both', ['plan']));
  expect(changed.addons).toEqual([DOC.addons[0], { id: 'plan', text: 'Plan briefly.' }]);
});
test('IDs come from names, and are unique', () => {
  const fields = (name: string) => ({ name, description: 'D', text: 'T' });
  const ids = (name: string) => {
    const { presets, addons } = withStyle(DOC, null, fields(name));
    const { id, addons: own } = presets.at(-1)!;
    expect(addons.at(-1)).toEqual({ id: own[0], text: 'T' });
    return [id, own[0]];
  };
  expect(ids('Très bref!')).toEqual(['tres_bref', 'tres_bref']);
  expect(ids('Concise')).toEqual(['concise_2', 'concise_2']);
  expect(ids('Auto')).toEqual(['auto_2', 'auto_2']);
  expect(ids('简短')).toEqual(['style', 'style']);
  expect(ids('x'.repeat(80))[0]).toHaveLength(64);
});
test('a deleted style takes its own texts, rules, and defaults along', () => {
  const { addons, presets, routing, rules } = withoutStyle(DOC, 'both');
  expect([addons, presets, rules]).toEqual([[DOC.addons[0]], [DOC.presets[0]], []]);
  expect(routing.default_preset_by_mode).toEqual({ direct: 'concise' });
});
test('rules and defaults come back unchanged, and a keyword can contain a comma', () => {
  expect(withChoices(DOC, choicesIn(DOC))).toEqual(DOC);
  const choices = choicesIn(DOC);
  choices.rules[0]!.keywords = ' in short\n\n well, well\nplan \n';
  expect(withChoices(DOC, choices).rules[0]!.keywords).toEqual(['in short', 'well, well', 'plan']);
});
