/* Runs before first paint, so the theme never flashes. A file, not inline: the CSP has no 'unsafe-inline'. */
(function () {
  var t = null;
  try {
    t = localStorage.getItem('openvibe.theme');
  } catch (e) {}
  if (t !== 'dark' && t !== 'light')
    t = matchMedia('(prefers-color-scheme: light)').matches ? 'light' : 'dark';
  document.documentElement.dataset.theme = t;
})();
