// Before the first paint: the colour scheme chosen earlier, if one was. A classic script, because
// modules run too late for that.
'use strict';
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem('holdfast.theme'); } catch { /* storage is switched off */ }
  if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
})();
