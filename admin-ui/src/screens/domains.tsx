// domains.tsx - the mail domains of this installation
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, post, route, session } from "../api";
import { count, plural } from "../format";
import { go, to } from "../router";
import type { Domain } from "../types";
import { Page, Time } from "../ui/bits";
import { ask, Dialog } from "../ui/dialog";
import { Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

export function Domains(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const may = session.value?.role === "operator";
    const add = may && (
        <button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add a domain</button>
    );
    const remove = (domain: Domain, reload: () => void): void => ask({
        title: `Remove the domain ${domain.name}?`,
        text: (
            <>
                <p>Mail to it will be refused from now on, and its aliases go with it.</p>
                {domain.accounts > 0 && (
                    <p><strong>It has {plural(domain.accounts, "account")}.</strong> A domain with accounts is kept;
                        erase them first.</p>
                )}
            </>
        ),
        confirm: "Remove",
        danger: true,
        type: domain.name,
        act: () => del(route`/domains/${domain.name}`),
        done: () => {
            say(`${domain.name} is removed.`);
            reload();
        },
    });
    return (
        <Page title="Domains" intro="The part behind the @: mail to these domains is taken in." actions={add}>
            <List<Domain> name="domains" path="/domains" id={(domain) => domain.name}
                columns={[
                    { key: "name", title: "Domain", main: true, show: (domain) => domain.name },
                    { key: "accounts", title: "Accounts", number: true, show: (domain) => count(domain.accounts) },
                    { key: "created", title: "Added", show: (domain) => <Time at={domain.created} none="" /> },
                ]}
                rowHref={(domain) => `#/accounts?domain=${encodeURIComponent(domain.name)}`}
                rowActions={(domain, reload) => (
                    <>
                        <a class="button small" href={to("domains", domain.name)} aria-label={`DNS records of ${domain.name}`}>DNS records</a>
                        <a class="button small" href={`#/aliases?domain=${encodeURIComponent(domain.name)}`}>Aliases</a>
                        {may && (
                            <button type="button" class="small danger-quiet" onClick={() => remove(domain, reload)}>Remove</button>
                        )}
                    </>
                )}
                empty={{
                    icon: "mail", title: "No domain yet",
                    text: may ? "Add the domain that your mail addresses end with, example.org say."
                        : "An operator of this installation adds domains for you.",
                    action: may && <><a class="button primary" href="#/start">Set up step by step</a>
                        <button type="button" onClick={() => setAdding(true)}>Add a domain</button></>,
                }} />
            {adding && (
                <AddDomain close={() => setAdding(false)} added={(name) => {
                    say(`${name} is added. Enter in the DNS what is missing, and add accounts.`);
                    go(to("domains", name));
                }} />
            )}
        </Page>
    );
}

function AddDomain({ close, added }: { close: () => void; added: (name: string) => void }): JSX.Element {
    const [name, setName] = useState("");
    const [tenant, setTenant] = useState("");
    return (
        <Dialog title="Add a domain" onClose={close}>
            <Form submit="Add" onCancel={close} act={async () => {
                await post("/domains", { name: name.trim(), tenant: tenant.trim() || undefined });
                added(name.trim());
            }}>
                <Text name="name" label="Domain" value={name} set={setName} placeholder="example.org" autofocus required
                    help="Only the name; what to enter in the DNS is said afterwards." />
                {session.value?.role === "operator" && (
                    <Text name="tenant" label="Tenant" value={tenant} set={setTenant}
                        help="Whose admins may manage it; empty: only operators." />
                )}
            </Form>
        </Dialog>
    );
}
