// api.ts - the one way to the server
//
// Every call goes through request(): it adds the token against forgery, turns an answer that is no
// success into an ApiError, and deals with the two states that are not the caller's to deal with. Session
// over (401): the call waits while the person logs in again over the page, then is sent once more, so that
// nothing typed is lost. Database away (503): the signal `away` goes up, the caller is told, and once the
// server says that all is well again `revision` goes up and each view asks again.
import { signal } from "@preact/signals";
import { sentence } from "./format";
import type { Problem, Session, Status } from "./types";

export const base =
    document.querySelector<HTMLMetaElement>('meta[name="posthouse-base"]')?.content || "/";

// null: nobody is logged in; undefined: not known yet.
export const session = signal<Session | null | undefined>(undefined);
// The session ended while the page was in use.
export const sessionOver = signal(false);
// What is away: nothing, the database, or the server itself.
export const away = signal<"" | "database" | "server">("");
// Goes up when everything shown should be asked for again.
export const revision = signal(0);
// Calls under way; the bar at the top is shown by it.
export const underWay = signal(0);

export class ApiError extends Error {
    readonly status: number;
    readonly code: string;
    readonly argument: string | undefined;
    readonly current: Record<string, unknown> | undefined;

    constructor(problem: Problem) {
        super(problem.detail || problem.title || `the server answered ${problem.status}`);
        this.status = problem.status;
        this.code = problem.code;
        this.argument = problem.argument;
        this.current = problem.current;
    }
}

export type Query = Record<string, string | number | boolean | undefined>;

export function apiUrl(path: string, query?: Query): string {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(query ?? {})) {
        if (value !== undefined && value !== "") words.set(name, String(value));
    }
    const text = words.toString();
    return `${base}api/v1${path}${text ? `?${text}` : ""}`;
}

// Puts values into a path: route`/accounts/${address}/password`.
export function route(parts: TemplateStringsArray, ...values: (string | number)[]): string {
    return parts.reduce((path, part, i) =>
        path + part + (i < values.length ? encodeURIComponent(String(values[i])) : ""), "");
}

interface Options {
    query?: Query | undefined;
    body?: Record<string, unknown> | undefined;
    signal?: AbortSignal | undefined;
    // The call is about the session itself: a 401 is its answer.
    aboutSession?: boolean;
    // Nobody waits for it: the bar stays still.
    quiet?: boolean;
}

async function problemOf(answer: Response): Promise<ApiError> {
    let problem: Partial<Problem> = {};
    try {
        problem = (await answer.json()) as Partial<Problem>;
    } catch {
        // No body, or none of ours: a proxy in between.
    }
    const code = answer.status === 503 ? "unavailable" : "internal";
    return new ApiError({ code, ...problem, status: answer.status });
}

let waitingForLogin: Promise<void> | undefined;
let loggedInAgain: (() => void) | undefined;

function loginAgain(): Promise<void> {
    sessionOver.value = true;
    waitingForLogin ??= new Promise((resolve) => {
        loggedInAgain = resolve;
    });
    return waitingForLogin;
}

// A 401 may be meant for what was sent; only who is logged in no longer has to log in again.
async function isOver(): Promise<boolean> {
    const answer = await send("GET", "/session", {});
    return answer.status === 401;
}

async function send(method: string, path: string, options: Options): Promise<Response> {
    const headers: Record<string, string> = { Accept: "application/json" };
    if (method !== "GET" && session.value) headers["X-CSRF-Token"] = session.value.csrf;
    const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store" };
    if (options.signal) init.signal = options.signal;
    if (options.body) {
        headers["Content-Type"] = "application/json";
        const given = Object.entries(options.body).filter(([, value]) => value !== undefined);
        init.body = JSON.stringify(Object.fromEntries(given));
    }
    return fetch(apiUrl(path, options.query), init);
}

export async function request<T>(method: string, path: string, options: Options = {}): Promise<T> {
    if (!options.quiet) underWay.value++;
    try {
        for (;;) {
            let answer: Response;
            try {
                answer = await send(method, path, options);
            } catch (error) {
                if (error instanceof DOMException && error.name === "AbortError") throw error;
                markAway("server");
                throw new ApiError({
                    status: 0, code: "unavailable", detail: "the server cannot be reached",
                });
            }
            if (answer.status === 401 && !options.aboutSession && session.value && await isOver()) {
                await loginAgain();
                continue;
            }
            if (!answer.ok) {
                const error = await problemOf(answer);
                if (answer.status === 503 && error.code === "unavailable") markAway("database");
                throw error;
            }
            if (answer.status === 204) return {} as T;
            return (await answer.json()) as T;
        }
    } finally {
        if (!options.quiet) underWay.value--;
    }
}

export const get = <T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> =>
    request<T>("GET", path, { query, signal });
export const post = <T = object>(path: string, body: Record<string, unknown> = {}): Promise<T> =>
    request<T>("POST", path, { body });
export const put = <T = object>(path: string, body: Record<string, unknown>): Promise<T> =>
    request<T>("PUT", path, { body });
export const patch = <T = object>(path: string, body: Record<string, unknown>): Promise<T> =>
    request<T>("PATCH", path, { body });
export const del = <T = object>(path: string, query?: Query): Promise<T> =>
    request<T>("DELETE", path, { query });

// -- the session -------------------------------------------------------------------------------------

export async function whoAmI(): Promise<void> {
    const before = session.value;
    let now: Session | null;
    try {
        now = await request<Session>("GET", "/session", { aboutSession: true });
    } catch (error) {
        if (!(error instanceof ApiError && error.status === 401)) throw error;
        now = null;
    }
    // A login that was quicker than this answer counts.
    if (session.value === before) session.value = now;
}

function begun(now: Session): void {
    const before = session.value;
    session.value = now;
    if (!sessionOver.value) return;
    // Someone else took the chair: nothing of the first person may stay on the page.
    if (before && before.login !== now.login) {
        location.reload();
        return;
    }
    sessionOver.value = false;
    loggedInAgain?.();
    waitingForLogin = undefined;
    loggedInAgain = undefined;
}

export async function logIn(login: string, password: string): Promise<void> {
    begun(await request<Session>("POST", "/session", { body: { login, password }, aboutSession: true }));
}

export async function logInByLink(token: string): Promise<void> {
    begun(await request<Session>("POST", "/session/link", { body: { token }, aboutSession: true }));
}

export async function logOut(): Promise<void> {
    try {
        await request("DELETE", "/session", { aboutSession: true });
    } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 401) throw error;
    }
    sessionStorage.clear();
    location.hash = "#/";
    location.reload();
}

// -- away and back -----------------------------------------------------------------------------------

let asking: ReturnType<typeof setTimeout> | undefined;

function markAway(what: "database" | "server"): void {
    away.value = what;
    asking ??= setTimeout(askAgain, 2000);
}

const isThere = (status: Partial<Status>): boolean => status.database === "available";

async function askAgain(): Promise<void> {
    asking = undefined;
    try {
        const answer = await send("GET", "/status", {});
        if (answer.status === 401) {
            // It can be asked, so it is there.
            away.value = "";
            revision.value++;
            return;
        }
        const status = (await answer.json()) as Partial<Status>;
        if (answer.ok && isThere(status)) {
            away.value = "";
            revision.value++;
            return;
        }
        away.value = "database";
    } catch {
        away.value = "server";
    }
    asking = setTimeout(askAgain, 2000);
}

export function noteStatus(status: Status): void {
    if (!isThere(status)) markAway("database");
}

export function messageOf(error: unknown): string {
    return sentence(error instanceof Error ? error.message : String(error));
}
