// bits.tsx - small pieces that many screens use
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { messageOf } from "../api";
import { ago, clockTime, fullTime, plural, size } from "../format";
import { Icon, type IconName } from "./icons";
import { say } from "./toast";

// Times that say "2 minutes ago" move on by themselves.
const minute = signal(0);
setInterval(() => minute.value++, 30000);

interface TimeProps {
    at: string | undefined;
    // "ago" for lists, "full" where the moment counts, "clock" within a day
    as?: "ago" | "full" | "clock";
    none?: string;
}

export function Time({ at, as = "ago", none = "never" }: TimeProps): JSX.Element {
    minute.value;
    const time = at ? new Date(at) : undefined;
    if (!time || Number.isNaN(time.getTime())) return <span class="dim">{at ? at : none}</span>;
    const text = as === "ago" ? ago(time) : as === "clock" ? clockTime(time) : fullTime(time);
    return <time dateTime={at!} title={at}>{text}</time>;
}

export function Size({ bytes }: { bytes: number | undefined }): JSX.Element | null {
    if (bytes === undefined) return null;
    return <span title={plural(bytes, "byte")} class="number">{size(bytes)}</span>;
}

export type Tone = "ok" | "warn" | "bad" | "info" | "none";

export function Badge({ tone = "none", children }: { tone?: Tone; children: ComponentChildren }): JSX.Element {
    return <span class={`badge is-${tone}`}>{children}</span>;
}

export function Usage({ used, of }: { used: number | undefined; of: number | undefined }): JSX.Element {
    const total = of ?? 0;
    const share = total > 0 ? Math.min(1, (used ?? 0) / total) : 0;
    const tone = share >= 0.95 ? "bad" : share >= 0.8 ? "warn" : "ok";
    return (
        <span class="usage">
            <span class="usage-text">
                <Size bytes={used ?? 0} />
                <span class="dim"> / {total > 0 ? <Size bytes={total} /> : "no limit"}</span>
            </span>
            {total > 0 && (
                <meter class={`is-${tone}`} min={0} max={1} value={share}
                    aria-label={`${Math.round(share * 100)} % of the quota used`} />
            )}
        </span>
    );
}

interface PageProps {
    title: ComponentChildren;
    // What the browser's tab says, where the title is more than words.
    name?: string;
    intro?: ComponentChildren;
    back?: { href: string; text: string };
    actions?: ComponentChildren;
    children: ComponentChildren;
}

export function Page({ title, name, intro, back, actions, children }: PageProps): JSX.Element {
    const heading = useRef<HTMLHeadingElement>(null);
    const words = name ?? (typeof title === "string" ? title : "Console");
    useEffect(() => {
        document.title = `${words} · Posthouse`;
    }, [words]);
    return (
        <div class="page">
            <header class="page-head">
                <div class="page-title">
                    {back && <a class="back" href={back.href}><Icon name="left" />{back.text}</a>}
                    <h1 ref={heading}>{title}</h1>
                    {intro && <p class="intro">{intro}</p>}
                </div>
                {actions && <div class="buttons">{actions}</div>}
            </header>
            {children}
        </div>
    );
}

interface CardProps {
    title?: ComponentChildren;
    actions?: ComponentChildren;
    class?: string;
    children: ComponentChildren;
}

export function Card({ title, actions, class: className = "", children }: CardProps): JSX.Element {
    return (
        <section class={`card ${className}`}>
            {(title || actions) && (
                <header class="card-head">
                    {title && <h2>{title}</h2>}
                    {actions && <div class="buttons">{actions}</div>}
                </header>
            )}
            {children}
        </section>
    );
}

interface EmptyProps {
    icon?: IconName;
    title: string;
    text?: ComponentChildren;
    action?: ComponentChildren;
}

export function Empty({ icon = "empty", title, text, action }: EmptyProps): JSX.Element {
    return (
        <div class="empty">
            <Icon name={icon} />
            <p class="empty-title">{title}</p>
            {text && <p class="dim">{text}</p>}
            {action && <div class="buttons">{action}</div>}
        </div>
    );
}

export function Problem({ error, retry }: { error: unknown; retry?: () => void }): JSX.Element {
    return (
        <div class="notice is-bad" role="alert">
            <Icon name="bad" />
            <span>{messageOf(error)}</span>
            {retry && <button type="button" class="small" onClick={retry}>Try again</button>}
        </div>
    );
}

export function Loading(): JSX.Element {
    return <div class="loading" role="status"><span class="spinner" aria-hidden="true" />Loading…</div>;
}

export function Facts({ rows }: { rows: [string, ComponentChildren][] }): JSX.Element {
    return (
        <dl class="facts">
            {rows.map(([name, value]) => (
                <div key={name}>
                    <dt>{name}</dt>
                    <dd>{value}</dd>
                </div>
            ))}
        </dl>
    );
}

export function Tabs({ tabs, label }: { tabs: { href: string; text: string; on: boolean }[]; label: string }): JSX.Element {
    return (
        <nav class="tabs" aria-label={label}>
            {tabs.map((tab) => (
                <a key={tab.href} href={tab.href} aria-current={tab.on ? "page" : undefined}>{tab.text}</a>
            ))}
        </nav>
    );
}

// `of` says to those who do not see the row what it copies.
export function Copy({ text, label = "Copy", of }: { text: string; label?: string; of?: string }): JSX.Element {
    const copy = async (): Promise<void> => {
        try {
            await navigator.clipboard.writeText(text);
            say("Copied.");
        } catch {
            say("This browser does not let a page copy; select the text and copy it.", true);
        }
    };
    return (
        <button type="button" class="small" aria-label={of && `${label} ${of}`} onClick={copy}><Icon name="copy" />{label}</button>
    );
}

// Something shown once: a password, a key.
export function Once({ text }: { text: string }): JSX.Element {
    return (
        <div class="once">
            <code tabIndex={0} aria-label="The secret">{text}</code>
            <Copy text={text} />
        </div>
    );
}
