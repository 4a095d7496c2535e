// theme-first.ts - sets the chosen theme before anything is painted; it is loaded on its own, in the head
(() => {
    try {
        const theme = localStorage.getItem("posthouse-theme");
        if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
    } catch {
        // Storage that may not be used: the system's theme it is.
    }
})();
