// live.ts - the stream of what happens (server-sent events), while a screen wants it
import { useEffect, useRef, useState } from "preact/hooks";
import { apiUrl, noteStatus, request, revision } from "./api";
import type { Status } from "./types";

export type LiveState = "connecting" | "live" | "broken";

// Calls `take` for each event of the topic while the screen is shown and `on` is true.
export function useLive<T>(topic: "status" | "sessions" | "log", on: boolean, take: (data: T) => void): LiveState {
    const [state, setState] = useState<LiveState>("connecting");
    const latest = useRef(take);
    latest.current = take;
    const round = revision.value;

    useEffect(() => {
        if (!on) return;
        setState("connecting");
        let source: EventSource | undefined;
        let timer: ReturnType<typeof setTimeout> | undefined;
        let wait = 1000;
        let wanted = true;
        const open = (): void => {
            source = new EventSource(apiUrl("/events", { topics: topic }));
            source.onopen = () => {
                wait = 1000;
                setState("live");
            };
            source.addEventListener(topic, (event) => {
                const data = JSON.parse((event as MessageEvent<string>).data) as T;
                if (topic === "status") noteStatus(data as Status);
                latest.current(data);
            });
            source.onerror = () => {
                setState("broken");
                // The browser goes on by itself, except where the answer was no stream: session over, say, which
                // this request then deals with.
                if (source?.readyState !== EventSource.CLOSED) return;
                timer = setTimeout(() => {
                    void request("GET", "/session", { quiet: true }).catch(() => undefined).then(() => {
                        if (wanted) open();
                    });
                }, wait);
                wait = Math.min(wait * 2, 15000);
            };
        };
        open();
        return () => {
            wanted = false;
            source?.close();
            clearTimeout(timer);
        };
    }, [topic, on, round]);

    return state;
}
