/** Scrolls the current tab into view if the tabs are wider than the window. */
export const showCurrent = (row: HTMLElement): void => {
  const tab = row.querySelector<HTMLElement>('[aria-current]');
  if (tab) row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
};
