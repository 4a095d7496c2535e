// toast.tsx - short words about what was done, read out by screen readers
import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { messageOf } from "../api";
import { Icon } from "./icons";

interface Toast {
    id: number;
    text: string;
    bad: boolean;
}

const toasts = signal<Toast[]>([]);
let last = 0;

export function say(text: string, bad = false): void {
    const id = ++last;
    toasts.value = [...toasts.value.slice(-3), { id, text, bad }];
    if (!bad) setTimeout(() => dismiss(id), 6000);
}

export function complain(error: unknown): void {
    say(messageOf(error), true);
}

function dismiss(id: number): void {
    toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts(): JSX.Element {
    return (
        <div class="toasts" role="status" aria-live="polite">
            {toasts.value.map((toast) => (
                <div key={toast.id} class={`toast ${toast.bad ? "is-bad" : ""}`}>
                    <Icon name={toast.bad ? "bad" : "ok"} />
                    <span>{toast.text}</span>
                    <button type="button" class="quiet small icon-only" aria-label="Dismiss"
                        onClick={() => dismiss(toast.id)}>
                        <Icon name="close" />
                    </button>
                </div>
            ))}
        </div>
    );
}
