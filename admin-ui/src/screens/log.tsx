// log.tsx - what the server writes down, as it happens
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Query } from "../api";
import { useStill } from "../data";
import { csvOf, download } from "../csv";
import { useLive } from "../live";
import { place, setQuery } from "../router";
import type { LogLine, Page as ListPage } from "../types";
import { Badge, Empty, Page, Problem, Time, type Tone } from "../ui/bits";
import { Icon } from "../ui/icons";

const levels = ["error", "warning", "notice", "info", "debug"];
const tones: Record<string, Tone> = { error: "bad", warning: "warn", notice: "info", info: "none", debug: "none" };
const linesAtMost = 1000;

type Numbered = LogLine & { n: number };

export function Log(): JSX.Element {
    const { filter = "", level = "" } = place.value.query;
    const [typed, setTyped] = useState(filter);
    const still = useStill(typed, 250);
    const [lines, setLines] = useState<Numbered[]>([]);
    const [held, setHeld] = useState<LogLine[]>([]);
    const [paused, setPaused] = useState(false);
    const [error, setError] = useState<unknown>(null);
    const [loaded, setLoaded] = useState(false);
    const [again, setAgain] = useState(0);
    const number = useRef(0);
    // The newest line that is shown, by the server's number: the stream begins a little before.
    const newest = useRef(0);
    const bottom = useRef<HTMLDivElement>(null);
    const follow = useRef(true);

    const numbered = (items: LogLine[]): Numbered[] => items.map((line) => ({ ...line, n: ++number.current }));
    const fits = (line: LogLine): boolean => {
        const at = levels.indexOf(line.level);
        if (level && at >= 0 && at > levels.indexOf(level)) return false;
        return !filter || `${line.event} ${line.text}`.toLowerCase().includes(filter.toLowerCase());
    };

    useEffect(() => setQuery({ filter: still || undefined }), [still]);
    useEffect(() => {
        const abort = new AbortController();
        const query: Query = { limit: 200, filter, level };
        get<ListPage<LogLine>>("/log", query, abort.signal).then((page) => {
            const items = [...page.items].sort((a, b) => (a.number ?? 0) - (b.number ?? 0));
            newest.current = Math.max(newest.current, ...items.map((line) => line.number ?? 0));
            setLines(numbered(items));
            setHeld([]);
            setError(null);
            setLoaded(true);
        }, (caught: unknown) => {
            if (!abort.signal.aborted) setError(caught);
        });
        return () => abort.abort();
    }, [filter, level, again]);

    const state = useLive<{ items: LogLine[] }>("log", true, ({ items }) => {
        const fitting = items.filter((line) => (line.number === undefined || line.number > newest.current) && fits(line));
        newest.current = Math.max(newest.current, ...items.map((line) => line.number ?? 0));
        if (fitting.length === 0) return;
        if (paused) setHeld((now) => [...now, ...fitting].slice(-linesAtMost));
        else setLines((now) => [...now, ...numbered(fitting)].slice(-linesAtMost));
    });
    const goOn = (): void => {
        setLines((now) => [...now, ...numbered(held)].slice(-linesAtMost));
        setHeld([]);
        setPaused(false);
    };
    useEffect(() => {
        const frame = bottom.current;
        if (frame && follow.current) frame.scrollTop = frame.scrollHeight;
    }, [lines]);

    return (
        <Page title="Log" intro="The newest line is at the end."
            actions={
                <>
                    <Badge tone={paused ? "warn" : state === "live" ? "ok" : "none"}>
                        {paused ? `Paused${held.length > 0 ? `, ${held.length} waiting` : ""}`
                            : state === "live" ? "Live" : state === "connecting" ? "Connecting" : "Not live"}
                    </Badge>
                    <button type="button" aria-pressed={paused} onClick={() => (paused ? goOn() : setPaused(true))}>
                        <Icon name={paused ? "play" : "pause"} />{paused ? "Go on" : "Pause"}
                    </button>
                </>
            }>
            <div class="toolbar">
                <div class="search">
                    <Icon name="search" />
                    <input type="search" aria-label="Search the log" placeholder="Search event or text" value={typed}
                        data-search spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
                </div>
                <label class="filter">
                    <span class="hidden">Level</span>
                    <select value={level} onChange={(event) => setQuery({ level: event.currentTarget.value || undefined })}>
                        <option value="">Level: all</option>
                        {levels.slice(0, -1).map((word) => (
                            <option key={word} value={word} selected={word === level}>
                                {word === "error" ? "error" : `${word} and worse`}
                            </option>
                        ))}
                    </select>
                </label>
                <div class="toolbar-end">
                    <button type="button" onClick={() => download("log.csv", "text/csv",
                        csvOf(["at", "level", "event", "text"], lines.map((line) => [line.at, line.level, line.event, line.text])))}>
                        <Icon name="save" /><span>CSV</span>
                    </button>
                </div>
            </div>
            {error !== null && <Problem error={error} retry={() => setAgain((value) => value + 1)} />}
            {loaded && lines.length === 0 && (
                <Empty icon="activity" title={filter || level ? "No line fits" : "Nothing was logged yet"} text="New lines show up here by themselves." />
            )}
            {lines.length > 0 && (
                <div class="log" ref={bottom} role="log" aria-label="Log lines" aria-live={paused ? "off" : "polite"} tabIndex={0}
                    onScroll={(event) => {
                        const frame = event.currentTarget;
                        follow.current = frame.scrollHeight - frame.scrollTop - frame.clientHeight < 40;
                    }}>
                    {lines.map((line) => (
                        <div key={line.n} class="log-line">
                            <span class="log-at"><Time at={line.at} as="clock" /></span>
                            <span class="log-level"><Badge tone={tones[line.level] ?? "none"}>{line.level}</Badge></span>
                            <span class="log-event">{line.event}</span>
                            <span class="log-text">{line.text}</span>
                        </div>
                    ))}
                </div>
            )}
        </Page>
    );
}
