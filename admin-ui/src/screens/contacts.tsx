// contacts.tsx - people outside, in the address book of a domain
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, patch, post, route } from "../api";
import { useData } from "../data";
import { words } from "../format";
import { place } from "../router";
import type { Contact, Domain, Page as ListPage } from "../types";
import { Page, Time } from "../ui/bits";
import { Conflict, isConflict } from "../ui/conflict";
import { ask, Dialog } from "../ui/dialog";
import { FieldError, Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

// As many as can be chosen from; a longer list is searched.
const domainsAtMost = 200;

export function Contacts(): JSX.Element {
    const domains = useData<ListPage<Domain>>("/domains", { limit: domainsAtMost });
    const [editing, setEditing] = useState<Contact | "new" | null>(null);
    const [changed, setChanged] = useState(0);
    const only = place.value.query["domain"];
    const names = (domains.data?.items ?? []).map((domain) => domain.name);
    const choices = only && !names.includes(only) ? [only, ...names] : names;
    const add = (
        <button type="button" class="primary" onClick={() => setEditing("new")}><Icon name="plus" />Add a contact</button>
    );
    const remove = (contact: Contact, reload: () => void): void => ask({
        title: `Remove ${contact.name}?`,
        text: <p>The contact is no longer found in the address book of {contact.domain}. Mail is not touched.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/contacts/${contact.id}`),
        done: () => {
            say(`${contact.name} is removed.`);
            reload();
        },
    });
    return (
        <Page title="Contacts" actions={add}
            intro="People outside whom mail programs find by LDAP, beside the accounts: each domain has an address book.">
            <List<Contact> name="contacts" path="/contacts" id={(contact) => String(contact.id)} changed={changed}
                search="Search name, address, organization"
                filters={choices.length > 1 ? [{ key: "domain", title: "Domain", options: choices.map((name) => ({ value: name, text: name })) }] : []}
                columns={[
                    { key: "name", title: "Name", main: true, show: (contact) => contact.name },
                    { key: "mail", title: "Mail", show: (contact) => words(contact.mail).join(", ") },
                    { key: "organization", title: "Organization", show: (contact) => contact.organization },
                    { key: "telephone", title: "Telephone", show: (contact) => contact.telephone },
                    { key: "domain", title: "Address book of", show: (contact) => contact.domain },
                    { key: "given_name", title: "Given name", extra: true, show: (contact) => contact.given_name },
                    { key: "surname", title: "Family name", extra: true, show: (contact) => contact.surname },
                    { key: "id", title: "Number", extra: true, number: true, show: (contact) => contact.id },
                    { key: "created", title: "Added", extra: true, show: (contact) => <Time at={contact.created} none="" /> },
                ]}
                rowActions={(contact, reload) => (
                    <>
                        <button type="button" class="small" aria-label={`Change ${contact.name}`} onClick={() => setEditing(contact)}>Change</button>
                        <button type="button" class="small danger-quiet" aria-label={`Remove ${contact.name}`}
                            onClick={() => remove(contact, reload)}>Remove</button>
                    </>
                )}
                empty={{
                    icon: "book", title: "No contact yet",
                    text: domains.data?.items.length === 0 ? "Contacts are kept in the address book of a domain: add one first."
                        : "Add the people outside whom everybody here writes to.",
                    action: add,
                }} />
            {editing && (
                <EditContact contact={editing === "new" ? undefined : editing} domains={choices} domain={only ?? names[0] ?? ""}
                    close={() => setEditing(null)} saved={(name) => {
                        setEditing(null);
                        setChanged((value) => value + 1);
                        say(editing === "new" ? `${name} is added.` : "Saved.");
                    }} />
            )}
        </Page>
    );
}

const fields = {
    name: "Name", given_name: "Given name", surname: "Family name", mail: "Mail addresses", organization: "Organization",
    telephone: "Telephone",
};

type Field = keyof typeof fields;

const valuesOf = (contact: Partial<Record<Field, unknown>> | undefined): Record<Field, string> =>
    Object.fromEntries(Object.keys(fields).map((field) => {
        const value = String(contact?.[field as Field] ?? "");
        return [field, field === "mail" ? words(value).join(", ") : value];
    })) as Record<Field, string>;

function EditContact({ contact, domains, domain: first, close, saved }: {
    contact: Contact | undefined;
    domains: string[];
    domain: string;
    close: () => void;
    saved: (name: string) => void;
}): JSX.Element {
    const [domain, setDomain] = useState(first);
    const [values, setValues] = useState(valuesOf(contact));
    // What the form began with: another one after the version of somebody else was taken.
    const [version, setVersion] = useState(contact?.version);
    const [theirs, setTheirs] = useState<Record<string, unknown> | null>(null);
    const text = (name: Field): { name: Field; label: string; value: string; set: (value: string) => void } => ({
        name, label: fields[name], value: values[name], set: (value) => setValues((now) => ({ ...now, [name]: value })),
    });
    const trimmed = (): Record<Field, string> => valuesOf(Object.fromEntries(
        Object.entries(values).map(([name, value]) => [name, value.trim()])));
    const save = async (of: number | undefined): Promise<void> => {
        const now = trimmed();
        if (!now.name) throw new FieldError("name", "a contact needs a name");
        if (contact) await patch(route`/contacts/${contact.id}`, { ...now, if_version: of });
        else await post("/contacts", { domain: domain.trim(), ...now });
        saved(now.name);
    };
    return (
        <Dialog title={contact ? `Change ${contact.name}` : "Add a contact"} onClose={close}>
            <Form submit={contact ? "Save" : "Add"} onCancel={close} act={() => save(version)} onError={(error) => {
                if (!isConflict(error, version)) return false;
                setTheirs(error.current);
                return true;
            }}>
                <Text {...text("name")} placeholder="Zoe Outside" autofocus required help="As it is shown in address books." />
                <div class="pair is-wide">
                    <Text {...text("given_name")} />
                    <Text {...text("surname")} />
                </div>
                <Text {...text("mail")} placeholder="zoe@example.org" help="Several are divided by commas." />
                <div class="pair is-wide">
                    <Text {...text("organization")} />
                    <Text {...text("telephone")} />
                </div>
                {!contact && (
                    <Text name="domain" label="In the address book of" value={domain} set={setDomain} suggestions={domains} required
                        help="One of the domains here; who is of its tenant finds the contact." />
                )}
            </Form>
            {theirs && (
                <Conflict what={contact!.name} fields={fields} mine={trimmed()} theirs={{ ...valuesOf(theirs), by: theirs["by"] }}
                    close={() => setTheirs(null)} keepMine={() => save(Number(theirs["version"]))}
                    takeTheirs={() => {
                        setValues(valuesOf(theirs));
                        setVersion(Number(theirs["version"]));
                        setTheirs(null);
                    }} />
            )}
        </Dialog>
    );
}
