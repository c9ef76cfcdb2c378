// Light or dark before the first paint: as chosen here before, else as the system says.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("ele-theme"); } catch { /* a page from an e-mail may keep nothing */ }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
