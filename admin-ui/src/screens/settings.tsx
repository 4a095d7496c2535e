// settings.tsx - every setting, from the rows that core and plugins declare
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, get, messageOf, post, put, route } from "../api";
import { download } from "../csv";
import { useData, useStill } from "../data";
import { parseSize, plural, sentence, size, words } from "../format";
import type { Page as ListPage, Setting, SettingChange } from "../types";
import { Badge, Empty, Loading, Page, Problem, Time } from "../ui/bits";
import { Conflict, isConflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { Choice, FieldError, Form, Text } from "../ui/form";
import { List } from "../ui/list";
import { complain, say } from "../ui/toast";

async function save(): Promise<void> {
    const { text = "" } = await get<{ text?: string }>("/settings-document");
    download("posthouse-settings.txt", "text/plain", text);
    say("Saved what is set as posthouse-settings.txt.");
}

export function Settings(): JSX.Element {
    const [applying, setApplying] = useState(false);
    const [applied, setApplied] = useState(0);
    return (
        <Page title="Settings" intro="All of them; a change is in force at once and cuts nobody."
            actions={
                <>
                    <button type="button" onClick={() => void save().catch(complain)}>Save as a file</button>
                    <button type="button" onClick={() => setApplying(true)}>Apply a file</button>
                </>
            }>
            <SettingList changed={applied} />
            {applying && <ApplyDocument close={() => setApplying(false)} applied={() => {
                setApplying(false);
                setApplied((value) => value + 1);
            }} />}
        </Page>
    );
}

const isBytes = (setting: Setting): boolean => setting.key.endsWith("_bytes") || setting.type === "size";
const isTime = (setting: Setting): string | undefined =>
    /_ms$/.test(setting.key) ? "ms" : /_s$/.test(setting.key) ? "seconds" : /_(days|d)$/.test(setting.key) ? "days" : undefined;

function readable(setting: Setting, value: string | undefined): string {
    if (value === undefined || value === "") return "empty";
    const bytes = isBytes(setting) ? parseSize(value) : undefined;
    if (bytes !== undefined) return size(bytes);
    if (setting.type.startsWith("bool")) return value === "true" ? "on" : "off";
    const unit = isTime(setting);
    return unit && /^[0-9]+$/.test(value) ? `${value} ${unit === "seconds" ? "s" : unit}` : value;
}

export function SettingList({ plugin, changed: outside = 0 }: { plugin?: string; changed?: number }): JSX.Element {
    const [open, setOpen] = useState<Setting | null>(null);
    const [changed, setChanged] = useState(0);
    return (
        <>
            <List<Setting> name="settings" path="/settings" query={{ plugin }} changed={changed + outside} page={100}
                search="Search key or help" id={(setting) => setting.key}
                filters={[{ key: "changed", title: "Settings", options: [{ value: "true", text: "Only those that are set" }] }]}
                columns={[
                    {
                        key: "key", title: "Setting", main: true,
                        show: (setting) => (
                            <span class="setting">
                                <code>{setting.key}</code>
                                {setting.help && <span class="dim">{setting.help}</span>}
                            </span>
                        ),
                    },
                    {
                        key: "value", title: "Value",
                        show: (setting) => (
                            <span class="value">
                                <span class={setting.set ? "is-set" : (setting.value ?? setting.default) ? "" : "dim"} title={setting.value}>{readable(setting, setting.value ?? setting.default)}</span>
                                {setting.set && <Badge tone="info">set</Badge>}
                            </span>
                        ),
                    },
                    { key: "default", title: "Default", show: (setting) => <span class="dim" title={setting.default}>{readable(setting, setting.default)}</span> },
                    { key: "type", title: "Type", extra: true, show: (setting) => setting.type },
                    { key: "scopes", title: "Scopes", extra: true, show: (setting) => words(setting.scopes).join(", ") },
                ]}
                rowActions={(setting) => (
                    <button type="button" class="small" aria-label={`Change ${setting.key}`} onClick={() => setOpen(setting)}>Change</button>
                )}
                empty={{ icon: "system", title: "No setting", text: plugin && "This plugin has nothing to set." }} />
            {open && (
                <EditSetting key={open.key} setting={open} close={() => setOpen(null)} changed={() => setChanged((value) => value + 1)} />
            )}
        </>
    );
}

// Where a setting may be another than everywhere else; the nearest one counts.
const scopeNames: Record<string, string> = { node: "this node", domain: "one domain", account: "one account" };

function EditSetting({ setting: given, close, changed }: {
    setting: Setting;
    close: () => void;
    changed: () => void;
}): JSX.Element {
    const scopes = words(given.scopes).filter((one) => one in scopeNames);
    const [scope, setScope] = useState("");
    const [scopeName, setScopeName] = useState("");
    const name = useStill(scopeName.trim(), 400);
    const named = scope === "domain" || scope === "account";
    const where: Record<string, string | boolean> = scope === "node" ? { node: true }
        : named && scopeName.trim() ? { [scope]: scopeName.trim() } : {};
    const now = useData<Setting>(named && !name ? null : route`/settings/${given.key}`,
        named ? { [scope]: name } : where);
    const setting = now.data ?? given;
    const [typed, setTyped] = useState<string>();
    const [theirs, setTheirs] = useState<Record<string, unknown> | null>(null);
    const shown = setting.value ?? setting.default ?? "";
    const value = typed ?? (isBytes(setting) ? exact(shown) : shown);

    // What the server is given: the number of bytes for "2 MiB", the words as they are for the rest.
    const given_ = (): string => {
        if (isBytes(setting)) {
            const bytes = parseSize(value);
            if (bytes === undefined) throw new FieldError("value", "write a size like 500 MiB or 2 GiB");
            return String(bytes);
        }
        return value.trim();
    };
    const save = async (version: number | undefined): Promise<void> => {
        if (named && !scopeName.trim()) throw new FieldError("scope_name", `say which ${scope}`);
        await put(route`/settings/${setting.key}`, { value: given_(), ...where, if_version: version });
        say(`${setting.key} is changed and in force.`);
        changed();
        close();
    };
    const reset = (): void => {
        del(route`/settings/${setting.key}`, { ...where, if_version: setting.version }).then(() => {
            say(`${setting.key} has its default again.`);
            changed();
            close();
        }, complain);
    };
    const limits = [
        setting.min !== undefined && `at least ${readable(setting, String(setting.min))}`,
        setting.max !== undefined && `at most ${readable(setting, String(setting.max))}`,
    ].filter(Boolean).join(", ");
    const choices = (setting.choices ?? "").split("|").filter(Boolean);
    const help = [limits && `${limits.charAt(0).toUpperCase()}${limits.slice(1)}.`, `Default: ${readable(setting, setting.default)}.`]
        .filter(Boolean).join(" ");
    const failed = (error: unknown): boolean => {
        if (!isConflict(error)) return false;
        setTheirs(error.current);
        return true;
    };
    return (
        <Dialog title={setting.key} onClose={close}>
            <div class="stack">
                {setting.help && <p>{sentence(setting.help)}</p>}
                {setting.changed && (
                    <p class="dim">Set <Time at={setting.changed} />{setting.by && <> by <strong>{setting.by}</strong></>}.</p>
                )}
                <Form submit="Save" onCancel={close} act={() => save(setting.version)} onError={failed}
                    buttons={(setting.set || scope !== "") && <button type="button" onClick={reset}>Back to the default</button>}>
                    {scopes.length > 0 && (
                        <Choice name="scope" label="For" value={scope} set={(value) => {
                            setScope(value);
                            setTyped(undefined);
                        }} options={[{ value: "", text: "everything" },
                            ...scopes.map((one) => ({ value: one, text: scopeNames[one]! }))]} />
                    )}
                    {named && (
                        <Text name="scope_name" label={`Which ${scope}`} value={scopeName} set={setScopeName} required />
                    )}
                    {setting.type.startsWith("bool") ? (
                        <Choice name="value" label="Value" value={value} set={setTyped} help={help}
                            options={[{ value: "true", text: "on" }, { value: "false", text: "off" }]} />
                    ) : choices.length > 0 ? (
                        <Choice name="value" label="Value" value={value} set={setTyped} help={help} options={choices} />
                    ) : (
                        <Text name="value" label="Value" value={value} set={setTyped} help={help} autofocus
                            {...(isTime(setting) !== undefined && { suffix: isTime(setting)! })} />
                    )}
                </Form>
                <History setting={setting} take={setTyped} />
            </div>
            {theirs && (
                <Conflict what={setting.key} fields={{ value: "Value" }} mine={{ value: given_() }} theirs={theirs}
                    show={(_field, one) => readable(setting, one === undefined ? setting.default : String(one))}
                    close={() => setTheirs(null)} keepMine={() => save(Number(theirs["version"]))}
                    takeTheirs={() => {
                        setTyped(undefined);
                        now.set({ ...setting, ...theirs } as Setting);
                        setTheirs(null);
                        changed();
                    }} />
            )}
        </Dialog>
    );
}

// "64M" and "67108864" are both "64 MiB"; a size that has no short form stays as it is.
function exact(text: string): string {
    const bytes = parseSize(text);
    if (bytes === undefined) return text;
    return parseSize(size(bytes)) === bytes ? size(bytes) : text;
}

function History({ setting, take }: { setting: Setting; take: (value: string) => void }): JSX.Element {
    const list = useData<ListPage<SettingChange>>("/setting-history", { key: setting.key, limit: 20 });
    return (
        <section aria-label="History">
            <h3>History</h3>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {!list.data && list.loading && <Loading />}
            {list.data?.items.length === 0 && <Empty title="Never changed" />}
            {list.data && list.data.items.length > 0 && (
                <>
                    <ul class="rows">
                        {list.data.items.map((item) => (
                            <li key={item.version}>
                                <div>
                                    <strong class="wrap">{item.value === undefined ? "default" : readable(setting, item.value)}</strong>
                                    <span class="dim"><Time at={item.changed} />{item.by && ` by ${item.by}`}
                                        {item.scope && item.scope !== "global" && `, for ${item.scope}`}</span>
                                </div>
                                {item.value !== undefined && item.value !== setting.value && (
                                    <button type="button" class="small" onClick={() => take(isBytes(setting) ? exact(item.value!) : item.value!)}>
                                        Take again
                                    </button>
                                )}
                            </li>
                        ))}
                    </ul>
                    <p class="dim">{plural(list.data.items.length, "change")} shown; “Take again” fills it in, “Save” makes it so.</p>
                </>
            )}
        </section>
    );
}

interface Difference {
    key?: string;
    node?: string;
    from?: string;
    to?: string;
}

function ApplyDocument({ close, applied }: { close: () => void; applied: () => void }): JSX.Element {
    const [text, setText] = useState("");
    const [changes, setChanges] = useState<Difference[] | null>(null);
    const put_ = (next: string): void => {
        setText(next);
        setChanges(null);
    };
    return (
        <Dialog title="Apply a file of settings" onClose={close} wide>
            <Form submit={changes ? `Apply ${plural(changes.length, "change")}` : "Show what would change"} onCancel={close}
                disabled={changes?.length === 0}
                act={async () => {
                    if (!changes) {
                        setChanges((await post<ListPage<Difference>>("/settings-document/diff", { document: text })).items);
                        return;
                    }
                    await put("/settings-document", { document: text });
                    say(`${plural(changes.length, "setting")} changed.`);
                    applied();
                }}>
                <p>A line for each setting, as “Save as a file” writes it. What is not in it goes back to its default.</p>
                <Text name="document" label="Settings" rows={10} mono value={text} set={put_} />
                <label class="file"><span class="dim">or from a file: </span>
                    <input type="file" accept="text/plain,.txt,.conf" onChange={(event) => {
                        void event.currentTarget.files?.[0]?.text().then(put_, (error: unknown) => say(messageOf(error), true));
                    }} />
                </label>
                {changes?.length === 0 && <p class="notice">Nothing would change.</p>}
                {changes && changes.length > 0 && (
                    <div class="table-frame">
                        <table class="table is-plain" aria-label="What would change">
                            <thead><tr><th scope="col">Setting</th><th scope="col">Now</th><th scope="col">Then</th></tr></thead>
                            <tbody>
                                {changes.map((change) => (
                                    <tr key={`${change.key} ${change.node}`}>
                                        <th scope="row"><code>{change.key}</code>{change.node && ` of ${change.node}`}</th>
                                        <td class="wrap">{change.from ?? "default"}</td>
                                        <td class="wrap">{change.to ?? "default"}</td>
                                    </tr>
                                ))}
                            </tbody>
                        </table>
                    </div>
                )}
            </Form>
        </Dialog>
    );
}
