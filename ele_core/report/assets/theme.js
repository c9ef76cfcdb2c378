// Set light or dark before the first paint: the stored choice, otherwise the system's.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("ele-theme"); } catch { /* no storage, for example in a page opened from an e-mail */ }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
