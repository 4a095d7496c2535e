// theme.ts - light, dark, or as the system says; the choice is kept in this browser
import { signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";

const key = "posthouse-theme";

function kept(): Theme {
    try {
        const value = localStorage.getItem(key);
        return value === "light" || value === "dark" ? value : "auto";
    } catch {
        return "auto";
    }
}

export const theme = signal<Theme>(kept());

export function setTheme(next: Theme): void {
    theme.value = next;
    if (next === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = next;
    try {
        if (next === "auto") localStorage.removeItem(key);
        else localStorage.setItem(key, next);
    } catch {
        // It holds until the page is left, then.
    }
}
