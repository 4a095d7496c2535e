// overview.tsx - first what is wrong and what to do about it, then how it is, then figures
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { post, route, session } from "../api";
import { useData, useRegular } from "../data";
import { count, duration, size } from "../format";
import { useLive } from "../live";
import type { Check, Domain, Node, Page as ListPage, Status } from "../types";
import { Badge, Card, Empty, Facts, Loading, Page, Problem, Time, type Tone } from "../ui/bits";
import { Dialog } from "../ui/dialog";
import { Figure, type Point } from "../ui/figure";
import { Form } from "../ui/form";
import { Icon } from "../ui/icons";
import { say } from "../ui/toast";

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
                                {check.text && <CheckText text={check.text} />}
                                {check.advice && <p class="advice">{check.advice}</p>}
                            </div>
                        </li>
                    ))}
                </ul>
            )}
        </Card>
    );
}

// Ports come as name=number, one after the other.
function CheckText({ text }: { text: string }): JSX.Element {
    const all = text.split(" ");
    if (!all.every((word) => /^[\w.-]+=\d+$/.test(word))) return <p>{text}</p>;
    return <p class="badges">{all.map((word) => <Badge key={word}>{word.replace("=", " ")}</Badge>)}</p>;
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

const nodeTones: Record<Node["state"], Tone> = { serving: "ok", draining: "warn", drained: "none", away: "bad" };

// One server is no list: its figures are above.
function Nodes(): JSX.Element | null {
    // Each node says how it is every five seconds.
    const nodes = useRegular<ListPage<Node>>("/nodes", 5000);
    const [asked, setAsked] = useState<Node | null>(null);
    if (!nodes.data || nodes.data.items.length < 2) return null;
    return (
        <Card title="Nodes">
            <div class="table-frame">
                <table role="table" class="table" aria-label="Nodes">
                    <thead role="rowgroup">
                        <tr role="row">
                            <th role="columnheader" scope="col">Name</th>
                            <th role="columnheader" scope="col">State</th>
                            <th role="columnheader" scope="col" class="number">Sessions</th>
                            <th role="columnheader" scope="col">Version</th>
                            <th role="columnheader" scope="col">Last seen</th>
                            <th role="columnheader" scope="col" class="row-actions"><span class="hidden">Actions</span></th>
                        </tr>
                    </thead>
                    <tbody role="rowgroup">
                        {nodes.data.items.map((node) => (
                            <tr role="row" key={node.name}>
                                <td role="cell" class="main" data-title="Name">{node.name}{node.this && <span class="dim"> (this one)</span>}</td>
                                <td role="cell" data-title="State"><Badge tone={nodeTones[node.state]}>{node.state}</Badge></td>
                                <td role="cell" class="number" data-title="Sessions">{count(node.sessions ?? 0)}</td>
                                <td role="cell" data-title="Version">{node.version}</td>
                                <td role="cell" data-title="Last seen"><Time at={node.seen} /></td>
                                <td role="cell" class="row-actions">
                                    <div class="buttons is-end">
                                        <button type="button" class="small" onClick={() => setAsked(node)}
                                            aria-label={`${drains(node) ? "Drain" : "Resume"} ${node.name}`}>
                                            {drains(node) ? "Drain" : "Resume"}
                                        </button>
                                    </div>
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
            {asked && <NodeDialog node={asked} close={() => setAsked(null)} done={() => {
                setAsked(null);
                nodes.reload();
            }} />}
        </Card>
    );
}

function drains(node: Node): boolean {
    return node.state === "serving" || node.state === "away";
}

function NodeDialog({ node, close, done }: { node: Node; close: () => void; done: () => void }): JSX.Element {
    const drain = drains(node);
    return (
        <Dialog title={`${drain ? "Drain" : "Resume"} ${node.name}`} onClose={close}>
            <Form submit={drain ? "Drain it" : "Resume"} danger={drain} onCancel={close} act={async () => {
                await post(route`/nodes/${node.name}/` + (drain ? "drain" : "resume"), {});
                say(drain ? `${node.name} takes no new connections.` : `${node.name} serves again.`);
                done();
            }}>
                <p>{drain
                    ? "It takes no new connections but the console's, also after a restart, and tells its clients goodbye: they come back on another node, if a load balancer or their list of servers leads them there."
                    : "It listens again, and takes new connections."}</p>
            </Form>
        </Dialog>
    );
}
