/* Light or dark as the reader chose last; runs before the first paint, so it is no module. */
(() => {
  const root = document.documentElement;
  const stored = () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  };
  const choose = (theme) => {
    root.dataset.theme = theme;
    try {
      localStorage.setItem("theme", theme);
    } catch {
      /* Storage is off: the choice lasts for this page. */
    }
  };
  const dark = () =>
    root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const name = () => {
      button.textContent = dark() ? "Light" : "Dark";
      button.setAttribute("aria-label", `${button.textContent} mode`);
    };
    button.addEventListener("click", () => {
      choose(dark() ? "light" : "dark");
      name();
    });
    name();
  });
})();
