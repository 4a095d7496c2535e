// router.ts - the address after "#" is the state of the page
//
//   #/accounts?filter=ali&state=active      path and query; lists keep their state in the query
//
// A hash works below every base path and needs nothing of the server.
import { computed, signal } from "@preact/signals";

export interface Place {
    path: string;
    segments: string[];
    query: Record<string, string>;
}

function decode(text: string): string {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

export function parse(hash: string): Place {
    const text = hash.replace(/^#/, "");
    const mark = text.indexOf("?");
    const path = (mark < 0 ? text : text.slice(0, mark)) || "/";
    const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)));
    return { path, segments: path.split("/").filter(Boolean).map(decode), query };
}

export const place = signal<Place>(parse(location.hash));
export const path = computed(() => place.value.path);

addEventListener("hashchange", () => {
    place.value = parse(location.hash);
});

// A link to a place: to("accounts", address) gives "#/accounts/alice%40example.test".
export function to(...segments: (string | number)[]): string {
    return `#/${segments.map((segment) => encodeURIComponent(String(segment))).join("/")}`;
}

export function go(hash: string, replace = false): void {
    if (hash === location.hash) return;
    if (replace) {
        history.replaceState(null, "", hash);
        place.value = parse(hash);
    } else {
        location.hash = hash;
    }
}

// Changes words of the query and keeps the others; an empty one goes.
export function setQuery(change: Record<string, string | undefined>, replace = true): void {
    const words = { ...place.value.query, ...change };
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(words)) {
        if (value) query.set(name, value);
    }
    const text = query.toString();
    go(`#${place.value.path}${text ? `?${text}` : ""}`, replace);
}
