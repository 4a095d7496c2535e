// sessions.tsx - who is connected just now
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { del, route } from "../api";
import { useLive } from "../live";
import type { LiveSession } from "../types";
import { Badge, Page, Size, Time } from "../ui/bits";
import { ask } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

export function Sessions(): JSX.Element {
    const [paused, setPaused] = useState(false);
    const [changed, setChanged] = useState(0);
    const last = useRef(0);
    // What comes says that something changed; the list asks the server, which filters and pages.
    const state = useLive("sessions", !paused, () => {
        const now = Date.now();
        if (now - last.current < 1500) return;
        last.current = now;
        setChanged((value) => value + 1);
    });
    const cut = (session: LiveSession, reload: () => void): void => ask({
        title: "Cut this session?",
        text: (
            <p>{session.login ? <><strong>{session.login}</strong> from {session.peer}</> : `The client at ${session.peer}`} is
                disconnected from {session.service} at once. What it was doing is not finished; it may connect again.</p>
        ),
        confirm: "Cut it",
        danger: true,
        act: () => del(route`/sessions/${session.id}`),
        done: () => {
            say("The session is cut.");
            reload();
        },
    });
    return (
        <Page title="Sessions" intro="Who is connected just now."
            actions={
                <>
                    <Badge tone={paused ? "warn" : state === "live" ? "ok" : "none"}>
                        {paused ? "Paused" : state === "live" ? "Live" : state === "connecting" ? "Connecting" : "Not live"}
                    </Badge>
                    <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
                        <Icon name={paused ? "play" : "pause"} />{paused ? "Go on" : "Pause"}
                    </button>
                </>
            }>
            <List<LiveSession> name="sessions" path="/sessions" changed={changed} id={(session) => session.id}
                search="Search login, address, service"
                columns={[
                    { key: "login", title: "Login", main: true, show: (session) => session.login || <span class="dim">not logged in</span>, text: (session) => session.login ?? "" },
                    { key: "service", title: "Service", show: (session) => <Badge tone="info">{session.service}</Badge> },
                    { key: "peer", title: "From", show: (session) => session.peer },
                    { key: "tls", title: "TLS", show: (session) => session.tls === true ? "yes" : session.tls || <span class="dim">no</span> },
                    { key: "since", title: "Since", show: (session) => <Time at={session.since} /> },
                    { key: "bytes_in", title: "In", number: true, show: (session) => <Size bytes={session.bytes_in} /> },
                    { key: "bytes_out", title: "Out", number: true, show: (session) => <Size bytes={session.bytes_out} /> },
                    { key: "activity", title: "Doing", show: (session) => session.activity },
                    { key: "id", title: "Id", extra: true, show: (session) => <code>{session.id}</code> },
                ]}
                rowActions={(session, reload) => (
                    <button type="button" class="small danger-quiet" onClick={() => cut(session, reload)}
                        aria-label={`Cut the session of ${session.login || session.peer || session.id}`}>Cut</button>
                )}
                empty={{ icon: "activity", title: "Nobody is connected", text: "Mail programs and browsers show up here while they are connected." }} />
        </Page>
    );
}
