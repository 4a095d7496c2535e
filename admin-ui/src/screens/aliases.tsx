// aliases.tsx - addresses that lead to accounts
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, post, route } from "../api";
import { place, to } from "../router";
import type { Alias } from "../types";
import { Page } from "../ui/bits";
import { ask, Dialog } from "../ui/dialog";
import { Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

export function Aliases(): JSX.Element {
    const domain = place.value.query["domain"];
    return (
        <Page title={domain ? `Aliases of ${domain}` : "Aliases"}
            intro="Mail to an alias goes to its target. One alias may have several."
            {...(domain && { back: { href: "#/aliases", text: "All aliases" } })}>
            <AliasList query={{ domain }} />
        </Page>
    );
}

export function AliasList({ query, target }: { query: Record<string, string | undefined>; target?: string }): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [changed, setChanged] = useState(0);
    const remove = (alias: Alias, reload: () => void): void => ask({
        title: `Remove the alias ${alias.address}?`,
        text: <p>Mail to {alias.address} will no longer reach {alias.target}. No mail that has arrived is lost.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/aliases/${alias.address}/${alias.target}`),
        done: () => {
            say("The alias is removed.");
            reload();
        },
    });
    return (
        <>
            <List<Alias> name="aliases" path="/aliases" query={query} changed={changed}
                id={(alias) => `${alias.address} ${alias.target}`}
                columns={[
                    { key: "address", title: "Alias", main: true, show: (alias) => alias.address },
                    { key: "target", title: "Goes to", show: (alias) => <a href={to("accounts", alias.target)}>{alias.target}</a> },
                ]}
                rowActions={(alias, reload) => (
                    <button type="button" class="small danger-quiet" onClick={() => remove(alias, reload)}>Remove</button>
                )}
                actions={
                    <button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add an alias</button>
                }
                empty={{
                    icon: "mail", title: "No alias",
                    text: "Useful ones are postmaster@, which every domain needs, info@ and abuse@.",
                }} />
            {adding && (
                <AddAlias {...(target !== undefined && { target })} close={() => setAdding(false)} added={() => {
                    setAdding(false);
                    setChanged((value) => value + 1);
                }} />
            )}
        </>
    );
}

function AddAlias({ target: known = "", close, added }: { target?: string; close: () => void; added: () => void }): JSX.Element {
    const [address, setAddress] = useState("");
    const [target, setTarget] = useState(known);
    return (
        <Dialog title="Add an alias" onClose={close}>
            <Form submit="Add" onCancel={close} act={async () => {
                await post("/aliases", { address: address.trim(), target: target.trim() });
                say(`Mail to ${address.trim()} now goes to ${target.trim()}.`);
                added();
            }}>
                <Text name="address" label="Alias" value={address} set={setAddress} placeholder="info@example.org" autofocus required />
                <Text name="target" label="Goes to" value={target} set={setTarget} placeholder="alice@example.org" required
                    help="The address of an account." />
            </Form>
        </Dialog>
    );
}
