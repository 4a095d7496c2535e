// accounts.tsx - the accounts, and the page of one
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { logIn, patch, post, put, route, session } from "../api";
import { useData } from "../data";
import { count, fullTime, plural } from "../format";
import { place, to } from "../router";
import type { Account as AccountData } from "../types";
import { Badge, Card, Facts, Loading, Page, Problem, Size, Tabs, Time, Usage, type Tone } from "../ui/bits";
import { Conflict, isConflict } from "../ui/conflict";
import { ask, Dialog } from "../ui/dialog";
import { FieldError, Form, SizeField, sizeText, sizeValue, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { complain, say } from "../ui/toast";
import { AppPasswords } from "./app-passwords";
import { AliasList } from "./aliases";
import { DeletedMail, Mailboxes } from "./mailboxes";

const stateTones: Record<string, Tone> = { active: "ok", suspended: "warn", closing: "bad", closed: "bad" };

export const StateBadge = ({ state }: { state: string }): JSX.Element =>
    <Badge tone={stateTones[state] ?? "none"}>{state}</Badge>;

const states = ["active", "suspended", "closing"];

export function Accounts(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [changed, setChanged] = useState(0);
    const domain = place.value.query["domain"];
    const changeAll = (chosen: AccountData[], verb: "suspend" | "activate", done: () => void): void => {
        const act = async (): Promise<void> => {
            for (const account of chosen) await post(route`/accounts/${account.address}/` + verb);
        };
        if (verb === "activate") {
            act().then(() => {
                say(`${plural(chosen.length, "account")} activated.`);
                done();
            }, (error: unknown) => {
                complain(error);
                done();
            });
            return;
        }
        ask({
            title: `Suspend ${plural(chosen.length, "account")}?`,
            text: (
                <>
                    <p>They can no longer log in, and their sessions end. Mail to them is still taken in, and nothing is lost.</p>
                    <p class="dim">{chosen.map((account) => account.address).join(", ")}</p>
                </>
            ),
            confirm: "Suspend",
            danger: true,
            act,
            done: () => {
                say(`${plural(chosen.length, "account")} suspended.`);
                done();
            },
        });
    };
    return (
        <Page title={domain ? `Accounts of ${domain}` : "Accounts"} intro="People with a mailbox; the address is the login."
            {...(domain && { back: { href: "#/accounts", text: "All accounts" } })}
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add an account</button>}>
            <List<AccountData> name="accounts" path="/accounts" query={{ domain }} changed={changed}
                search="Search address or name" id={(account) => account.address}
                filters={[{ key: "state", title: "State", options: states.map((state) => ({ value: state, text: state })) }]}
                columns={[
                    { key: "address", title: "Address", main: true, show: (account) => account.address },
                    { key: "name", title: "Name", show: (account) => account.name },
                    { key: "state", title: "State", show: (account) => <StateBadge state={account.state} /> },
                    { key: "messages", title: "Messages", number: true, show: (account) => count(account.messages) },
                    { key: "bytes", title: "Used / quota", show: (account) => <Usage used={account.bytes} of={account.quota_bytes} /> },
                    { key: "quota_bytes", title: "Quota", number: true, extra: true, show: (account) => <Size bytes={account.quota_bytes} /> },
                    { key: "created", title: "Added", extra: true, show: (account) => <Time at={account.created} none="" /> },
                ]}
                rowHref={(account) => to("accounts", account.address)}
                bulk={(chosen, done) => (
                    <>
                        <button type="button" class="small" onClick={() => changeAll(chosen, "suspend", done)}>Suspend</button>
                        <button type="button" class="small" onClick={() => changeAll(chosen, "activate", done)}>Activate</button>
                    </>
                )}
                empty={{
                    icon: "people", title: "No account yet",
                    text: "An account is a person's mailbox and login. A domain comes first.",
                    action: <button type="button" class="primary" onClick={() => setAdding(true)}>Add an account</button>,
                }} />
            {adding && (
                <AddAccount domain={domain} close={() => setAdding(false)} added={(address) => {
                    setAdding(false);
                    setChanged((value) => value + 1);
                    say(`${address} is added.`);
                }} />
            )}
        </Page>
    );
}

function AddAccount({ domain, close, added }: { domain: string | undefined; close: () => void; added: (address: string) => void }): JSX.Element {
    const [address, setAddress] = useState(domain ? `@${domain}` : "");
    const [name, setName] = useState("");
    const [password, setPassword] = useState("");
    const [quota, setQuota] = useState("");
    return (
        <Dialog title="Add an account" onClose={close}>
            <Form submit="Add" onCancel={close} act={async () => {
                await post("/accounts", {
                    address: address.trim(), name: name.trim() || undefined, password: password || undefined,
                    quota_bytes: sizeValue("quota_bytes", quota) || undefined,
                });
                added(address.trim());
            }}>
                <Text name="address" label="Address" value={address} set={setAddress} placeholder="alice@example.org" autofocus required />
                <Text name="name" label="Name" value={name} set={setName} help="As others see it." />
                <Text name="password" label="Password" secret value={password} set={setPassword}
                    autocomplete="new-password" help="Without one nobody can log in until you set it." />
                <SizeField name="quota_bytes" label="Quota" value={quota} set={setQuota} />
            </Form>
        </Dialog>
    );
}

const tabs = [
    { key: "", text: "Account" },
    { key: "passwords", text: "Passwords" },
    { key: "aliases", text: "Aliases", admin: true },
    { key: "mailboxes", text: "Mailboxes" },
    { key: "deleted", text: "Deleted mail" },
];

export function Account({ address, tab }: { address: string; tab: string }): JSX.Element {
    const account = useData<AccountData>(route`/accounts/${address}`);
    const admin = session.value?.role !== "user";
    const { data } = account;
    return (
        <Page title={address} intro={data?.name || undefined}
            {...(admin && { back: { href: "#/accounts", text: "Accounts" } })}
            actions={data && admin && <StateActions account={data} reload={account.reload} />}>
            <Tabs label="Parts of the account" tabs={tabs.filter((item) => admin || !item.admin).map((item) => ({
                href: item.key ? to("accounts", address, item.key) : to("accounts", address),
                text: item.text, on: item.key === tab,
            }))} />
            {account.error && <Problem error={account.error} retry={account.reload} />}
            {!data && account.loading && <Loading />}
            {data && tab === "" && <Summary account={data} reload={account.reload} set={account.set} />}
            {data && tab === "passwords" && <Passwords account={data} />}
            {data && tab === "aliases" && admin && <AliasList query={{ target: address }} target={address} />}
            {data && tab === "mailboxes" && <Mailboxes address={address} />}
            {data && tab === "deleted" && <DeletedMail address={address} />}
        </Page>
    );
}

type Verb = "suspend" | "activate" | "close" | "erase";

function StateActions({ account, reload }: { account: AccountData; reload: () => void }): JSX.Element {
    const { address } = account;
    const isClosed = account.state === "closing" || account.state === "closed";
    const run = (verb: Verb): Promise<unknown> => post(route`/accounts/${address}/` + verb);
    const activate = (): void => {
        run("activate").then(() => {
            say(`${address} is active.`);
            reload();
        }, complain);
    };
    const suspend = (): void => ask({
        title: `Suspend ${address}?`,
        text: <p>Nobody can log in with it and its sessions end. Mail to it is still taken in; nothing is lost, and “Activate” undoes it.</p>,
        confirm: "Suspend",
        danger: true,
        act: () => run("suspend"),
        done: () => {
            say(`${address} is suspended.`);
            reload();
        },
    });
    const close = (): void => ask({
        title: `Close ${address}?`,
        text: <p>Nobody can log in with it, and mail to it is refused. Its mail is kept until the account is erased.</p>,
        confirm: "Close the account",
        danger: true,
        act: () => run("close"),
        done: () => {
            say(`${address} is closed.`);
            reload();
        },
    });
    const erase = (): void => ask({
        title: `Erase ${address}?`,
        text: (
            <>
                <p><strong>This cannot be taken back.</strong> Lost for ever: {plural(account.messages ?? 0, "message")}, all
                    mailboxes, deleted mail, app passwords and aliases of this account.</p>
            </>
        ),
        confirm: "Erase for ever",
        danger: true,
        type: address,
        act: () => run("erase"),
        done: () => {
            say(`${address} is erased.`);
            location.hash = "#/accounts";
        },
    });
    return (
        <>
            {account.state !== "active" && <button type="button" onClick={activate}>Activate</button>}
            {account.state === "active" && <button type="button" onClick={suspend}>Suspend</button>}
            {!isClosed && <button type="button" onClick={close}>Close</button>}
            {isClosed && <button type="button" class="danger" onClick={erase}>Erase</button>}
        </>
    );
}

function Summary({ account, reload, set }: {
    account: AccountData;
    reload: () => void;
    set: (account: AccountData) => void;
}): JSX.Element {
    const admin = session.value?.role !== "user";
    return (
        <div class="columns">
            <Card title="In short">
                <Facts rows={[
                    ["State", <StateBadge state={account.state} />],
                    ["Used / quota", <Usage used={account.bytes} of={account.quota_bytes} />],
                    ["Messages", account.quota_messages ? `${count(account.messages ?? 0)} / ${count(account.quota_messages)}`
                        : count(account.messages ?? 0)],
                    ["Last login", <Time at={account.last_login} />],
                    ["Password", account.has_password === false ? <Badge tone="warn">none: nobody can log in</Badge> : "set"],
                    ["App passwords", <a href={to("accounts", account.address, "passwords")}>{count(account.app_passwords ?? 0)}</a>],
                    ["Added", account.created ? <time dateTime={account.created} title={account.created}>
                        {fullTime(new Date(account.created))}</time> : "not known"],
                ]} />
            </Card>
            {admin && <ChangeAccount key={account.version} account={account} reload={reload} set={set} />}
        </div>
    );
}

function ChangeAccount({ account, reload, set }: {
    account: AccountData;
    reload: () => void;
    set: (account: AccountData) => void;
}): JSX.Element {
    const [name, setName] = useState(account.name ?? "");
    const [quota, setQuota] = useState(sizeText(account.quota_bytes));
    const [messages, setMessages] = useState(account.quota_messages ? String(account.quota_messages) : "");
    const [theirs, setTheirs] = useState<Record<string, unknown> | null>(null);

    const values = (): Record<string, string | number> => {
        const limit = messages.trim() === "" ? 0 : Number(messages);
        if (!Number.isInteger(limit) || limit < 0) throw new FieldError("quota_messages", "write a whole number");
        return { name: name.trim(), quota_bytes: sizeValue("quota_bytes", quota), quota_messages: limit };
    };
    const save = async (version: number | undefined): Promise<void> => {
        await patch(route`/accounts/${account.address}`, { ...values(), if_version: version });
        say("Saved.");
        setTheirs(null);
        reload();
    };
    return (
        <Card title="Name and quota">
            <Form submit="Save" act={() => save(account.version)} onError={(error) => {
                if (!isConflict(error, account.version)) return false;
                setTheirs(error.current);
                return true;
            }}>
                <Text name="name" label="Name" value={name} set={setName} help="As others see it." />
                <SizeField name="quota_bytes" label="Quota" value={quota} set={setQuota} />
                <Text name="quota_messages" label="Messages at most" value={messages} set={setMessages} placeholder="no limit" />
            </Form>
            {theirs && (
                <Conflict what={account.address} close={() => setTheirs(null)}
                    fields={{ name: "Name", quota_bytes: "Quota", quota_messages: "Messages at most" }}
                    mine={values()} theirs={{ name: "", quota_bytes: 0, quota_messages: 0, ...theirs }}
                    show={(field, value) => field === "name" ? String(value || "not set")
                        : !value ? "no limit" : field === "quota_bytes" ? sizeText(Number(value)) : count(Number(value))}
                    keepMine={() => save(Number(theirs["version"]))}
                    takeTheirs={() => {
                        set({ ...account, ...(theirs as unknown as AccountData) });
                        setTheirs(null);
                    }} />
            )}
        </Card>
    );
}

function Passwords({ account }: { account: AccountData }): JSX.Element {
    const own = session.value?.role === "user";
    const [old, setOld] = useState("");
    const [password, setPassword] = useState("");
    const [again, setAgain] = useState("");
    return (
        <div class="columns">
            <Card title="Password">
                <Form submit={own ? "Change the password" : "Set the password"} act={async () => {
                    if (!password) throw new FieldError("password", "type the new password");
                    if (password !== again) throw new FieldError("again", "the two are not the same");
                    await put(route`/accounts/${account.address}/password`, { password, old: own ? old : undefined });
                    // The server ends the sessions of whose password is changed: this one begins anew.
                    if (own) await logIn(account.address, password);
                    setOld("");
                    setPassword("");
                    setAgain("");
                    say("The password is changed.");
                }}>
                    {own && <Text name="old" label="Password now" secret value={old} set={setOld} autocomplete="current-password" />}
                    <Text name="password" label="New password" secret value={password} set={setPassword} autocomplete="new-password" />
                    <Text name="again" label="New password, again" secret value={again} set={setAgain} autocomplete="new-password" />
                </Form>
            </Card>
            <AppPasswords address={account.address} />
        </div>
    );
}
