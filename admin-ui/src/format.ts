// format.ts - numbers, sizes and times as a person reads them

const number = new Intl.NumberFormat("en");
export const count = (value: number | undefined): string =>
    value === undefined ? "" : number.format(value);

const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function size(bytes: number | undefined): string {
    if (bytes === undefined) return "";
    let value = bytes;
    let unit = 0;
    while (value >= 1024 && unit < units.length - 1) {
        value /= 1024;
        unit++;
    }
    const text = unit === 0 || value >= 100 ? Math.round(value).toString() : value.toFixed(1).replace(/\.0$/, "");
    return `${text} ${unit === 0 && value === 1 ? "byte" : units[unit]}`;
}

// "2 GiB", "500M", "1048576": bytes; undefined when it is none.
export function parseSize(text: string): number | undefined {
    const match = /^\s*([0-9]+(?:[.,][0-9]+)?)\s*(?:([kmgtp])i?b?|b|bytes?)?\s*$/i.exec(text);
    if (!match) return undefined;
    const power = match[2] ? "kmgtp".indexOf(match[2].toLowerCase()) + 1 : 0;
    return Math.round(Number(match[1]!.replace(",", ".")) * 1024 ** power);
}

export function duration(seconds: number): string {
    const parts: [number, string][] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = parts.findIndex(([length]) => seconds >= length);
    if (first < 0) return "0 s";
    const [length, unit] = parts[first]!;
    const whole = `${Math.floor(seconds / length)} ${unit}`;
    const next = parts[first + 1];
    const rest = next ? Math.floor((seconds % length) / next[0]) : 0;
    return next && rest > 0 && length > 1 ? `${whole} ${rest} ${next[1]}` : whole;
}

const dateTime = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
});
const clock = new Intl.DateTimeFormat(undefined, {
    hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const dayOnly = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export const fullTime = (time: Date): string => dateTime.format(time);
export const clockTime = (time: Date): string => clock.format(time);
export const day = (time: Date): string => dayOnly.format(time);

export function ago(time: Date, now = Date.now()): string {
    const seconds = (time.getTime() - now) / 1000;
    const past = Math.abs(seconds);
    if (past < 45) return seconds <= 0 ? "just now" : "in a moment";
    if (past < 3600) return relative.format(Math.round(seconds / 60), "minute");
    if (past < 86400) return relative.format(Math.round(seconds / 3600), "hour");
    if (past < 30 * 86400) return relative.format(Math.round(seconds / 86400), "day");
    return day(time);
}

export const plural = (value: number, one: string, many = `${one}s`): string =>
    `${count(value)} ${value === 1 ? one : many}`;

export const sentence = (text: string): string =>
    text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

export const words = (text: string | undefined): string[] =>
    (text ?? "").split(/[\s,]+/).filter(Boolean);
