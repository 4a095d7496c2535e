// dialog.tsx - modal dialogs on the browser's own <dialog>, and the question before something is lost
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { messageOf } from "../api";
import { Icon } from "./icons";

interface DialogProps {
    title: string;
    onClose?: (() => void) | undefined;
    wide?: boolean;
    children: ComponentChildren;
}

// Without onClose it cannot be dismissed.
export function Dialog({ title, onClose, wide, children }: DialogProps): JSX.Element {
    const element = useRef<HTMLDialogElement>(null);
    const id = useId();
    // Taken before the dialog is there: what is in it may have the focus before the effect runs.
    const before = useRef(document.activeElement as HTMLElement | null);
    useEffect(() => {
        element.current?.showModal();
        // While the dialog stands, all behind it is inert and takes no focus: it is given back when that is gone.
        return () => queueMicrotask(() => before.current?.focus?.());
    }, []);
    return (
        <dialog ref={element} class={`dialog ${wide ? "is-wide" : ""}`} aria-labelledby={id}
            onCancel={(event) => {
                event.preventDefault();
                onClose?.();
            }}
            // A second Escape closes it whatever `cancel` said: put it back.
            onClose={() => {
                if (onClose) onClose();
                else if (element.current?.isConnected) element.current.showModal();
            }}>
            <div class="dialog-head">
                <h2 id={id}>{title}</h2>
                {onClose && (
                    <button type="button" class="quiet icon-only" aria-label="Close" onClick={onClose}>
                        <Icon name="close" />
                    </button>
                )}
            </div>
            <div class="dialog-body">{children}</div>
        </dialog>
    );
}

interface Question {
    title: string;
    // What will happen, and what will be lost.
    text: ComponentChildren;
    confirm: string;
    danger?: boolean;
    // Must be typed before the button works: for what cannot be taken back.
    type?: string;
    // Done while the dialog is open; when it fails, the dialog says why and stays.
    act: () => Promise<unknown>;
    done?: () => void;
}

const question = signal<Question | null>(null);

export function ask(next: Question): void {
    question.value = next;
}

export function Questions(): JSX.Element | null {
    const now = question.value;
    return now && <QuestionDialog key={now.title} {...now} />;
}

function QuestionDialog({ title, text, confirm, danger, type, act, done }: Question): JSX.Element {
    const [typed, setTyped] = useState("");
    const [busy, setBusy] = useState(false);
    const [error, setError] = useState("");
    const close = (): void => {
        question.value = null;
    };
    const submit = async (event: Event): Promise<void> => {
        event.preventDefault();
        setBusy(true);
        setError("");
        try {
            await act();
            close();
            done?.();
        } catch (caught) {
            setError(messageOf(caught));
            setBusy(false);
        }
    };
    const allowed = !type || typed.trim() === type;
    return (
        <Dialog title={title} onClose={close}>
            <form onSubmit={submit} class="stack">
                <div class="question">{text}</div>
                {type && (
                    <label class="field">
                        <span class="label">To confirm, type <code>{type}</code></span>
                        <input value={typed} autofocus autocomplete="off" spellcheck={false}
                            onInput={(event) => setTyped(event.currentTarget.value)} />
                    </label>
                )}
                {error && <p class="notice is-bad" role="alert">{error}</p>}
                <div class="buttons is-end">
                    <button type="button" autofocus={!type} onClick={close}>Cancel</button>
                    <button type="submit" class={danger ? "danger" : "primary"} disabled={busy || !allowed}>
                        {confirm}
                    </button>
                </div>
            </form>
        </Dialog>
    );
}
