/** Where tabs are wider than the window, the open one is moved into view. */
export const showCurrent = (row: HTMLElement): void => {
  const tab = row.querySelector<HTMLElement>('[aria-current]');
  if (tab) row.scrollLeft = tab.offsetLeft - (row.clientWidth - tab.offsetWidth) / 2;
};
