// scripts.tsx - the Lua scripts, and the page of one: text, versions, what went wrong, a test run
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { del, get, messageOf, post, put, request, route } from "../api";
import { useData } from "../data";
import type { Finding } from "../editor/editor";
import { count, words } from "../format";
import { place, setQuery, to } from "../router";
import type {
    Page as ListPage, Scope, Script as ScriptData, ScriptCheck, ScriptRow, ScriptTest, ScriptVersion,
} from "../types";
import { Badge, Card, Empty, Facts, Loading, Page, Problem, Size, Tabs, Time, type Tone } from "../ui/bits";
import { isConflict } from "../ui/conflict";
import { ask, Dialog } from "../ui/dialog";
import { Diff } from "../ui/diff";
import { Choice, FieldError, Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { complain, say } from "../ui/toast";

const tones: Record<string, Tone> = { active: "ok", inactive: "none", "set aside": "bad", broken: "bad" };

const Hooks = ({ hooks }: { hooks: string | undefined }): JSX.Element =>
    <span class="badges">{words(hooks).map((hook) => <Badge key={hook} tone="info">{hook}</Badge>)}</span>;

const scopeOf = (script: ScriptRow): string =>
    script.scope_name ? `${script.scope} ${script.scope_name}` : script.scope ?? "";

export function Scripts(): JSX.Element {
    const [adding, setAdding] = useState(false);
    return (
        <Page title="Scripts" intro="Policy and pages in Lua: what may come in, where it goes, what is answered."
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />New script</button>}>
            <List<ScriptRow> name="scripts" path="/scripts" id={(script) => script.name}
                columns={[
                    { key: "name", title: "Script", main: true, show: (script) => script.name },
                    { key: "state", title: "State", show: (script) => <Badge tone={tones[script.state] ?? "none"}>{script.state}</Badge> },
                    { key: "hooks", title: "Hooks", show: (script) => words(script.hooks).length > 0 && <Hooks hooks={script.hooks} /> },
                    { key: "scope", title: "For", show: scopeOf, text: scopeOf },
                    {
                        key: "active_version", title: "Version", number: true,
                        show: (script) => script.active_version
                            ? script.newest_version !== script.active_version
                                ? `${script.active_version} of ${script.newest_version}` : script.active_version
                            : script.newest_version,
                    },
                    { key: "calls", title: "Calls", number: true, show: (script) => count(script.calls) },
                    {
                        key: "errors", title: "Errors", number: true,
                        show: (script) => script.errors ? <strong class="is-bad">{count(script.errors)}</strong> : count(script.errors),
                    },
                    { key: "changed", title: "Changed", show: (script) => <Time at={script.changed} none="" /> },
                    { key: "changed_by", title: "By", extra: true, show: (script) => script.changed_by },
                    { key: "order", title: "Order", number: true, extra: true, show: (script) => script.order },
                ]}
                rowHref={(script) => to("scripts", script.name)}
                empty={{
                    icon: "script", title: "No script yet",
                    text: "A script takes hooks: smtp.rcpt decides who may write to whom, deliver sorts mail, http.content answers pages.",
                    action: <button type="button" class="primary" onClick={() => setAdding(true)}>Write one</button>,
                }} />
            {adding && <NewScript close={() => setAdding(false)} />}
        </Page>
    );
}

const examples: { value: string; title: string; text: string }[] = [
    {
        value: "smtp.rcpt", title: "Refuse a sender",
        text: `-- Refuses mail from the addresses in this table; says nothing about all other mail.
local refused = {
    ["spam@example.net"] = true,
}

return {
    ["smtp.rcpt"] = function(ctx)
        if refused[ctx.sender] then
            return reject("mail from you is not wanted here")
        end
    end,
}
`,
    },
    {
        value: "deliver", title: "Sort mail at delivery",
        text: `-- Puts mail with a word in its subject into a mailbox of its own.
return {
    ["deliver"] = function(ctx)
        local subject = ctx:header("Subject")
        if subject and subject:find("[news]", 1, true) then
            return accept { mailbox = "Archive" }
        end
    end,
}
`,
    },
    {
        value: "http.content", title: "Answer a page",
        text: `-- Answers the paths of a route whose handler is "lua".
return {
    ["http.content"] = function(req, res)
        res:header("Content-Type", "text/plain; charset=utf-8")
        res:write("Hello from ", req.path, "\\n")
    end,
}
`,
    },
    { value: "empty", title: "Empty", text: "return {\n}\n" },
];

function NewScript({ close }: { close: () => void }): JSX.Element {
    const [name, setName] = useState("");
    const [example, setExample] = useState("smtp.rcpt");
    return (
        <Dialog title="New script" onClose={close}>
            <Form submit="Write it" onCancel={close} act={async () => {
                const word = name.trim();
                if (!word) throw new FieldError("name", "give it a name");
                if (await exists(word)) throw new FieldError("name", `there is a script “${word}” already`);
                drafts.set(word, examples.find((one) => one.value === example)?.text ?? "");
                location.hash = `${to("scripts", word)}?new=1`;
            }}>
                <Text name="name" label="Name" value={name} set={setName} placeholder="refuse-senders" autofocus required />
                <Choice name="example" label="Begin with" value={example} set={setExample}
                    options={examples.map((one) => ({ value: one.value, text: one.title }))} />
            </Form>
        </Dialog>
    );
}

async function exists(name: string): Promise<boolean> {
    const found = await get<ListPage<ScriptRow>>("/scripts", { filter: name, limit: 1000 });
    return found.items.some((script) => script.name === name);
}

// Text that is not saved outlives a look at another screen, and a reload of the page.
const drafts = {
    get: (name: string): string | null => sessionStorage.getItem(`draft ${name}`),
    set: (name: string, text: string): void => sessionStorage.setItem(`draft ${name}`, text),
    drop: (name: string): void => sessionStorage.removeItem(`draft ${name}`),
};

export function Script({ name, tab }: { name: string; tab: string }): JSX.Element {
    const fresh = place.value.query["new"] === "1";
    const script = useData<ScriptData>(fresh ? null : route`/scripts/${name}`);
    const data: ScriptData | undefined = fresh
        ? { name, text: "", state: "inactive", scope: "global" } : script.data;
    const tabs = [
        { key: "", text: "Text" },
        { key: "versions", text: "Versions" },
        { key: "test", text: "Test run" },
    ];
    return (
        <Page title={name} back={{ href: "#/scripts", text: "Scripts" }}
            intro={data && !fresh && (
                <>
                    <Badge tone={tones[data.state] ?? "none"}>{data.state}</Badge>
                    {" "}{scopeOf(data)}{data.active_version ? `, version ${data.active_version} in force` : ""}
                </>
            )}
            actions={data && !fresh && <ScriptActions script={data} reload={script.reload} />}>
            {!fresh && (
                <Tabs label="Parts of the script" tabs={tabs.map((item) => ({
                    href: item.key ? to("scripts", name, item.key) : to("scripts", name), text: item.text, on: item.key === tab,
                }))} />
            )}
            {script.error && <Problem error={script.error} retry={script.reload} />}
            {!data && script.loading && <Loading />}
            {data && tab === "" && <ScriptText key={`${name} ${fresh}`} script={data} fresh={fresh} reload={script.reload} set={script.set} />}
            {data && tab === "versions" && <Versions script={data} reload={script.reload} />}
            {data && tab === "test" && <TestRun script={data} />}
        </Page>
    );
}

function ScriptActions({ script, reload }: { script: ScriptData; reload: () => void }): JSX.Element {
    const { name } = script;
    const act = (path: string, said: string): void => {
        post(route`/scripts/${name}/` + path).then(() => {
            say(said);
            reload();
        }, complain);
    };
    const remove = (): void => ask({
        title: `Remove the script ${name}?`,
        text: <p>It stops deciding at once, and all its versions are lost.</p>,
        confirm: "Remove",
        danger: true,
        type: name,
        act: () => del(route`/scripts/${name}`),
        done: () => {
            drafts.drop(name);
            say(`${name} is removed.`);
            location.hash = "#/scripts";
        },
    });
    return (
        <>
            {script.state !== "active" && (
                <button type="button" onClick={() => act("activate", `${name} is active.`)}>Activate</button>
            )}
            {(script.active_version ?? 0) > 1 && (
                <button type="button" onClick={() => ask({
                    title: `Roll ${name} back?`,
                    text: <p>The version that was in force before version {script.active_version} is taken again, at
                        once. No version is lost.</p>,
                    confirm: "Roll back",
                    act: () => post(route`/scripts/${name}/rollback`),
                    done: () => {
                        say(`${name} is rolled back.`);
                        reload();
                    },
                })}>Roll back</button>
            )}
            {script.state === "active" && (
                <button type="button" onClick={() => ask({
                    title: `Switch ${name} off?`,
                    text: <p>It decides nothing until it is activated again. Its text and versions stay.</p>,
                    confirm: "Switch off",
                    act: () => post(route`/scripts/${name}/deactivate`),
                    done: () => {
                        say(`${name} is off.`);
                        reload();
                    },
                })}>Switch off</button>
            )}
            <button type="button" class="danger-quiet" onClick={remove}>Remove</button>
        </>
    );
}

type EditorComponent = typeof import("../editor/editor").default;

function ScriptText({ script, fresh, reload, set }: {
    script: ScriptData;
    fresh: boolean;
    reload: () => void;
    set: (script: ScriptData) => void;
}): JSX.Element {
    const { name } = script;
    const draft = drafts.get(name);
    const [text, setText] = useState(draft ?? script.text);
    const [replace, setReplace] = useState<{ text: string }>();
    const putText = (other: string): void => {
        setText(other);
        setReplace({ text: other });
    };
    const base = useRef(script);
    const [note, setNote] = useState("");
    const [scope, setScope] = useState<Scope>(script.scope ?? "global");
    const [scopeName, setScopeName] = useState(script.scope_name ?? "");
    const [order, setOrder] = useState(script.order === undefined ? "" : String(script.order));
    const [check, setCheck] = useState<ScriptCheck | null>(null);
    const [goTo, setGoTo] = useState<{ line: number }>();
    const [theirs, setTheirs] = useState<ScriptData | null>(null);
    const [Editor, setEditor] = useState<EditorComponent | null>(null);
    const [missing, setMissing] = useState("");
    const dirty = text !== base.current.text || fresh;

    useEffect(() => {
        import("../editor/editor").then((module) => setEditor(() => module.default), () =>
            setMissing("The editor could not be loaded; the server may have been upgraded. Reload the page: what you typed is kept."));
    }, []);
    useEffect(() => {
        // Another version came (roll back, say): follow it unless there is something of ours.
        if (script.version !== base.current.version || script.text !== base.current.text) {
            if (text === base.current.text && text !== script.text) putText(script.text);
            base.current = script;
        }
    }, [script]);
    useEffect(() => {
        if (text !== base.current.text) drafts.set(name, text);
        else drafts.drop(name);
    }, [text]);

    const ask_ = async (now: string): Promise<Finding[]> => {
        try {
            const answer = await request<ScriptCheck>("POST", "/scripts/check", { body: { name, text: now }, quiet: true });
            setCheck(answer);
            return answer.ok ? [] : [{ line: answer.line ?? 1, message: answer.message ?? "this does not compile" }];
        } catch {
            setCheck(null);
            return [];
        }
    };
    const save = async (activate: boolean, version?: number): Promise<void> => {
        const place_ = order.trim() === "" ? undefined : Number(order);
        if (place_ !== undefined && !Number.isInteger(place_)) throw new FieldError("order", "write a whole number");
        const answer = await put<{ version: number }>(route`/scripts/${name}`, {
            text, note: note.trim() || undefined, scope, scope_name: scope === "global" ? undefined : scopeName.trim(),
            order: place_, activate, if_version: version ?? (fresh ? undefined : base.current.version),
        });
        drafts.drop(name);
        setNote("");
        setTheirs(null);
        say(activate ? `Version ${answer.version} is in force.` : `Saved as version ${answer.version}; it is not in force yet.`);
        if (fresh) {
            location.hash = to("scripts", name);
        } else {
            base.current = { ...base.current, text };
            reload();
        }
    };
    const form = useRef<HTMLDivElement>(null);
    const failed = (error: unknown): boolean => {
        if (isConflict(error)) {
            setTheirs(error.current as unknown as ScriptData);
            return true;
        }
        return false;
    };

    return (
        <div class="script">
            <section class="script-main" aria-label="Text of the script">
                {script.broken && !fresh && <p class="notice is-bad">It cannot be loaded: {script.broken}</p>}
                {script.last_error && !fresh && <LastError script={script} show={(line) => setGoTo({ line })} />}
                {draft !== null && dirty && !fresh && (
                    <div class="notice is-info">
                        <Icon name="warn" />
                        <span>This text is not saved yet.</span>
                        <button type="button" class="small" onClick={() => putText(base.current.text)}>Throw it away</button>
                    </div>
                )}
                <div class="editor-frame">
                    {Editor ? (
                        <Editor text={text} replace={replace} onChange={setText} check={ask_} goTo={goTo} label={`Text of ${name}`}
                            onSave={() => form.current?.querySelector("form")?.requestSubmit()} />
                    ) : missing ? <p class="notice is-bad">{missing}</p> : <Loading />}
                </div>
                <p class={`check-line ${check ? check.ok ? "is-ok" : "is-bad" : ""}`} role="status">
                    {check === null ? "The server checks the text while you type." : check.ok
                        ? <><Icon name="ok" />No error.{check.hooks && <> It takes {words(check.hooks).join(", ")}.</>}</>
                        : <><Icon name="bad" />
                            <span>Line {check.line ?? "?"}: {check.message}</span>
                            {check.line !== undefined && (
                                <button type="button" class="small" onClick={() => setGoTo({ line: check.line! })}>Go there</button>
                            )}</>}
                </p>
            </section>
            <div class="script-side" ref={form}>
                <Card title={fresh ? "Save" : "Save as a version"}>
                    <Form submit="Save and activate" disabled={check?.ok === false} act={() => save(true)} onError={failed}
                        buttons={<SaveOnly save={() => save(false)} failed={failed} disabled={check?.ok === false} />}>
                        <Text name="note" label="Note" value={note} set={setNote} placeholder="what changed, and why" />
                        <Choice name="scope" label="For" value={scope} set={(value) => setScope(value as Scope)} options={[
                            { value: "global", text: "everything" }, { value: "tenant", text: "one tenant" },
                            { value: "domain", text: "one domain" }, { value: "site", text: "one site" },
                        ]} />
                        {scope !== "global" && (
                            <Text name="scope_name" label={`Which ${scope}`} value={scopeName} set={setScopeName} required />
                        )}
                        <Text name="order" label="Order" value={order} set={setOrder} placeholder="as it comes"
                            help="Where several scripts take one hook, the lower number is asked first." />
                    </Form>
                    {check?.ok === false && <p class="dim">A text with an error is not taken; the version in force stays.</p>}
                </Card>
                {!fresh && (
                    <Card title="In short">
                        <Facts rows={[
                            ["Hooks", <Hooks hooks={script.hooks} />],
                            ["Shown", script.text_version ? `version ${script.text_version}` : "not known"],
                            ["In force", script.active_version ? `version ${script.active_version}` : "none"],
                            ["Newest", script.newest_version ? `version ${script.newest_version}` : "none"],
                            ["Changed", <><Time at={script.changed} />{script.changed_by && ` by ${script.changed_by}`}</>],
                        ]} />
                    </Card>
                )}
            </div>
            {theirs && (
                <Dialog title={`${name} was changed meanwhile`} onClose={() => setTheirs(null)} wide>
                    <div class="stack">
                        <p>{theirs.changed_by ? <><strong>{theirs.changed_by}</strong> saved</> : "Someone saved"} version{" "}
                            {theirs.newest_version} while you were writing. Below: from what is saved now (−)
                            to your text (+).</p>
                        <Diff before={theirs.text ?? ""} after={text} label="From the saved version to yours" />
                        <div class="buttons is-end">
                            <button type="button" onClick={() => setTheirs(null)}>Go on editing</button>
                            <button type="button" onClick={() => {
                                putText(theirs.text);
                                set({ ...script, ...theirs });
                                setTheirs(null);
                            }}>Take the saved version</button>
                            <button type="button" class="primary" onClick={() => {
                                save(true, theirs.version).catch((error: unknown) => {
                                    if (!failed(error)) complain(error);
                                });
                            }}>Save mine after it</button>
                        </div>
                    </div>
                </Dialog>
            )}
        </div>
    );
}

function SaveOnly({ save, failed, disabled }: {
    save: () => Promise<void>;
    failed: (error: unknown) => boolean;
    disabled: boolean;
}): JSX.Element {
    return (
        <button type="button" disabled={disabled} onClick={() => {
            save().catch((error: unknown) => {
                if (!failed(error)) complain(error);
            });
        }}>Save only</button>
    );
}

function LastError({ script, show }: { script: ScriptData; show: (line: number) => void }): JSX.Element {
    return (
        <div class="last-error" role="region" aria-label="Last error">
            <p class="last-error-head">
                <Icon name="bad" />
                <strong>Last error</strong>
                <span class="dim"><Time at={script.last_error_at} />{script.last_error_hook && ` in ${script.last_error_hook}`}</span>
                {Boolean(script.last_error_line) && (
                    <button type="button" class="small" onClick={() => show(script.last_error_line!)}>
                        Line {script.last_error_line}
                    </button>
                )}
            </p>
            <p class="mono wrap">{script.last_error}</p>
            {script.last_error_input && (
                <details>
                    <summary>Input</summary>
                    <pre class="code" tabIndex={0} aria-label="Input of the failed call">{pretty(script.last_error_input)}</pre>
                </details>
            )}
        </div>
    );
}

export function pretty(json: string): string {
    try {
        return JSON.stringify(JSON.parse(json), null, 2);
    } catch {
        return json;
    }
}

function Versions({ script, reload }: { script: ScriptData; reload: () => void }): JSX.Element {
    const { name } = script;
    const [changed, setChanged] = useState(0);
    const [items, setItems] = useState<ScriptVersion[]>([]);
    const { from = "", until = "" } = place.value.query;
    const newest = items[0]?.version;
    const older = from || (items.find((item) => item.active && item.version !== newest)?.version ?? items[1]?.version ?? "").toString();
    const newer = until || (newest ?? "").toString();
    const options = items.map((item) => ({ value: String(item.version), text: `version ${item.version}${item.active ? " (in force)" : ""}` }));
    return (
        <>
            <List<ScriptVersion> name="versions" path={route`/scripts/${name}/versions`} id={(item) => String(item.version)}
                search={false} changed={changed} onData={setItems}
                columns={[
                    { key: "version", title: "Version", main: true, show: (item) => <>Version {item.version} {item.active && <Badge tone="ok">in force</Badge>}</> },
                    { key: "note", title: "Note", show: (item) => item.note },
                    { key: "at", title: "Saved", show: (item) => <Time at={item.at} none="" /> },
                    { key: "by", title: "By", show: (item) => item.by },
                    { key: "bytes", title: "Size", number: true, show: (item) => <Size bytes={item.bytes} /> },
                ]}
                rowActions={(item) => item.active ? null : (
                    <button type="button" class="small" onClick={() => {
                        post(route`/scripts/${name}/activate`, { version: item.version }).then(() => {
                            say(`Version ${item.version} is in force.`);
                            setChanged((value) => value + 1);
                            reload();
                        }, complain);
                    }}>Put in force</button>
                )}
                empty={{ icon: "script", title: "No version" }} />
            {items.length > 1 && older && newer && (
                <Card title="Compare">
                    <div class="pair">
                        <label class="field"><span class="label">From</span>
                            <select value={older} onChange={(event) => setQuery({ from: event.currentTarget.value })}>
                                {options.map((option) => <option key={option.value} value={option.value} selected={option.value === older}>{option.text}</option>)}
                            </select>
                        </label>
                        <label class="field"><span class="label">To</span>
                            <select value={newer} onChange={(event) => setQuery({ until: event.currentTarget.value })}>
                                {options.map((option) => <option key={option.value} value={option.value} selected={option.value === newer}>{option.text}</option>)}
                            </select>
                        </label>
                    </div>
                    <Compare name={name} from={older} until={newer} />
                </Card>
            )}
        </>
    );
}

function Compare({ name, from, until }: { name: string; from: string; until: string }): JSX.Element {
    const before = useData<ScriptData>(route`/scripts/${name}`, { version: from });
    const after = useData<ScriptData>(route`/scripts/${name}`, { version: until });
    const error = before.error ?? after.error;
    if (error) return <Problem error={error} />;
    if (!before.data || !after.data || before.loading || after.loading) return <Loading />;
    return <Diff before={before.data.text} after={after.data.text} label={`From version ${from} to version ${until}`} />;
}

// What a hook is given, to begin with; the server says when something is missing.
const inputs: Record<string, object> = {
    "smtp.rcpt": {
        sender: "someone@example.net", sender_domain: "example.net", recipient: "alice@example.org",
        "peer.ip": "192.0.2.1", helo: "mail.example.net", listener: "smtp",
    },
    deliver: {
        sender: "someone@example.net", recipient: "alice@example.org", size: "1200",
        headers: "From: someone@example.net\r\nTo: alice@example.org\r\nSubject: [news] Hello\r\n\r\n",
    },
    "http.access": { method: "GET", path: "/", host: "www.example.org", client_address: "192.0.2.1", headers: {} },
    "http.content": { method: "GET", path: "/", host: "www.example.org", client_address: "192.0.2.1", query: {}, headers: {}, body: "" },
};

function TestRun({ script }: { script: ScriptData }): JSX.Element {
    const hooks = words(script.hooks);
    const [hook, setHook] = useState(hooks[0] ?? "smtp.rcpt");
    const [input, setInput] = useState(() => JSON.stringify(inputs[hook] ?? {}, null, 2));
    const [answer, setAnswer] = useState<ScriptTest | null>(null);
    const draft = drafts.get(script.name);
    return (
        <div class="columns">
            <Card title="Input">
                {draft !== null && <p class="dim">The text that is not saved yet is run.</p>}
                <Form submit="Run" act={async () => {
                    try {
                        JSON.parse(input);
                    } catch (error) {
                        throw new FieldError("input", `this is no JSON: ${messageOf(error)}`);
                    }
                    setAnswer(await post<ScriptTest>(route`/scripts/${script.name}/test`,
                        { hook, input, text: draft ?? undefined }));
                }}>
                    <Choice name="hook" label="Hook" value={hook} options={hooks.length > 0 ? hooks : Object.keys(inputs)}
                        set={(value) => {
                            setHook(value);
                            setInput(JSON.stringify(inputs[value] ?? {}, null, 2));
                        }} />
                    <Text name="input" label="What the hook is given (JSON)" rows={12} mono value={input} set={setInput} />
                </Form>
                <p class="dim">A test run changes no mail and answers no client.</p>
            </Card>
            <Card title="Result">
                {answer === null ? <Empty icon="play" title="Not run yet" text="The result and what the script logs are shown here." /> : (
                    <div class="stack" role="status">
                        <p><Badge tone={answer.ok ? "ok" : "bad"}>{answer.ok ? "ran" : "failed"}</Badge></p>
                        {!answer.ok && <p class="notice is-bad">{answer.line !== undefined && <strong>Line {answer.line}: </strong>}{answer.message}</p>}
                        {answer.result && <><h3>It answered</h3><pre class="code" tabIndex={0} aria-label="Result">{pretty(answer.result)}</pre></>}
                        {answer.output && <><h3>It logged</h3><pre class="code" tabIndex={0} aria-label="Output">{answer.output}</pre></>}
                    </div>
                )}
            </Card>
        </div>
    );
}

