// icons.tsx - the few pictures of the console, drawn on a grid of 20
import type { JSX } from "preact";

const paths = {
    overview: "M3 11a7 7 0 0 1 14 0M10 11l3.5-3.5M3 15h14",
    mail: "M3 5.5h14v10H3zM3.5 6l6.5 5 6.5-5",
    people: "M7.5 9.5a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4zM2.5 16c0-2.8 2.2-4.5 5-4.5s5 1.7 5 4.5M13 4.5a2.5 2.5 0 0 1 0 4.8M14.5 12c1.9.5 3 1.9 3 4",
    book: "M5 3h9.5v14H5zM3.5 6.5h3M3.5 10h3M3.5 13.5h3M10.2 9.4a1.6 1.6 0 1 0 0-3.2 1.6 1.6 0 0 0 0 3.2zM7.5 13.2c.4-1.6 1.4-2.4 2.7-2.4s2.3.8 2.7 2.4",
    site: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM3 10h14M10 3c2.5 2 2.5 12 0 14M10 3c-2.5 2-2.5 12 0 14",
    script: "M7 6l-4 4 4 4M13 6l4 4-4 4M11.5 4.5l-3 11",
    certificate: "M10 3l6 2.5v4c0 3.7-2.5 6.2-6 7.5-3.5-1.3-6-3.8-6-7.5v-4zM7.5 10l2 2 3.5-4",
    activity: "M2.5 11h3l2.5-6 4 10 2.5-6 1 2h2",
    system: "M10 12.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5zM10 2.5v2.2M10 15.3v2.2M2.5 10h2.2M15.3 10h2.2M4.7 4.7l1.6 1.6M13.7 13.7l1.6 1.6M4.7 15.3l1.6-1.6M13.7 6.3l1.6-1.6",
    menu: "M3 5.5h14M3 10h14M3 14.5h14",
    close: "M5 5l10 10M15 5L5 15",
    search: "M9 14.5a5.5 5.5 0 1 0 0-11 5.5 5.5 0 0 0 0 11zM13 13l4 4",
    down: "M5 8l5 5 5-5",
    right: "M8 5l5 5-5 5",
    left: "M12 5l-5 5 5 5",
    ok: "M4.5 10.5l3.5 3.5 7.5-8",
    warn: "M10 3.5l7.5 13h-15zM10 8.5v3.5M10 14.3v.2",
    bad: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM7.5 7.5l5 5M12.5 7.5l-5 5",
    sun: "M10 13a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM10 2.5v1.8M10 15.7v1.8M2.5 10h1.8M15.7 10h1.8M4.7 4.7l1.3 1.3M14 14l1.3 1.3M4.7 15.3L6 14M14 6l1.3-1.3",
    moon: "M16 12.5A6.5 6.5 0 0 1 7.5 4a6.5 6.5 0 1 0 8.5 8.5z",
    auto: "M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM10 3v14M10 6.5h4.5M10 10h6.5M10 13.5h4.5",
    copy: "M7.5 7.5h8.5v8.5H7.5zM4 12.5v-8.5h8.5",
    out: "M8 4H4v12h4M11 6.5l3.5 3.5-3.5 3.5M7.5 10h7",
    external: "M11 4h5v5M16 4l-7 7M13 11.5V16H4V7h4.5",
    plus: "M10 4v12M4 10h12",
    pause: "M7 4.5v11M13 4.5v11",
    play: "M6 4l9.5 6L6 16z",
    empty: "M3 11.5l2.5-6.5h9l2.5 6.5v4H3zM3 11.5h4l1 2h4l1-2h4",
    columns: "M3 4h14v12H3zM8 4v12M12.5 4v12",
    save: "M10 3.5v9M6.5 9.5l3.5 3.5 3.5-3.5M4 16.5h12",
} as const;

export type IconName = keyof typeof paths;

export function Icon({ name, class: className = "" }: { name: IconName; class?: string }): JSX.Element {
    return (
        <svg class={`icon ${className}`} viewBox="0 0 20 20" aria-hidden="true" focusable="false">
            <path d={paths[name]} />
        </svg>
    );
}

export function Logo(): JSX.Element {
    return (
        <svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
            <rect width="32" height="32" rx="7" />
            <path d="M6 14.5 16 7l10 7.5M8.5 14v11h15V14M8.5 16l7.5 5 7.5-5" />
        </svg>
    );
}
