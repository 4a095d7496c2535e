// upstreams.tsx - directories elsewhere that answer for a part of ours, and how their servers are
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { del, patch, post, route } from "../api";
import { useData, useRegular, type Loaded } from "../data";
import { count, duration, plural, size, words } from "../format";
import { to } from "../router";
import type { DirectoryStatus, Page as ListPage, Plugin, Upstream as UpstreamData, UpstreamIdentity, UpstreamRow, UpstreamServer } from "../types";
import { Badge, Card, Facts, Loading, Page, Problem, Time, type Tone } from "../ui/bits";
import { Conflict, isConflict } from "../ui/conflict";
import { ask, Dialog } from "../ui/dialog";
import { Choice, FieldError, Fold, Form, Group, Text, Tick, wholeValue } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { complain, say } from "../ui/toast";

const intro = "An upstream is a directory elsewhere (OpenLDAP, Active Directory and others) that answers for a part of the tree: "
    + "what clients ask there is passed on to its servers.";

const tones: Record<UpstreamServer["state"], Tone> = { up: "ok", degraded: "warn", trying: "info", down: "bad", idle: "none" };
const meanings: Record<UpstreamServer["state"], string> = {
    up: "It answers.",
    degraded: "It answers, but far more slowly than the others: it is used last.",
    trying: "It is being connected to.",
    down: "It does not answer: others are asked, and it is tried again.",
    idle: "Nobody asks it now, so nothing is known of it.",
};

// Their actions are the plugin's: without it there is nothing to ask.
function Served({ children }: { children: ComponentChildren }): JSX.Element {
    const plugins = useData<ListPage<Plugin>>("/plugins");
    const [busy, setBusy] = useState(false);
    const all = plugins.data?.items.filter((plugin) => plugin.name === "ldap");
    if (!all) return plugins.error ? <Problem error={plugins.error} retry={plugins.reload} /> : <Loading />;
    if (all.some((plugin) => plugin.state === "serving")) return <>{children}</>;
    const error = all.find((plugin) => plugin.error)?.error;
    const start = (): void => {
        setBusy(true);
        post(route`/plugins/ldap/start`).then(() => say("The directory is served."), complain).finally(() => {
            setBusy(false);
            plugins.reload();
        });
    };
    return (
        <Card title="The directory is not served">
            <p>The plugin <code>ldap</code> {all.length === 0 ? "is not started" : all[0]!.state === "failed" ? "has failed" : "is stopped"},
                so nobody can ask the directory, and upstreams can neither be seen nor changed here. Contacts can.</p>
            {error && <p class="notice is-bad">{error}</p>}
            <div class="buttons">
                <button type="button" class="primary" disabled={busy} onClick={start}>Start it</button>
                <a class="button" href="#/plugins">All plugins</a>
            </div>
        </Card>
    );
}

export function Upstreams(): JSX.Element {
    return (
        <Page title="Upstreams" intro={intro}>
            <Served><UpstreamList /></Served>
        </Page>
    );
}

function UpstreamList(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const status = useRegular<DirectoryStatus>("/directory/status", 2000);
    const add = (
        <button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add an upstream</button>
    );
    return (
        <>
            <List<UpstreamRow> name="upstreams" path="/directory/upstreams" id={(one) => one.name} search="Search name, suffix, server"
                columns={[
                    { key: "name", title: "Upstream", main: true, show: (one) => one.name },
                    { key: "suffix", title: "Answers below", show: (one) => <Suffix suffix={one.suffix} /> },
                    { key: "urls", title: "Servers", show: (one) => <Health upstream={one} status={status.data} /> },
                    { key: "identity", title: "Asked as", show: (one) => identities[one.identity]?.short ?? one.identity },
                    { key: "cache_s", title: "Answers kept", show: (one) => one.cache_s ? duration(one.cache_s) : "no" },
                    { key: "read_only", title: "Changes", show: (one) => one.read_only ? "refused" : "passed on" },
                    { key: "bind_dn", title: "Logs in as", extra: true, show: (one) => one.bind_dn && <code>{one.bind_dn}</code> },
                    { key: "start_tls", title: "StartTLS", extra: true, show: (one) => one.start_tls ? "yes" : "no" },
                    { key: "anonymous", title: "Anonymous", extra: true, show: (one) => one.anonymous ? "may read" : "no" },
                    { key: "connections", title: "Connections", extra: true, number: true, show: (one) => count(one.connections) },
                    { key: "timeout_ms", title: "Waits for", extra: true, number: true, show: (one) => `${count(one.timeout_ms)} ms` },
                    { key: "created", title: "Added", extra: true, show: (one) => <Time at={one.created} none="" /> },
                ]}
                rowHref={(one) => to("upstreams", one.name)}
                actions={add}
                empty={{
                    icon: "book", title: "No upstream",
                    text: "Accounts, groups and contacts of this installation need none. Add one to give clients a directory that "
                        + "you have elsewhere under this address too, with fail-over and a cache.",
                    action: <button type="button" class="primary" onClick={() => setAdding(true)}>Add an upstream</button>,
                }} />
            <Servers status={status} />
            <Caches status={status} />
            {adding && <AddUpstream close={() => setAdding(false)} added={(name) => {
                setAdding(false);
                say(`${name} is added and asked from now on.`);
                location.hash = to("upstreams", name);
            }} />}
        </>
    );
}

const Suffix = ({ suffix }: { suffix: string | undefined }): JSX.Element =>
    suffix ? <code>{suffix}</code> : <span class="dim">whatever nobody else answers for</span>;

// All servers of an upstream in one word.
function Health({ upstream, status }: { upstream: UpstreamRow; status: DirectoryStatus | undefined }): JSX.Element {
    const all = words(upstream.urls).length;
    const servers = status?.items.filter((server) => server.upstream === upstream.name) ?? [];
    const having = (state: UpstreamServer["state"]): number => servers.filter((server) => server.state === state).length;
    const down = having("down");
    const [tone, text]: [Tone, string] = servers.length === 0 ? ["none", plural(all, "server")]
        : down === servers.length ? ["bad", down === 1 ? "down" : `all ${down} down`]
        : down > 0 ? ["warn", `${down} of ${servers.length} down`]
        : having("degraded") > 0 ? ["warn", `${having("degraded")} of ${servers.length} degraded`]
        : having("up") > 0 ? ["ok", servers.length === 1 ? "up" : `${plural(servers.length, "server")}, up`]
        : having("trying") > 0 ? ["info", "trying"]
        : ["none", `${plural(servers.length, "server")}, idle`];
    return <Badge tone={tone}>{text}</Badge>;
}

function Servers({ status, of }: { status: Loaded<DirectoryStatus>; of?: string }): JSX.Element | null {
    const servers = status.data?.items.filter((server) => of === undefined || server.upstream === of) ?? [];
    if (!status.data) return status.error ? <Problem error={status.error} retry={status.reload} /> : <Loading />;
    if (servers.length === 0) return null;
    return (
        <Card title="Servers">
            <p class="dim">As this node sees them, each two seconds anew.</p>
            {status.error && <Problem error={status.error} retry={status.reload} />}
            <div class="table-frame">
                <table role="table" class="table servers" aria-label={of === undefined ? "Servers of all upstreams" : `Servers of ${of}`}>
                    <thead role="rowgroup">
                        <tr role="row">
                            <th role="columnheader" scope="col">Server</th>
                            {of === undefined && <th role="columnheader" scope="col">Upstream</th>}
                            <th role="columnheader" scope="col">State</th>
                            <th role="columnheader" scope="col" class="number">Connections</th>
                            <th role="columnheader" scope="col" class="number">In flight</th>
                            <th role="columnheader" scope="col" class="number">Answered</th>
                            <th role="columnheader" scope="col" class="number">Mean time</th>
                            <th role="columnheader" scope="col" class="number">Failures</th>
                            <th role="columnheader" scope="col">Last failure</th>
                        </tr>
                    </thead>
                    <tbody role="rowgroup">
                        {servers.map((server) => (
                            <tr role="row" key={`${server.upstream} ${server.url}`}>
                                <td role="cell" class="main" data-title="Server"><code>{server.url}</code></td>
                                {of === undefined && <td role="cell" data-title="Upstream">{server.upstream}</td>}
                                <td role="cell" data-title="State">
                                    <span class="value" title={meanings[server.state]}>
                                        <Badge tone={tones[server.state]}>{server.state}</Badge>
                                        {server.state !== "idle" && server.since && <span class="dim"><Time at={server.since} /></span>}
                                    </span>
                                </td>
                                <td role="cell" class="number" data-title="Connections">{count(server.connections ?? 0)}</td>
                                <td role="cell" class="number" data-title="In flight">{count(server.in_flight ?? 0)}</td>
                                <td role="cell" class="number" data-title="Answered">{count(server.answered ?? 0)}</td>
                                <td role="cell" class={`number ${server.mean_ms ? "" : "is-blank"}`} data-title="Mean time">
                                    {server.mean_ms && `${server.mean_ms} ms`}</td>
                                <td role="cell" class="number" data-title="Failures">{count(server.failures ?? 0)}</td>
                                <td role="cell" class={server.error ? "" : "is-blank"} data-title="Last failure">
                                    {server.error && <span class="value"><span>{server.error}</span>
                                        <span class="dim"><Time at={server.error_at} /></span></span>}
                                </td>
                            </tr>
                        ))}
                    </tbody>
                </table>
            </div>
        </Card>
    );
}

function Caches({ status: { data } }: { status: Loaded<DirectoryStatus> }): JSX.Element | null {
    if (!data) return null;
    const flush = (): void => ask({
        title: "Flush the caches?",
        text: <p>What is kept of answers and logins on this node is forgotten, and the servers are asked again: for when
            something was changed there directly. Nothing is lost.</p>,
        confirm: "Flush",
        act: () => post("/directory/flush"),
        done: () => say("The caches are empty."),
    });
    return (
        <Card title="Caches" actions={<button type="button" class="small" onClick={flush}>Flush caches</button>}>
            <Facts rows={[
                ["Answers kept", count(data.cached_answers ?? 0)],
                ["Memory for them", size(data.cached_bytes ?? 0)],
                ["Logins kept", count(data.cached_binds ?? 0)],
            ]} />
        </Card>
    );
}

// -- what is known of one ----------------------------------------------------------------------------

const identities: Record<UpstreamIdentity, { short: string; text: string; help: string }> = {
    client: {
        short: "the client", text: "As the client, on a connection of its own",
        help: "Nothing has to be set up there; each client that has logged in costs a connection.",
    },
    service: {
        short: "the service", text: "As the service, for everybody",
        help: "Everybody who has logged in sees what the name below sees. Changes are made as the client itself all the same.",
    },
    "for-client": {
        short: "service, for the client", text: "By the service, for the client",
        help: "That directory decides by the client's name (proxied authorization). Its administrator has to allow it to the name below.",
    },
};

interface Values {
    suffix: string;
    urls: string;
    start_tls: boolean;
    ca: string;
    identity: UpstreamIdentity;
    bind_dn: string;
    password: string;
    anonymous: boolean;
    read_only: boolean;
    connections: string;
    timeout_ms: string;
    cache_s: string;
}

function valuesOf(upstream: Partial<UpstreamData>): Values {
    return {
        suffix: upstream.suffix ?? "",
        urls: words(upstream.urls).join("\n"),
        start_tls: upstream.start_tls ?? false,
        ca: upstream.ca ?? "",
        identity: upstream.identity ?? "client",
        bind_dn: upstream.bind_dn ?? "",
        password: "",
        anonymous: upstream.anonymous ?? false,
        read_only: upstream.read_only ?? true,
        connections: String(upstream.connections ?? 4),
        timeout_ms: String(upstream.timeout_ms ?? 5000),
        cache_s: String(upstream.cache_s ?? 0),
    };
}

// As the server takes them.
function bodyOf(values: Values): Record<string, string | number | boolean | undefined> {
    const urls = words(values.urls).join(" ");
    if (!urls) throw new FieldError("urls", "name at least one server");
    return {
        ...values, urls, suffix: values.suffix.trim(), bind_dn: values.bind_dn.trim(), ca: values.ca.trim(),
        password: values.password || undefined,
        connections: wholeValue("connections", values.connections),
        timeout_ms: wholeValue("timeout_ms", values.timeout_ms),
        cache_s: wholeValue("cache_s", values.cache_s),
    };
}

// A password would be readable on the way there.
const isPlain = (values: Values): boolean => !values.start_tls
    && words(values.urls).some((url) => /^ldap:\/\//i.test(url) && !/^ldap:\/\/(localhost|127\.|\[::1\])/i.test(url));

type Change = (change: Partial<Values>) => void;

interface PartProps {
    values: Values;
    set: Change;
}

function Place({ values, set }: PartProps): JSX.Element {
    return (
        <>
            <Text name="suffix" label="Answers below" value={values.suffix} set={(suffix) => set({ suffix })} mono placeholder="dc=corp,dc=example"
                help="The name below which it is asked. Empty: for whatever nobody else answers for." />
            <Text name="urls" label="Servers" value={values.urls} set={(urls) => set({ urls })} mono rows={3} required
                placeholder="ldaps://a.corp.example" help="One a line, ldaps://HOST or ldap://HOST:PORT. The first that is well is asked." />
            <Tick name="start_tls" label="TLS on ldap://" value={values.start_tls} set={(start_tls) => set({ start_tls })}
                help="Begun before anything else (StartTLS); a server that cannot is not asked." />
            {isPlain(values) && (
                <p class="notice is-warn">Passwords would be readable on the way to ldap:// servers: tick TLS, or use ldaps://.</p>
            )}
        </>
    );
}

function AsWhom({ values, set, stored }: PartProps & { stored?: boolean }): JSX.Element {
    return (
        <>
            <Choice name="identity" label="Reads are asked" value={values.identity} help={identities[values.identity].help}
                set={(identity) => set({ identity: identity as UpstreamIdentity })}
                options={Object.entries(identities).map(([value, { text }]) => ({ value, text }))} />
            <Text name="bind_dn" label="Shared connections log in as" value={values.bind_dn} set={(bind_dn) => set({ bind_dn })} mono
                placeholder="cn=posthouse,dc=corp,dc=example" help="A name of that directory. Empty: they do not log in." />
            <Text name="password" label="Its password" value={values.password} set={(password) => set({ password })} secret
                autocomplete="new-password" help={stored ? "It is never shown. Empty: it stays as it is." : "It is never shown again."} />
            <Tick name="anonymous" label="Who has not logged in may read, too" value={values.anonymous}
                set={(anonymous) => set({ anonymous })} />
        </>
    );
}

function Advanced({ values, set }: PartProps): JSX.Element {
    return (
        <>
            <Tick name="read_only" label="Refuse changes" value={values.read_only} set={(read_only) => set({ read_only })}
                help="Otherwise clients may change entries there, with their own rights." />
            <div class="pair is-wide">
                <Text name="cache_s" label="Keep answers for" value={values.cache_s} set={(cache_s) => set({ cache_s })} suffix="s"
                    help="And logins. 0: each time anew." />
                <Text name="timeout_ms" label="Wait for an answer" value={values.timeout_ms} set={(timeout_ms) => set({ timeout_ms })}
                    suffix="ms" help="All attempts of a request together." />
            </div>
            <Text name="connections" label="Shared connections" value={values.connections} set={(connections) => set({ connections })}
                help="To each server, for each reactor (one for each CPU): 1 to 64." />
            <Text name="ca" label="Certificates to trust" value={values.ca} set={(ca) => set({ ca })} mono rows={4}
                placeholder="-----BEGIN CERTIFICATE-----" help="Where its servers have certificates of an authority of your own (PEM). Empty: those that the system trusts." />
        </>
    );
}

function AddUpstream({ close, added }: { close: () => void; added: (name: string) => void }): JSX.Element {
    const [name, setName] = useState("");
    const [values, setValues] = useState(valuesOf({}));
    const set: Change = (change) => setValues((now) => ({ ...now, ...change }));
    return (
        <Dialog title="Add an upstream" onClose={close} wide>
            <Form submit="Add" onCancel={close} act={async () => {
                await post("/directory/upstreams", { name: name.trim(), ...bodyOf(values) });
                added(name.trim());
            }}>
                <Text name="name" label="Name" value={name} set={setName} placeholder="corp" autofocus required help="What you call it here." />
                <Group title="What it answers for"><Place values={values} set={set} /></Group>
                <Group title="As whom it is asked"><AsWhom values={values} set={set} /></Group>
                <Fold title="Advanced: changes, cache, time, certificates"><Advanced values={values} set={set} /></Fold>
            </Form>
        </Dialog>
    );
}

export function Upstream({ name }: { name: string }): JSX.Element {
    return (
        <Served>
            <One name={name} />
        </Served>
    );
}

function One({ name }: { name: string }): JSX.Element {
    const upstream = useData<UpstreamData>(route`/directory/upstreams/${name}`);
    const status = useRegular<DirectoryStatus>("/directory/status", 2000);
    const { data } = upstream;
    const remove = (): void => ask({
        title: `Remove the upstream ${name}?`,
        text: (
            <p>What is below {data?.suffix ? <code>{data.suffix}</code> : "its part of the tree"} is no longer found here, and who logs in
                with a name from there cannot any more. In that directory itself nothing changes.</p>
        ),
        confirm: "Remove",
        danger: true,
        type: name,
        act: () => del(route`/directory/upstreams/${name}`),
        done: () => {
            say(`${name} is removed.`);
            location.hash = "#/upstreams";
        },
    });
    return (
        <Page title={name} back={{ href: "#/upstreams", text: "Upstreams" }} intro={data && <>Answers below <Suffix suffix={data.suffix} /></>}
            actions={data && <button type="button" class="danger-quiet" onClick={remove}>Remove</button>}>
            {upstream.error && <Problem error={upstream.error} retry={upstream.reload} />}
            {!data && upstream.loading && <Loading />}
            {data && (
                <>
                    <Servers status={status} of={name} />
                    <ChangeUpstream key={data.version} upstream={data} reload={() => {
                        upstream.reload();
                        status.reload();
                    }} set={upstream.set} />
                </>
            )}
        </Page>
    );
}

const fieldNames = {
    suffix: "Answers below", urls: "Servers", start_tls: "TLS on ldap://", identity: "Reads are asked", bind_dn: "Logs in as",
    anonymous: "Anonymous may read", read_only: "Refuse changes", connections: "Shared connections", timeout_ms: "Wait (ms)",
    cache_s: "Keep answers (s)", ca: "Certificates to trust",
};

// A certificate as a person can compare it: how many, and how the last one ends.
function shownCa(text: string): string {
    const ends = text.replace(/\s/g, "").split("-----ENDCERTIFICATE-----");
    const last = ends[ends.length - 2];
    return last ? `${plural(ends.length - 1, "certificate")} (… ${last.slice(-16)})` : "those of the system";
}

function ChangeUpstream({ upstream, reload, set: show }: {
    upstream: UpstreamData;
    reload: () => void;
    set: (upstream: UpstreamData) => void;
}): JSX.Element {
    const [values, setValues] = useState(valuesOf(upstream));
    const [theirs, setTheirs] = useState<Record<string, unknown> | null>(null);
    const set: Change = (change) => setValues((now) => ({ ...now, ...change }));
    const save = async (version: number | undefined): Promise<void> => {
        await patch(route`/directory/upstreams/${upstream.name}`, { ...bodyOf(values), if_version: version });
        say("Saved and in force.");
        setTheirs(null);
        reload();
    };
    return (
        <Card title="How it is asked">
            <Form submit="Save" act={() => save(upstream.version)} onError={(error) => {
                if (!isConflict(error, upstream.version)) return false;
                setTheirs(error.current);
                return true;
            }}>
                <div class="columns">
                    <Group title="What it answers for"><Place values={values} set={set} /></Group>
                    <Group title="As whom it is asked"><AsWhom values={values} set={set} stored /></Group>
                </div>
                <Fold title="Advanced: changes, cache, time, certificates"><Advanced values={values} set={set} /></Fold>
            </Form>
            {theirs && (
                <Conflict what={upstream.name} fields={fieldNames} mine={{ ...values }}
                    theirs={{ ...valuesOf(theirs as Partial<UpstreamData>), by: theirs["by"] }} close={() => setTheirs(null)}
                    show={(field, value) => field === "ca" ? shownCa(String(value))
                        : typeof value === "boolean" ? (value ? "yes" : "no")
                        : field === "identity" ? identities[value as UpstreamIdentity].text
                        : String(value) || (field === "suffix" ? "whatever nobody else answers for" : "not set")}
                    keepMine={() => save(Number(theirs["version"]))}
                    takeTheirs={() => {
                        show(theirs as unknown as UpstreamData);
                        setTheirs(null);
                    }} />
            )}
        </Card>
    );
}
