// mailboxes.tsx - the mailboxes of an account, the messages in one's own, and what was deleted
import type { JSX } from "preact";
import { post, route, session } from "../api";
import { useState } from "preact/hooks";
import { count } from "../format";
import { place, setQuery } from "../router";
import type { Deleted, Mailbox, Message } from "../types";
import { Badge, Size, Time } from "../ui/bits";
import { List } from "../ui/list";
import { complain, say } from "../ui/toast";

export function Mailboxes({ address }: { address: string }): JSX.Element {
    const own = session.value?.login === address;
    const open = place.value.query["mailbox"];
    if (own && open) return <Messages address={address} mailbox={open} />;
    return (
        <>
            {!own && <p class="hint dim">Sizes only: what the mail says is its owner's.</p>}
            <List<Mailbox> name="mailboxes" path={route`/accounts/${address}/mailboxes`} id={(mailbox) => mailbox.name}
                columns={[
                    {
                        key: "name", title: "Mailbox", main: true,
                        show: (mailbox) => own
                            ? <a href={`#${place.value.path}?mailbox=${encodeURIComponent(mailbox.name)}`}>{mailbox.name}</a>
                            : mailbox.name,
                    },
                    { key: "use", title: "For", show: (mailbox) => mailbox.use && <Badge>{mailbox.use}</Badge> },
                    { key: "messages", title: "Messages", number: true, show: (mailbox) => count(mailbox.messages) },
                    { key: "unseen", title: "Unread", number: true, show: (mailbox) => count(mailbox.unseen) },
                    { key: "bytes", title: "Size", number: true, show: (mailbox) => <Size bytes={mailbox.bytes} /> },
                ]}
                empty={{ title: "No mailbox", text: "A new account gets its mailboxes with the first login or message." }} />
        </>
    );
}

function Messages({ address, mailbox }: { address: string; mailbox: string }): JSX.Element {
    return (
        <>
            <div class="sub-head">
                <button type="button" class="small" onClick={() => setQuery({ mailbox: undefined, after: undefined }, false)}>
                    All mailboxes
                </button>
                <h2>{mailbox}</h2>
            </div>
            <List<Message> name="messages" path={route`/accounts/${address}/messages`} query={{ mailbox }}
                search={false} id={(message) => String(message.uid)}
                columns={[
                    {
                        key: "subject", title: "Subject", main: true,
                        show: (message) => <span class={message.seen ? "" : "is-unread"}>{message.subject || "(no subject)"}</span>,
                    },
                    { key: "from", title: "From", show: (message) => message.from },
                    { key: "date", title: "Date", show: (message) => <Time at={message.date} as="full" none="" /> },
                    { key: "bytes", title: "Size", number: true, show: (message) => <Size bytes={message.bytes} /> },
                    { key: "seen", title: "Read", extra: true, show: (message) => (message.seen ? "yes" : "no") },
                    { key: "uid", title: "UID", number: true, extra: true, show: (message) => message.uid },
                ]}
                empty={{ icon: "mail", title: "No message here" }} />
        </>
    );
}

export function DeletedMail({ address }: { address: string }): JSX.Element {
    const [changed, setChanged] = useState(0);
    const restore = (item: Deleted): Promise<unknown> =>
        post(route`/accounts/${address}/deleted/${item.message}/restore`);
    return (
        <>
            <p class="hint dim">Deleted mail is kept for a while. Undelete puts it back into the mailbox it was in.</p>
            <List<Deleted> name="deleted mail" path={route`/accounts/${address}/deleted`} changed={changed}
                search={false}
                id={(item) => String(item.message)}
                columns={[
                    { key: "subject", title: "Subject", main: true, show: (item) => item.subject || "(no subject)" },
                    { key: "from", title: "From", show: (item) => item.from },
                    { key: "mailbox", title: "Was in", show: (item) => item.mailbox },
                    { key: "bytes", title: "Size", number: true, show: (item) => <Size bytes={item.bytes} /> },
                    { key: "deleted", title: "Deleted", show: (item) => <Time at={item.deleted} /> },
                ]}
                bulk={(chosen, done) => (
                    <button type="button" class="small" onClick={() => {
                        void (async () => {
                            try {
                                for (const item of chosen) await restore(item);
                                say("Undeleted.");
                            } catch (error) {
                                complain(error);
                            }
                            done();
                        })();
                    }}>Undelete</button>
                )}
                rowActions={(item) => (
                    <button type="button" class="small" onClick={() => {
                        restore(item).then(() => {
                            say(`Back in ${item.mailbox}.`);
                            setChanged((value) => value + 1);
                        }, complain);
                    }}>Undelete</button>
                )}
                empty={{ title: "Nothing was deleted", text: "Mail that a mail program expunges shows up here." }} />
        </>
    );
}
