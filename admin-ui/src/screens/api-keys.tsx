// api-keys.tsx - keys for programs, shown once
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { base, del, post, route } from "../api";
import type { ApiKey, Role } from "../types";
import { Badge, Once, Page, Time } from "../ui/bits";
import { ask, Dialog } from "../ui/dialog";
import { Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";
import { daysValue } from "./app-passwords";

const roleText: Record<Role, string> = { operator: "as an operator", tenant: "as a tenant admin", user: "as a user" };

export function ApiKeys(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [changed, setChanged] = useState(0);
    const remove = (key: ApiKey, reload: () => void): void => ask({
        title: `Remove the key “${key.label}”?`,
        text: <p>The program that uses it is refused from now on.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/api-keys/${key.id}`),
        done: () => {
            say("The key is removed.");
            reload();
        },
    });
    return (
        <Page title="API keys" intro={<>Programs do with a key what you do here. The description of the API:{" "}
            <a href={`${base}api/v1/openapi.json`} target="_blank" rel="noreferrer">OpenAPI</a>.</>}
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Make a key</button>}>
            <List<ApiKey> name="API keys" path="/api-keys" id={(key) => String(key.id)} changed={changed}
                columns={[
                    { key: "label", title: "For", main: true, show: (key) => key.label },
                    { key: "role", title: "May act", show: (key) => key.role && <Badge tone="info">{roleText[key.role]}</Badge> },
                    { key: "created", title: "Made", show: (key) => <><Time at={key.created} none="" />{key.by && <span class="dim"> by {key.by}</span>}</> },
                    { key: "last_used", title: "Last used", show: (key) => <Time at={key.last_used} /> },
                    { key: "expires", title: "Until", show: (key) => <Time at={key.expires} as="full" none="for ever" /> },
                ]}
                rowActions={(key, reload) => (
                    <button type="button" class="small danger-quiet" aria-label={`Remove ${key.label}`} onClick={() => remove(key, reload)}>Remove</button>
                )}
                empty={{ icon: "system", title: "No key", text: "Make one for each program that is to use the API." }} />
            {adding && <AddKey close={() => setAdding(false)} added={() => setChanged((value) => value + 1)} />}
        </Page>
    );
}

function AddKey({ close, added }: { close: () => void; added: () => void }): JSX.Element {
    const [label, setLabel] = useState("");
    const [days, setDays] = useState("");
    const [tenant, setTenant] = useState("");
    const [made, setMade] = useState("");
    if (made) {
        return (
            <Dialog title="The new key">
                <div class="stack">
                    <p>Give it to <strong>{label}</strong>. It is shown only now and kept nowhere in the clear.</p>
                    <Once text={made} />
                    <p class="dim">It goes into the header <code>Authorization: Bearer …</code></p>
                    <div class="buttons is-end"><button type="button" class="primary" onClick={close}>I have it</button></div>
                </div>
            </Dialog>
        );
    }
    return (
        <Dialog title="Make a key" onClose={close}>
            <Form submit="Make" onCancel={close} act={async () => {
                const answer = await post<{ key: string }>("/api-keys", { label: label.trim(), days: daysValue(days), tenant: tenant.trim() || undefined });
                setMade(answer.key);
                added();
            }}>
                <Text name="label" label="For" value={label} set={setLabel} placeholder="Backup script" autofocus required />
                <Text name="tenant" label="Tenant" value={tenant} set={setTenant}
                    help="Empty: the key may do what an operator may. With a tenant: what its admins may." />
                <Text name="days" label="Works for" value={days} set={setDays} suffix="days" placeholder="for ever" />
            </Form>
        </Dialog>
    );
}
