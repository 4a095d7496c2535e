// certificates.tsx - one store for mail and web
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, post, route } from "../api";
import { words } from "../format";
import type { Certificate } from "../types";
import { Badge, Page, Time } from "../ui/bits";
import { ask, Dialog } from "../ui/dialog";
import { FieldError, Form, Text } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

function Validity({ until }: { until: string | undefined }): JSX.Element | null {
    if (!until) return null;
    const days = (new Date(until).getTime() - Date.now()) / 86400000;
    if (days < 0) return <Badge tone="bad">expired</Badge>;
    if (days < 21) return <Badge tone="warn">ends soon</Badge>;
    return <Badge tone="ok">valid</Badge>;
}

export function Certificates(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [changed, setChanged] = useState(0);
    const remove = (certificate: Certificate, reload: () => void): void => ask({
        title: `Remove the certificate ${certificate.name}?`,
        text: (
            <>
                <p>Its key is lost. Clients that ask for {words(certificate.names).join(", ") || certificate.name} get the default
                    certificate from then on, and may refuse it.</p>
            </>
        ),
        confirm: "Remove",
        danger: true,
        act: () => del(route`/certificates/${certificate.name}`),
        done: () => {
            say("The certificate is removed.");
            reload();
        },
    });
    return (
        <Page title="Certificates" intro="One store for mail and web; the name that a client asks for chooses."
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add a certificate</button>}>
            <List<Certificate> name="certificates" path="/certificates" whole id={(one) => one.name} changed={changed}
                columns={[
                    { key: "name", title: "Name", main: true, show: (one) => one.name },
                    { key: "names", title: "For", show: (one) => words(one.names).join(", ") },
                    { key: "state", title: "State", show: (one) => <Validity until={one.not_after} />, text: () => "" },
                    { key: "not_after", title: "Ends", show: (one) => <Time at={one.not_after} as="full" none="" /> },
                    { key: "issuer", title: "Issuer", show: (one) => one.issuer },
                    { key: "not_before", title: "Began", extra: true, show: (one) => <Time at={one.not_before} as="full" none="" /> },
                ]}
                rowActions={(one, reload) => (
                    <button type="button" class="small danger-quiet" aria-label={`Remove ${one.name}`} onClick={() => remove(one, reload)}>Remove</button>
                )}
                empty={{
                    icon: "certificate", title: "No certificate of your own",
                    text: "The one that the installation made for itself is used. Add one that the world trusts.",
                }} />
            {adding && <AddCertificate close={() => setAdding(false)} added={() => {
                setAdding(false);
                setChanged((value) => value + 1);
                say("The certificate is in force.");
            }} />}
        </Page>
    );
}

function AddCertificate({ close, added }: { close: () => void; added: () => void }): JSX.Element {
    const [certificate, setCertificate] = useState("");
    const [key, setKey] = useState("");
    const read = (set: (text: string) => void) => (event: { currentTarget: HTMLInputElement }): void => {
        void event.currentTarget.files?.[0]?.text().then(set);
    };
    return (
        <Dialog title="Add a certificate" onClose={close} wide>
            <Form submit="Add" onCancel={close} act={async () => {
                if (!certificate.includes("-----BEGIN")) throw new FieldError("certificate", "this is no PEM: it begins with -----BEGIN CERTIFICATE-----");
                if (!key.includes("-----BEGIN")) throw new FieldError("key", "this is no PEM: it begins with -----BEGIN PRIVATE KEY-----");
                await post("/certificates", { certificate, key });
                added();
            }}>
                <Text name="certificate" label="Certificate, with those between it and the root (PEM)" rows={7} mono
                    value={certificate} set={setCertificate} />
                <label class="file"><span class="dim">or from a file: </span><input type="file" accept=".pem,.crt,.cer" onChange={read(setCertificate)} /></label>
                <Text name="key" label="Private key (PEM)" rows={7} mono value={key} set={setKey}
                    help="It is sealed with the installation's own key before it is stored, and never shown again." />
                <label class="file"><span class="dim">or from a file: </span><input type="file" accept=".pem,.key" onChange={read(setKey)} /></label>
            </Form>
        </Dialog>
    );
}
