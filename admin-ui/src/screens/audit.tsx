// audit.tsx - who did what, with what was before and after
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { AuditEntry } from "../types";
import { Badge, Facts, Page, Time } from "../ui/bits";
import { Dialog } from "../ui/dialog";
import { Diff } from "../ui/diff";
import { List } from "../ui/list";
import { place, setQuery } from "../router";
import { pretty } from "./scripts";

const done = (outcome: string | undefined): boolean => !outcome || outcome === "ok" || outcome === "done" || outcome === "success";

export function Audit(): JSX.Element {
    const [open, setOpen] = useState<AuditEntry | null>(null);
    const { actor, action } = place.value.query;
    return (
        <Page title="Audit" intro="Every change: who, when, from where, and what was before.">
            {(actor || action) && (
                <p class="hint">
                    Only {actor && <>by <strong>{actor}</strong></>}{actor && action && ", "}{action && <>the action <strong>{action}</strong></>}
                    {" "}<button type="button" class="small" onClick={() => setQuery({ actor: undefined, action: undefined, after: undefined })}>Show all</button>
                </p>
            )}
            <List<AuditEntry> name="audit" path="/audit" query={{ actor, action }} id={(entry) => String(entry.id)}
                search="Search target, action, detail"
                columns={[
                    { key: "at", title: "When", show: (entry) => <Time at={entry.at} as="full" /> },
                    {
                        key: "action", title: "Action", main: true,
                        show: (entry) => (
                            <button type="button" class="link" onClick={() => setOpen(entry)}>{entry.action}</button>
                        ),
                    },
                    { key: "target", title: "On", show: (entry) => entry.target },
                    {
                        key: "actor", title: "By",
                        show: (entry) => (
                            <button type="button" class="link is-plain" title={`Only what ${entry.actor} did`}
                                onClick={() => setQuery({ actor: entry.actor, after: undefined })}>{entry.actor}</button>
                        ),
                    },
                    { key: "origin", title: "From", show: (entry) => entry.origin },
                    { key: "outcome", title: "Outcome", show: (entry) => <Badge tone={done(entry.outcome) ? "ok" : "bad"}>{entry.outcome || "ok"}</Badge> },
                    { key: "id", title: "Number", number: true, extra: true, show: (entry) => entry.id },
                ]}
                rowActions={(entry) => (
                    <button type="button" class="small" aria-label={`Show ${entry.action} of ${entry.target ?? "no target"}`}
                        onClick={() => setOpen(entry)}>Show</button>
                )}
                empty={{ icon: "activity", title: "Nothing was changed yet", text: "Each change by console, command or API is written down here." }} />
            {open && <Entry entry={open} close={() => setOpen(null)} />}
        </Page>
    );
}

function Entry({ entry, close }: { entry: AuditEntry; close: () => void }): JSX.Element {
    const before = entry.before ? pretty(entry.before) : "";
    const after = entry.after ? pretty(entry.after) : "";
    return (
        <Dialog title={`${entry.action} ${entry.target ?? ""}`} onClose={close} wide>
            <div class="stack">
                <Facts rows={[
                    ["When", <Time at={entry.at} as="full" />],
                    ["By", entry.actor],
                    ["From", entry.origin || "not known"],
                    ["Outcome", entry.outcome || "ok"],
                ]} />
                {entry.detail && entry.detail !== "{}" && (
                    <div><h3>Asked for</h3><pre class="code" tabIndex={0} aria-label="What was asked for">{pretty(entry.detail)}</pre></div>
                )}
                {(before || after) && <div><h3>Before and after</h3><Diff before={before} after={after} label="Before and after" /></div>}
            </div>
        </Dialog>
    );
}
