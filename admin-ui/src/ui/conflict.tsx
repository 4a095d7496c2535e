// conflict.tsx - two people changed one thing: the second one is shown both and chooses
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, messageOf } from "../api";
import { Dialog } from "./dialog";

interface ConflictProps {
    what: string;
    // Field, and how it is called on the form.
    fields: Record<string, string>;
    mine: Record<string, unknown>;
    theirs: Record<string, unknown>;
    show?: (field: string, value: unknown) => string;
    keepMine: () => Promise<unknown>;
    takeTheirs: () => void;
    close: () => void;
}

// A change of `version` that came second. With the version still that one, something else is in the way: a name that
// is taken, say.
export const isConflict = (error: unknown, version?: number): error is ApiError & { current: Record<string, unknown> } =>
    error instanceof ApiError && error.status === 409 && error.current !== undefined
    && (version === undefined || error.current["version"] !== version);

function plain(value: unknown): string {
    if (value === undefined || value === null || value === "") return "not set";
    return typeof value === "boolean" ? (value ? "yes" : "no") : String(value);
}

export function Conflict(props: ConflictProps): JSX.Element {
    const [busy, setBusy] = useState(false);
    const [error, setError] = useState("");
    const show = (field: string, value: unknown): string => props.show?.(field, value) ?? plain(value);
    const by = props.theirs["by"] ?? props.theirs["changed_by"];
    const keep = async (): Promise<void> => {
        setBusy(true);
        setError("");
        try {
            await props.keepMine();
        } catch (caught) {
            setError(messageOf(caught));
            setBusy(false);
        }
    };
    return (
        <Dialog title={`${props.what} was changed meanwhile`} onClose={props.close} wide>
            <div class="stack">
                <p>
                    {typeof by === "string" && by ? <><strong>{by}</strong> saved</> : "Someone saved"} another
                    version while you were editing. Nothing of yours has been saved yet.
                </p>
                <div class="table-frame">
                    <table class="table is-plain" aria-label="Both versions">
                        <thead>
                            <tr><th scope="col">Field</th><th scope="col">Yours</th><th scope="col">Saved now</th></tr>
                        </thead>
                        <tbody>
                            {Object.entries(props.fields).map(([field, title]) => {
                                const mine = show(field, props.mine[field]);
                                const theirs = show(field, props.theirs[field]);
                                return (
                                    <tr key={field} class={mine === theirs ? "" : "is-different"}>
                                        <th scope="row">{title}</th>
                                        <td class="wrap">{mine}</td>
                                        <td class="wrap">{theirs}</td>
                                    </tr>
                                );
                            })}
                        </tbody>
                    </table>
                </div>
                {error && <p class="notice is-bad" role="alert">{error}</p>}
                <div class="buttons is-end">
                    <button type="button" onClick={props.close}>Go on editing</button>
                    <button type="button" onClick={props.takeTheirs}>Take the saved version</button>
                    <button type="button" class="primary" disabled={busy} onClick={keep}>Save mine over it</button>
                </div>
            </div>
        </Dialog>
    );
}
