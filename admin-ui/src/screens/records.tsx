// records.tsx - what the DNS has to say of a domain, and what it says now
import type { JSX } from "preact";
import { route, session } from "../api";
import { useData } from "../data";
import { plural, sentence } from "../format";
import type { DnsRecord, Page as ListPage } from "../types";
import { Badge, Card, Copy, Loading, Page, Problem, type Tone } from "../ui/bits";
import { Icon } from "../ui/icons";

const states: Record<DnsRecord["state"], { tone: Tone; text: string }> = {
    ok: { tone: "ok", text: "good" },
    missing: { tone: "bad", text: "missing" },
    wrong: { tone: "bad", text: "wrong" },
    optional: { tone: "none", text: "optional" },
    unknown: { tone: "info", text: "could not ask" },
};

export function Records({ domain }: { domain: string }): JSX.Element {
    const records = useData<ListPage<DnsRecord>>(route`/domains/${domain}/records`);
    const { data } = records;
    const of = (place: string): string => `#/${place}?domain=${encodeURIComponent(domain)}`;
    return (
        <Page title={domain} back={{ href: "#/domains", text: "Domains" }}
            actions={
                <>
                    <a class="button" href={of("accounts")}>Accounts</a>
                    <a class="button" href={of("aliases")}>Aliases</a>
                    <a class="button" href={of("contacts")}>Contacts</a>
                </>
            }>
            <Card title="DNS records" actions={
                <>
                    {data && <CopyMissing records={data.items} />}
                    <button type="button" class="small" onClick={records.reload} disabled={records.loading}>Ask again</button>
                </>
            }>
                <p class="dim">By these, others find this server and trust its mail. Enter a line where the domain is managed;
                    until it is seen everywhere some hours may pass.</p>
                {records.error && <Problem error={records.error} retry={records.reload} />}
                {!data && records.loading && <Loading />}
                {data && <Summary records={data.items} />}
                {data && <Table records={data.items} domain={domain} busy={records.loading} />}
            </Card>
        </Page>
    );
}

function Summary({ records }: { records: DnsRecord[] }): JSX.Element | null {
    const having = (...wanted: DnsRecord["state"][]): number => records.filter(({ state }) => wanted.includes(state)).length;
    const unknown = having("unknown");
    const mend = having("missing", "wrong");
    if (unknown > 0) {
        return (
            <div class="notice is-info" role="status">
                <Icon name="warn" />
                <span>
                    {unknown === records.length ? "The DNS could not be asked" : `Of ${plural(unknown, "record")} the DNS could not be asked`}:
                    no name server answered. That does not mean that they are missing.
                    {session.value?.role === "operator" && <> The setting <a href="#/settings?filter=dns.servers">dns.servers</a> says
                        who is asked.</>}
                </span>
            </div>
        );
    }
    if (mend > 0) return null;
    return <p class="all-good"><Icon name="ok" />All that is needed is there.</p>;
}

// Where a person has to fill something in first, there is nothing to paste as it is.
const isReady = (record: DnsRecord): boolean => Boolean(record.line) && !record.line!.replace(/"[^"]*"/g, "").includes("(");

function CopyMissing({ records }: { records: DnsRecord[] }): JSX.Element | null {
    // Reverse names are in somebody else's zone.
    const lines = records.filter((record) => record.state === "missing" && record.type !== "PTR" && isReady(record))
        .map((record) => record.line!);
    return lines.length > 1 ? <Copy text={`${lines.join("\n")}\n`} label={`Copy the ${lines.length} missing lines`} /> : null;
}

function Table({ records, domain, busy }: { records: DnsRecord[]; domain: string; busy: boolean }): JSX.Element {
    return (
        <div class={`table-frame ${busy ? "is-stale" : ""}`} aria-busy={busy}>
            <table role="table" class="table records" aria-label={`DNS records of ${domain}`}>
                <thead role="rowgroup">
                    <tr role="row">
                        <th role="columnheader" scope="col">State</th>
                        <th role="columnheader" scope="col">Record</th>
                        <th role="columnheader" scope="col">The DNS says</th>
                        <th role="columnheader" scope="col">To paste</th>
                    </tr>
                </thead>
                <tbody role="rowgroup">
                    {records.map((record) => <Row key={`${record.type} ${record.name}`} record={record} />)}
                </tbody>
            </table>
        </div>
    );
}

function Row({ record }: { record: DnsRecord }): JSX.Element {
    const { tone, text } = states[record.state];
    const found = record.found ? record.found.split(" | ") : [];
    const line = record.state === "ok" ? undefined : record.line;
    return (
        <tr role="row">
            <td role="cell" data-title="State"><Badge tone={tone}>{text}</Badge></td>
            <td role="cell" class="main" data-title="Record">
                <span class="record-name"><Badge>{record.type}</Badge> <code>{record.name}</code></span>
                {record.why && <p class="why">{sentence(record.why)}</p>}
            </td>
            <td role="cell" data-title="The DNS says">
                {found.length > 0 ? <ul class="found">{found.map((one) => <li key={one}><code>{one}</code></li>)}</ul>
                    : <span class="dim">{record.state === "unknown" ? "not known" : "nothing"}</span>}
            </td>
            <td role="cell" data-title="To paste" class={`to-paste ${line ? "" : "is-blank"}`}>
                {line && (
                    <div class="paste">
                        <code>{line}</code>
                        {isReady(record) && <Copy text={line} of={`the line for ${record.type} ${record.name}`} />}
                    </div>
                )}
            </td>
        </tr>
    );
}
