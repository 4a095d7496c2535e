// shell.tsx - what is around every screen: navigation, banners, the login that comes over the page
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { away, logOut, session, sessionOver, underWay } from "../api";
import { path, to } from "../router";
import { LoginForm } from "../screens/login";
import { setTheme, theme, type Theme } from "../theme";
import type { Role } from "../types";
import { Dialog, Questions } from "./dialog";
import { Icon, Logo, type IconName } from "./icons";
import { complain, Toasts } from "./toast";

interface Item {
    text: string;
    href: string;
    roles: Role[];
}

interface Group {
    text: string;
    icon: IconName;
    items: Item[];
}

const both: Role[] = ["operator", "tenant"];
const operator: Role[] = ["operator"];

const groups: Group[] = [
    { text: "Overview", icon: "overview", items: [{ text: "Overview", href: "#/", roles: both }] },
    {
        text: "Mail", icon: "mail", items: [
            { text: "Domains", href: "#/domains", roles: both },
            { text: "Aliases", href: "#/aliases", roles: both },
        ],
    },
    { text: "People", icon: "people", items: [{ text: "Accounts", href: "#/accounts", roles: both }] },
    {
        text: "Directory", icon: "book", items: [
            { text: "Contacts", href: "#/contacts", roles: both },
            { text: "Upstreams", href: "#/upstreams", roles: operator },
        ],
    },
    { text: "Sites", icon: "site", items: [{ text: "Sites", href: "#/sites", roles: both }] },
    { text: "Policy", icon: "script", items: [{ text: "Scripts", href: "#/scripts", roles: both }] },
    { text: "Certificates", icon: "certificate", items: [{ text: "Certificates", href: "#/certificates", roles: operator }] },
    {
        text: "Activity", icon: "activity", items: [
            { text: "Sessions", href: "#/sessions", roles: operator },
            { text: "Log", href: "#/log", roles: operator },
            { text: "Audit", href: "#/audit", roles: both },
        ],
    },
    {
        text: "System", icon: "system", items: [
            { text: "Plugins", href: "#/plugins", roles: operator },
            { text: "Settings", href: "#/settings", roles: operator },
            { text: "Operators", href: "#/operators", roles: operator },
            { text: "Tenants", href: "#/tenants", roles: operator },
            { text: "API keys", href: "#/api-keys", roles: operator },
        ],
    },
];

const isCurrent = (href: string, now: string): boolean =>
    href === "#/" ? now === "/" : now === href.slice(1) || now.startsWith(`${href.slice(1)}/`);

function groupsFor(role: Role, login: string): Group[] {
    if (role === "user") {
        return [
            { text: "My account", icon: "people", items: [{ text: "My account", href: to("accounts", login), roles: [role] }] },
        ];
    }
    return groups
        .map((group) => ({ ...group, items: group.items.filter((item) => item.roles.includes(role)) }))
        .filter((group) => group.items.length > 0);
}

function Navigation({ onGo }: { onGo?: () => void }): JSX.Element {
    const now = path.value;
    const who = session.value!;
    return (
        <nav class="nav" aria-label="Main">
            <ul>
                {groupsFor(who.role, who.login).map((group) => {
                    const only = group.items.length === 1 ? group.items[0]! : undefined;
                    return (
                        <li key={group.text}>
                            {only ? (
                                <a href={only.href} class="nav-top" onClick={onGo}
                                    aria-current={isCurrent(only.href, decodeURI(now)) || isCurrent(only.href, now) ? "page" : undefined}>
                                    <Icon name={group.icon} />{only.text}
                                </a>
                            ) : (
                                <>
                                    <span class="nav-group"><Icon name={group.icon} />{group.text}</span>
                                    <ul>
                                        {group.items.map((item) => (
                                            <li key={item.href}>
                                                <a href={item.href} onClick={onGo}
                                                    aria-current={isCurrent(item.href, now) ? "page" : undefined}>
                                                    {item.text}
                                                </a>
                                            </li>
                                        ))}
                                    </ul>
                                </>
                            )}
                        </li>
                    );
                })}
            </ul>
        </nav>
    );
}

const themes: { value: Theme; text: string; icon: IconName }[] = [
    { value: "auto", text: "As the system", icon: "auto" },
    { value: "light", text: "Light", icon: "sun" },
    { value: "dark", text: "Dark", icon: "moon" },
];

export function ThemeSwitch(): JSX.Element {
    return (
        <div class="switch" role="radiogroup" aria-label="Theme">
            {themes.map(({ value, text, icon }) => (
                <label key={value} title={text}>
                    <input type="radio" name="theme" value={value} checked={theme.value === value}
                        onChange={() => setTheme(value)} />
                    <Icon name={icon} /><span class="hidden">{text}</span>
                </label>
            ))}
        </div>
    );
}

const roleNames: Record<Role, string> = { operator: "Operator", tenant: "Tenant admin", user: "User" };

function Who(): JSX.Element {
    const who = session.value!;
    return (
        <div class="who">
            <div class="who-name">
                <strong title={who.login}>{who.login}</strong>
                <span class="dim">{roleNames[who.role]}</span>
            </div>
            <div class="who-buttons">
                <ThemeSwitch />
                <button type="button" class="quiet small" onClick={() => void logOut().catch(complain)}>
                    <Icon name="out" />Log out
                </button>
            </div>
        </div>
    );
}

export function Banner(): JSX.Element | null {
    if (!away.value) return null;
    return (
        <div class="banner" role="alert">
            <Icon name="warn" />
            <span>
                {away.value === "server"
                    ? "The server cannot be reached. What is shown may be old; asking again every two seconds."
                    : "The database is away. What is shown may be old and nothing can be saved; mail is answered with "
                        + "“try again later” and none is lost. Asking again every two seconds."}
            </span>
        </div>
    );
}

export function Shell({ children }: { children: ComponentChildren }): JSX.Element {
    const [open, setOpen] = useState(false);
    const main = useRef<HTMLElement>(null);
    const now = path.value;

    // A new screen starts at its top, and the keyboard and the screen reader with it.
    const first = useRef(true);
    useEffect(() => {
        if (first.current) {
            first.current = false;
            return;
        }
        scrollTo(0, 0);
        if (!document.querySelector("dialog[open]")) main.current?.focus({ preventScroll: true });
    }, [now]);

    useEffect(() => {
        const onKey = (event: KeyboardEvent): void => {
            if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
            const target = event.target as HTMLElement;
            if (target.closest("input, textarea, select, [contenteditable=true], .cm-editor, dialog")) return;
            const search = document.querySelector<HTMLInputElement>("[data-search]");
            if (!search) return;
            event.preventDefault();
            search.focus();
            search.select();
        };
        document.addEventListener("keydown", onKey);
        return () => document.removeEventListener("keydown", onKey);
    }, []);

    return (
        <div class="shell">
            <button type="button" class="skip" onClick={() => main.current?.focus()}>Skip to the content</button>
            <header class="top">
                <button type="button" class="quiet icon-only" aria-label="Menu" aria-expanded={open}
                    onClick={() => setOpen(true)}>
                    <Icon name="menu" />
                </button>
                <a href="#/" class="brand"><Logo />Posthouse</a>
            </header>
            <aside class="side" aria-label="Navigation">
                <a href="#/" class="brand"><Logo />Posthouse</a>
                <Navigation />
                <Who />
            </aside>
            {open && <Drawer close={() => setOpen(false)} />}
            <main class="content" ref={main} tabIndex={-1}>
                <div class={`progress ${underWay.value > 0 ? "is-on" : ""}`} aria-hidden="true" />
                <Banner />
                {children}
            </main>
            <Questions />
            {sessionOver.value && (
                <Dialog title="Your session is over">
                    <p>Log in again to go on. What you typed is still there, and what you were doing is done then.</p>
                    <LoginForm login={session.value?.login ?? ""} />
                </Dialog>
            )}
            <Toasts />
        </div>
    );
}

function Drawer({ close }: { close: () => void }): JSX.Element {
    const element = useRef<HTMLDialogElement>(null);
    useEffect(() => {
        element.current?.showModal();
    }, []);
    return (
        <dialog ref={element} class="drawer" aria-label="Menu" onClose={close}
            onClick={(event) => {
                if (event.target === element.current) close();
            }}>
            <div class="drawer-body">
                <div class="drawer-head">
                    <span class="brand"><Logo />Posthouse</span>
                    <button type="button" class="quiet icon-only" aria-label="Close the menu" onClick={close}>
                        <Icon name="close" />
                    </button>
                </div>
                <Navigation onGo={close} />
                <Who />
            </div>
        </dialog>
    );
}
