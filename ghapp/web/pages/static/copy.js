// Copies a command by the button behind it. Without this script there is no button, and the text can be selected.
(() => {
  "use strict";
  const shownMilliseconds = 2000;
  // A page that is neither HTTPS nor of this machine has no clipboard: the command is selected, and copied from there.
  const select = (code) => {
    document.getSelection().selectAllChildren(code);
    return document.execCommand("copy");
  };
  const copy = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return true;
    } catch {
      return select(code);
    }
  };
  document.documentElement.classList.add("copies");
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button.copy");
    if (!button) return;
    const { shown: word } = button.dataset, name = button.ariaLabel;
    button.dataset.shown = button.ariaLabel = await copy(button.previousElementSibling) ? "Copied" : "Selected";
    window.setTimeout(() => {
      button.dataset.shown = word;
      button.ariaLabel = name;
    }, shownMilliseconds);
  });
})();
