// app-passwords.tsx - passwords for one mail program each, shown once
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, post, route } from "../api";
import { useData } from "../data";
import type { AppPassword, Page as ListPage } from "../types";
import { Card, Empty, Loading, Once, Problem, Time } from "../ui/bits";
import { ask, Dialog } from "../ui/dialog";
import { FieldError, Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { say } from "../ui/toast";

export function daysValue(text: string): number | undefined {
    if (text.trim() === "") return undefined;
    const days = Number(text);
    if (!Number.isInteger(days) || days < 1) throw new FieldError("days", "write a whole number of days");
    return days;
}

export function AppPasswords({ address }: { address: string }): JSX.Element {
    const path = route`/accounts/${address}/app-passwords`;
    const list = useData<ListPage<AppPassword>>(path);
    const [adding, setAdding] = useState(false);
    const remove = (item: AppPassword): void => ask({
        title: `Remove the app password “${item.label}”?`,
        text: <p>The program that uses it can no longer log in. Others are not touched.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/accounts/${address}/app-passwords/${item.id}`),
        done: () => {
            say("The app password is removed.");
            list.reload();
        },
    });
    return (
        <Card title="App passwords" actions={
            <button type="button" class="small" onClick={() => setAdding(true)}><Icon name="plus" />Make one</button>
        }>
            <p class="dim">One for each mail program or device, so that each can be taken away alone.</p>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {!list.data && list.loading && <Loading />}
            {list.data?.items.length === 0 && <Empty title="None" text="Make one for each program that reads this mail." />}
            {list.data && list.data.items.length > 0 && (
                <ul class="rows">
                    {list.data.items.map((item) => (
                        <li key={item.id}>
                            <div>
                                <strong>{item.label}</strong>
                                <span class="dim">
                                    used <Time at={item.last_used} />
                                    {item.expires && <> · until <Time at={item.expires} as="full" /></>}
                                </span>
                            </div>
                            <button type="button" class="small danger-quiet" aria-label={`Remove ${item.label}`}
                                onClick={() => remove(item)}>Remove</button>
                        </li>
                    ))}
                </ul>
            )}
            {adding && <AddAppPassword address={address} close={() => setAdding(false)} added={list.reload} />}
        </Card>
    );
}

function AddAppPassword({ address, close, added }: { address: string; close: () => void; added: () => void }): JSX.Element {
    const [label, setLabel] = useState("");
    const [days, setDays] = useState("");
    const [made, setMade] = useState("");
    if (made) {
        return (
            <Dialog title="The new app password">
                <div class="stack">
                    <p>Enter it in the program <strong>{label}</strong>, with the login <code>{address}</code>. It is shown
                        only now and kept nowhere in the clear.</p>
                    <Once text={made} />
                    <div class="buttons is-end"><button type="button" class="primary" onClick={close}>I have it</button></div>
                </div>
            </Dialog>
        );
    }
    return (
        <Dialog title="Make an app password" onClose={close}>
            <Form submit="Make" onCancel={close} act={async () => {
                const answer = await post<{ password: string }>(route`/accounts/${address}/app-passwords`,
                    { label: label.trim(), days: daysValue(days) });
                setMade(answer.password);
                added();
            }}>
                <Text name="label" label="For" value={label} set={setLabel} placeholder="Phone" autofocus required
                    help="Which program or device, so that you know it again." />
                <Text name="days" label="Works for" value={days} set={setDays} suffix="days" placeholder="for ever" />
            </Form>
        </Dialog>
    );
}
