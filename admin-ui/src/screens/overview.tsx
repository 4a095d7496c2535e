// overview.tsx - first what is wrong and what to do about it, then how it is, then figures
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { session } from "../api";
import { useData } from "../data";
import { count, duration, size } from "../format";
import { useLive } from "../live";
import type { Check, Domain, Node, Page as ListPage, Status } from "../types";
import { Badge, Card, Empty, Facts, Loading, Page, Problem, Time, type Tone } from "../ui/bits";
import { Figure, type Point } from "../ui/figure";
import { Icon } from "../ui/icons";

const tones: Record<string, Tone> = {
    available: "ok", "database away": "bad", draining: "warn",
};

// 150020 is PostgreSQL 15.20.
function pgVersion({ database_version: number }: Status): string {
    return number ? `, PostgreSQL ${Math.floor(number / 10000)}.${number % 10000}` : "";
}

export function Overview(): JSX.Element {
    const operator = session.value?.role === "operator";
    const first = useData<Status>("/status");
    const [live, setLive] = useState<Status>();
    const points = useRef<{ status: Status; at: number }[]>([]);
    const state = useLive<Status>("status", true, (now) => {
        points.current = [...points.current.slice(-89), { status: now, at: Date.now() }];
        setLive(now);
    });
    const status = live ?? first.data;
    const domains = useData<ListPage<Domain>>("/domains", { limit: 1 });

    return (
        <Page title="Overview" intro={status ? `${status.host_name} · Posthouse ${status.version}` : undefined}
            actions={<Badge tone={state === "live" ? "ok" : "none"}>
                {state === "live" ? "Live" : state === "connecting" ? "Connecting" : "Not live"}
            </Badge>}>
            {domains.data?.items.length === 0 && (
                <div class="welcome">
                    <div>
                        <h2>Nothing is set up yet</h2>
                        <p>In three steps you have a domain, an account and a site.</p>
                    </div>
                    <a class="button primary" href="#/start">Set up the first domain</a>
                </div>
            )}
            {operator && <Checks />}
            {first.error && !status && <Problem error={first.error} retry={first.reload} />}
            {!status && first.loading && <Loading />}
            {status && (
                <div class="columns">
                    <Card title="State">
                        <Facts rows={[
                            ["Service", <Badge tone={tones[status.state] ?? "none"}>{status.state}</Badge>],
                            ["Database", status.database_error ? <span class="wrap">{status.database_error}</span> : `${status.database}${pgVersion(status)}`],
                            ["Up for", duration(status.uptime_s)],
                            ["Node", String(status.node ?? "not known")],
                            ["Sessions", count(status.sessions)],
                            ["Messages delivered", count(status.messages_delivered)],
                            ["Memory", size(status.memory_bytes)],
                            ["Process", String(status.process_id ?? "not known")],
                        ]} />
                    </Card>
                    <Figures points={points.current} />
                </div>
            )}
            {operator && <Nodes />}
        </Page>
    );
}

const order = { bad: 0, warn: 1, ok: 2 };
const marks = { bad: "Problem", warn: "Look at this", ok: "Good" };

function Checks(): JSX.Element {
    const checks = useData<ListPage<Check>>("/checks");
    const [all, setAll] = useState(false);
    const items = [...(checks.data?.items ?? [])].sort((a, b) => order[a.state] - order[b.state]);
    const open = items.filter((item) => item.state !== "ok");
    const good = items.length - open.length;
    const shown = all ? items : open;
    return (
        <Card title="Checks" actions={
            <>
                {good > 0 && open.length > 0 && (
                    <button type="button" class="small" aria-expanded={all} onClick={() => setAll(!all)}>
                        {all ? "Only what needs attention" : `Show the ${good} good ones`}
                    </button>
                )}
                <button type="button" class="small" onClick={checks.reload} disabled={checks.loading}>Check again</button>
            </>
        }>
            {checks.error && <Problem error={checks.error} retry={checks.reload} />}
            {!checks.data && checks.loading && <Loading />}
            {checks.data && open.length === 0 && (
                <p class="all-good"><Icon name="ok" />
                    {items.length === 0 ? "Nothing to check." : `All ${items.length} checks are good.`}
                    {good > 0 && (
                        <button type="button" class="quiet small" aria-expanded={all} onClick={() => setAll(!all)}>
                            {all ? "Hide them" : "Show them"}
                        </button>
                    )}
                </p>
            )}
            {shown.length > 0 && (
                <ul class="checks">
                    {shown.map((check) => (
                        <li key={check.name} class={`check is-${check.state}`}>
                            <Icon name={check.state} />
                            <div>
                                <p class="check-title">
                                    <span class="hidden">{marks[check.state]}: </span>{check.title}
                                </p>
                                {check.text && <p>{check.text}</p>}
                                {check.advice && <p class="advice">{check.advice}</p>}
                            </div>
                        </li>
                    ))}
                </ul>
            )}
        </Card>
    );
}

function Figures({ points }: { points: { status: Status; at: number }[] }): JSX.Element {
    const rates = (value: (status: Status) => number, per: number): Point[] => points.slice(1).map((point, i) => {
        const last = points[i]!;
        const seconds = (point.at - last.at) / 1000;
        // A new process counts from nought again.
        const grown = Math.max(0, value(point.status) - value(last.status));
        return { at: point.at, value: seconds > 0 ? (grown / seconds) * per : 0 };
    });
    const decimals = (value: number): string => (value >= 10 ? Math.round(value).toString() : value.toFixed(1));
    return (
        <Card title="The last three minutes">
            {points.length < 2 ? <Empty icon="activity" title="Waiting for figures" text="They come every two seconds." /> : (
                <div class="figures">
                    <Figure title="Sessions" points={points.map(({ status, at }) => ({ at, value: status.sessions ?? 0 }))}
                        show={(value) => count(Math.round(value))} />
                    <Figure title="Delivered a minute" points={rates((status) => status.messages_delivered ?? 0, 60)}
                        show={decimals} />
                    <Figure title="CPU" points={rates((status) => (status.cpu_ms ?? 0) / 1000, 100)} show={(value) => `${decimals(value)} %`} />
                    <Figure title="Memory" points={points.map(({ status, at }) => ({ at, value: status.memory_bytes ?? 0 }))}
                        show={(value) => size(Math.round(value))} />
                </div>
            )}
        </Card>
    );
}

function Nodes(): JSX.Element | null {
    const nodes = useData<ListPage<Node>>("/nodes");
    if (!nodes.data || nodes.data.items.length < 2) return null;
    return (
        <Card title="Nodes">
            <div class="table-frame">
                <table class="table" aria-label="Nodes">
                    <thead><tr><th scope="col">Name</th><th scope="col">State</th><th scope="col">Lease until</th></tr></thead>
                    <tbody>
                        {nodes.data.items.map((node) => (
                            <tr key={node.name}>
                                <td class="main" data-title="Name">{node.name}</td>
                                <td data-title="State">
                                    <Badge tone={node.alive ? "ok" : "bad"}>{node.alive ? "alive" : "not heard of"}</Badge>
                                </td>
                                <td data-title="Lease until"><Time at={node.lease_until} /></td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
        </Card>
    );
}
