/**
 * Number of visible inputs and words of a loaded part of the page. Check boxes and radio buttons under one legend
 * are one input.
 */
export async function measure(part) {
  await part.locator('h2').first().waitFor();
  await part.page().waitForLoadState('networkidle');
  await part.locator('.skel').first().waitFor({ state: 'detached' });
  return part.evaluate((root) => {
    const seen = (e) => e.checkVisibility() && !e.closest('.visually-hidden');
    const inputs = new Set();
    for (const e of root.querySelectorAll('input, select, textarea')) {
      if (!seen(e)) continue;
      const isChoice = e.type === 'radio' || (e.type === 'checkbox' && e.role !== 'switch');
      inputs.add((isChoice && e.closest('fieldset, [role=radiogroup]')) || e);
    }
    const words = (root.innerText.match(/\S+/g) ?? []).length;
    return { inputs: inputs.size, words };
  });
}
