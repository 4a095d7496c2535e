// operators.tsx - who may manage what: operators, tenant admins, tenants
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, post, put, route, session } from "../api";
import { count } from "../format";
import type { Operator, Tenant } from "../types";
import { Badge, Page, Time } from "../ui/bits";
import { ask, Dialog } from "../ui/dialog";
import { FieldError, Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

export function Operators(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [changing, setChanging] = useState<Operator | null>(null);
    const [changed, setChanged] = useState(0);
    const remove = (operator: Operator, reload: () => void): void => ask({
        title: `Remove ${operator.name}?`,
        text: <p>{operator.name} can no longer log in, sessions and API keys end. What was done stays in the audit log.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/operators/${operator.name}`),
        done: () => {
            say(`${operator.name} is removed.`);
            reload();
        },
    });
    return (
        <Page title="Operators" intro="They manage; they have no mailbox. With a tenant, they manage only what is his."
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add an operator</button>}>
            <List<Operator> name="operators" path="/operators" id={(operator) => operator.name} changed={changed}
                columns={[
                    { key: "name", title: "Name", main: true, show: (operator) => operator.name },
                    {
                        key: "tenant", title: "May manage",
                        show: (operator) => operator.tenant ? <>tenant <strong>{operator.tenant}</strong></> : <Badge tone="info">everything</Badge>,
                    },
                    { key: "created", title: "Added", show: (operator) => <Time at={operator.created} none="" /> },
                ]}
                rowActions={(operator, reload) => (
                    <>
                        <button type="button" class="small" aria-label={`Password of ${operator.name}`} onClick={() => setChanging(operator)}>Password</button>
                        <button type="button" class="small danger-quiet" aria-label={`Remove ${operator.name}`}
                            disabled={operator.name === session.value?.login} onClick={() => remove(operator, reload)}>Remove</button>
                    </>
                )}
                empty={{ icon: "people", title: "No operator", text: "Someone let you in by a link; make an operator with a password." }} />
            {adding && <AddOperator close={() => setAdding(false)} added={() => {
                setAdding(false);
                setChanged((value) => value + 1);
            }} />}
            {changing && <OperatorPassword name={changing.name} close={() => setChanging(null)} />}
        </Page>
    );
}

function AddOperator({ close, added }: { close: () => void; added: () => void }): JSX.Element {
    const [name, setName] = useState("");
    const [password, setPassword] = useState("");
    const [tenant, setTenant] = useState("");
    return (
        <Dialog title="Add an operator" onClose={close}>
            <Form submit="Add" onCancel={close} act={async () => {
                await post("/operators", { name: name.trim(), password, tenant: tenant.trim() || undefined });
                say(`${name.trim()} is added.`);
                added();
            }}>
                <Text name="name" label="Name" value={name} set={setName} autofocus required />
                <Text name="password" label="Password" secret value={password} set={setPassword} autocomplete="new-password" required />
                <Text name="tenant" label="Tenant" value={tenant} set={setTenant}
                    help="Empty: an operator, who may do everything. With a tenant: an admin of its domains and sites only." />
            </Form>
        </Dialog>
    );
}

function OperatorPassword({ name, close }: { name: string; close: () => void }): JSX.Element {
    const [password, setPassword] = useState("");
    const [again, setAgain] = useState("");
    return (
        <Dialog title={`Password of ${name}`} onClose={close}>
            <Form submit="Set the password" onCancel={close} act={async () => {
                if (!password) throw new FieldError("password", "type the new password");
                if (password !== again) throw new FieldError("again", "the two are not the same");
                await put(route`/operators/${name}/password`, { password });
                say(`${name} has a new password.`);
                close();
            }}>
                <Text name="password" label="New password" secret value={password} set={setPassword} autocomplete="new-password" autofocus />
                <Text name="again" label="New password, again" secret value={again} set={setAgain} autocomplete="new-password" />
            </Form>
        </Dialog>
    );
}

export function Tenants(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [name, setName] = useState("");
    const [changed, setChanged] = useState(0);
    const remove = (tenant: Tenant, reload: () => void): void => ask({
        title: `Remove the tenant ${tenant.name}?`,
        text: <p>Its admins lose their rights. A tenant that still has domains or sites is kept; remove those first.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/tenants/${tenant.name}`),
        done: () => {
            say(`${tenant.name} is removed.`);
            reload();
        },
    });
    return (
        <Page title="Tenants" intro="Customers who manage their own domains and sites, and see nothing of others."
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add a tenant</button>}>
            <List<Tenant> name="tenants" path="/tenants" id={(tenant) => tenant.name} changed={changed}
                columns={[
                    { key: "name", title: "Tenant", main: true, show: (tenant) => tenant.name },
                    { key: "domains", title: "Domains", number: true, show: (tenant) => count(tenant.domains) },
                    { key: "created", title: "Added", show: (tenant) => <Time at={tenant.created} none="" /> },
                ]}
                rowActions={(tenant, reload) => (
                    <button type="button" class="small danger-quiet" aria-label={`Remove ${tenant.name}`} onClick={() => remove(tenant, reload)}>Remove</button>
                )}
                empty={{ icon: "people", title: "No tenant", text: "One organisation alone needs none. Add one to give part of the work to a customer or a department." }} />
            {adding && (
                <Dialog title="Add a tenant" onClose={() => setAdding(false)}>
                    <Form submit="Add" onCancel={() => setAdding(false)} act={async () => {
                        await post("/tenants", { name: name.trim() });
                        say(`${name.trim()} is added. Give it domains, and an operator with this tenant as its admin.`);
                        setAdding(false);
                        setName("");
                        setChanged((value) => value + 1);
                    }}>
                        <Text name="name" label="Name" value={name} set={setName} autofocus required />
                    </Form>
                </Dialog>
            )}
        </Page>
    );
}
