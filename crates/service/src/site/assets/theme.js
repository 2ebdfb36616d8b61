// Applies the visitor's theme before the first paint. Without a choice, the system decides. The switch is in the footer.
(() => {
  const KEY = "bot-companion-theme";
  const root = document.documentElement;
  let chosen = "";
  const apply = () => (chosen === "light" || chosen === "dark" ? (root.dataset.theme = chosen) : delete root.dataset.theme);
  const read = () => {
    try {
      chosen = localStorage.getItem(KEY) ?? "";
    } catch {
      // Without storage, a choice lasts as long as the page.
    }
  };
  read();
  apply();
  addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = root.dataset.theme ?? "";
    select.addEventListener("change", () => {
      chosen = select.value;
      apply();
      try {
        if (chosen) localStorage.setItem(KEY, chosen);
        else localStorage.removeItem(KEY);
      } catch {
        // As above.
      }
    });
    addEventListener("storage", ({ key }) => {
      if (key !== KEY) return;
      read();
      apply();
      select.value = root.dataset.theme ?? "";
    });
  });
})();
