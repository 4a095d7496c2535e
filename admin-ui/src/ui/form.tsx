// form.tsx - forms whose errors stand at the field that the server names
import { createContext, type ComponentChildren, type JSX } from "preact";
import { useContext, useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, messageOf } from "../api";
import { parseSize, size } from "../format";

export type Values = Record<string, string | boolean>;

interface FormState {
    error: { text: string; field?: string } | null;
    fields: Set<string>;
    busy: boolean;
}

const FormContext = createContext<FormState>({ error: null, fields: new Set(), busy: false });

// Thrown by an act to say what is wrong with a field before the server is asked.
export class FieldError extends Error {
    readonly field: string;

    constructor(field: string, text: string) {
        super(text);
        this.field = field;
    }
}

interface FormProps {
    // Does it; what it throws is shown, at the field when one is named.
    act: () => Promise<unknown>;
    submit: string;
    // Other buttons, before the main one.
    buttons?: ComponentChildren;
    onCancel?: (() => void) | undefined;
    danger?: boolean;
    disabled?: boolean;
    // Given the error first; true: it was dealt with (a conflict, say).
    onError?: (error: unknown) => boolean;
    inline?: boolean;
    children: ComponentChildren;
}

export function Form(props: FormProps): JSX.Element {
    const [state, setState] = useState<FormState>({ error: null, fields: new Set(), busy: false });
    const form = useRef<HTMLFormElement>(null);
    const mounted = useRef(true);
    useEffect(() => () => {
        mounted.current = false;
    }, []);
    useEffect(() => {
        if (!state.error) return;
        const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid="true"]');
        const fold = wrong?.closest("details");
        if (fold) fold.open = true;
        wrong?.focus();
    }, [state.error]);

    const submit = async (event: Event): Promise<void> => {
        event.preventDefault();
        if (state.busy) return;
        setState((now) => ({ ...now, busy: true, error: null }));
        try {
            await props.act();
            if (mounted.current) setState((now) => ({ ...now, busy: false }));
        } catch (error) {
            if (!(error instanceof Error)) throw error;
            if (props.onError?.(error)) {
                setState((now) => ({ ...now, busy: false }));
                return;
            }
            const field = error instanceof FieldError ? error.field
                : error instanceof ApiError ? error.argument : undefined;
            setState((now) => ({
                ...now, busy: false,
                error: { text: messageOf(error), ...(field !== undefined && { field }) },
            }));
        }
    };
    const { error } = state;
    const atField = error?.field !== undefined && state.fields.has(error.field);
    return (
        <FormContext.Provider value={state}>
            <form ref={form} onSubmit={submit} noValidate class={props.inline ? "inline-form" : "stack"}>
                {props.children}
                {error && !atField && (
                    <p class="notice is-bad" role="alert">
                        {error.field !== undefined && <strong>{error.field}: </strong>}{error.text}
                    </p>
                )}
                <div class="buttons">
                    <button type="submit" class={props.danger ? "danger" : "primary"}
                        disabled={state.busy || props.disabled}>
                        {props.submit}
                    </button>
                    {props.onCancel && <button type="button" onClick={props.onCancel}>Cancel</button>}
                    {props.buttons}
                </div>
            </form>
        </FormContext.Provider>
    );
}

// Fields that belong together.
export function Group({ title, text, children }: { title: string; text?: ComponentChildren; children: ComponentChildren }): JSX.Element {
    return (
        <fieldset class="group">
            <legend>{title}</legend>
            {text && <p class="help">{text}</p>}
            {children}
        </fieldset>
    );
}

// Fields that few need; unfolded by itself when something in it is wrong.
export function Fold({ title, children }: { title: string; children: ComponentChildren }): JSX.Element {
    return (
        <details class="fold">
            <summary>{title}</summary>
            <div class="stack">{children}</div>
        </details>
    );
}

interface FieldProps {
    name: string;
    label: ComponentChildren;
    help?: ComponentChildren;
    children: (attributes: {
        id: string;
        "aria-invalid": boolean | undefined;
        "aria-describedby": string | undefined;
    }) => JSX.Element;
}

export function Field({ name, label, help, children }: FieldProps): JSX.Element {
    const id = useId();
    const state = useContext(FormContext);
    state.fields.add(name);
    const wrong = state.error?.field === name ? state.error.text : "";
    const described = [help ? `${id}-help` : "", wrong ? `${id}-error` : ""].filter(Boolean).join(" ");
    return (
        <div class={`field ${wrong ? "is-wrong" : ""}`}>
            <label class="label" for={id}>{label}</label>
            {children({ id, "aria-invalid": wrong ? true : undefined, "aria-describedby": described || undefined })}
            {wrong && <p class="wrong" id={`${id}-error`} role="alert">{wrong}</p>}
            {help && <p class="help" id={`${id}-help`}>{help}</p>}
        </div>
    );
}

interface TextProps {
    name: string;
    label: ComponentChildren;
    value: string;
    set: (value: string) => void;
    help?: ComponentChildren;
    secret?: boolean;
    placeholder?: string;
    autocomplete?: string;
    autofocus?: boolean;
    rows?: number;
    suffix?: string;
    mono?: boolean;
    // Offered while one types; anything else may be typed too.
    suggestions?: string[];
    required?: boolean;
}

export function Text(props: TextProps): JSX.Element {
    const input = useRef<HTMLInputElement>(null);
    const list = useId();
    useEffect(() => {
        if (props.autofocus) input.current?.focus();
    }, []);
    const shared = {
        name: props.name,
        value: props.value,
        placeholder: props.placeholder,
        spellcheck: false,
        "aria-required": props.required || undefined,
        class: props.mono ? "mono" : undefined,
    };
    return (
        <Field name={props.name} label={props.label} help={props.help}>
            {(attributes) => props.rows ? (
                <textarea {...attributes} {...shared} rows={props.rows}
                    onInput={(event) => props.set(event.currentTarget.value)} />
            ) : (
                <span class={props.suffix ? "with-suffix" : "plain-input"}>
                    <input {...attributes} {...shared} ref={input} autofocus={props.autofocus}
                        {...(props.secret ? { type: "password" as const }
                            : { type: "text" as const, ...(props.suggestions && { list }) })}
                        autocomplete={props.autocomplete ?? "off"} autocapitalize="off"
                        onInput={(event) => props.set(event.currentTarget.value)} />
                    {props.suffix && <span class="suffix">{props.suffix}</span>}
                    {props.suggestions && (
                        <datalist id={list}>{props.suggestions.map((word) => <option key={word} value={word} />)}</datalist>
                    )}
                </span>
            )}
        </Field>
    );
}

interface ChoiceProps {
    name: string;
    label: ComponentChildren;
    value: string;
    set: (value: string) => void;
    options: (string | { value: string; text: string })[];
    help?: ComponentChildren;
}

export function Choice({ name, label, value, set, options, help }: ChoiceProps): JSX.Element {
    return (
        <Field name={name} label={label} help={help}>
            {(attributes) => (
                <select {...attributes} name={name} value={value} onChange={(event) => set(event.currentTarget.value)}>
                    {options.map((option) => {
                        const { value: word, text } = typeof option === "string" ? { value: option, text: option } : option;
                        return <option key={word} value={word} selected={word === value}>{text}</option>;
                    })}
                </select>
            )}
        </Field>
    );
}

interface TickProps {
    name: string;
    label: ComponentChildren;
    value: boolean;
    set: (value: boolean) => void;
    help?: ComponentChildren;
}

export function Tick({ name, label, value, set, help }: TickProps): JSX.Element {
    const id = useId();
    const state = useContext(FormContext);
    state.fields.add(name);
    const wrong = state.error?.field === name ? state.error.text : "";
    return (
        <div class={`field is-tick ${wrong ? "is-wrong" : ""}`}>
            <input id={id} type="checkbox" name={name} checked={value} aria-invalid={wrong ? true : undefined}
                aria-describedby={help ? `${id}-help` : undefined}
                onChange={(event) => set(event.currentTarget.checked)} />
            <label for={id}>{label}</label>
            {wrong && <p class="wrong" role="alert">{wrong}</p>}
            {help && <p class="help" id={`${id}-help`}>{help}</p>}
        </div>
    );
}

// A size as people write it: "2 GiB"; empty or 0 is no limit.
export function SizeField(props: { name: string; label: string; value: string; set: (value: string) => void; help?: string }): JSX.Element {
    const bytes = parseSize(props.value);
    const seen = props.value.trim() === "" || bytes === 0 ? "No limit."
        : bytes === undefined ? "Write it like 500 MiB or 2 GiB."
        : `${bytes.toLocaleString("en")} bytes.`;
    return <Text {...props} placeholder="no limit" help={`${props.help ? `${props.help} ` : ""}${seen}`} />;
}

// A whole number as it was typed.
export function wholeValue(name: string, text: string): number {
    const value = Number(text.trim());
    if (text.trim() === "" || !Number.isInteger(value) || value < 0) throw new FieldError(name, "write a whole number");
    return value;
}

export function sizeValue(name: string, text: string): number {
    if (text.trim() === "") return 0;
    const bytes = parseSize(text);
    if (bytes === undefined) throw new FieldError(name, "write a size like 500 MiB or 2 GiB");
    return bytes;
}

export const sizeText = (bytes: number | undefined): string => (bytes ? exactSize(bytes) : "");

// A size in units only when nothing is lost by it.
function exactSize(bytes: number): string {
    const text = size(bytes);
    return parseSize(text) === bytes ? text : String(bytes);
}
