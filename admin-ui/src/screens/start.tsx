// start.tsx - from an empty installation to a domain, an account and a site
//
// Each step does its work at once through the API, so that leaving half-way leaves nothing undone; what was
// done so far is in the address.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, post, session } from "../api";
import { useData } from "../data";
import { words } from "../format";
import { place, setQuery, to } from "../router";
import type { Site, Status } from "../types";
import { Card, Copy, Page } from "../ui/bits";
import { FieldError, Form, SizeField, sizeValue, Text, Tick } from "../ui/form";
import { Icon } from "../ui/icons";

const steps = ["Domain", "Account", "Site", "What next"];

export function Start(): JSX.Element {
    const { step: word = "1", domain = "", account = "", site = "" } = place.value.query;
    const step = Math.min(Math.max(Number(word) || 1, 1), steps.length);
    const next = (change: Record<string, string>): void => setQuery({ ...change, step: String(step + 1) }, false);
    return (
        <Page title="Set up" intro="From nothing to a domain, an account and a site. Each step is done when you press its button.">
            <ol class="steps" aria-label="Steps">
                {steps.map((text, i) => (
                    <li key={text} class={i + 1 < step ? "is-done" : i + 1 === step ? "is-now" : ""}
                        aria-current={i + 1 === step ? "step" : undefined}>
                        <span class="step-mark">{i + 1 < step ? <Icon name="ok" /> : i + 1}</span>
                        <span>{text}</span>
                        {i + 1 < step && <span class="hidden"> (done)</span>}
                    </li>
                ))}
            </ol>
            <div class="wizard">
                {step === 1 && <DomainStep next={next} />}
                {step === 2 && <AccountStep domain={domain} next={next} />}
                {step === 3 && <SiteStep domain={domain} next={next} />}
                {step === 4 && <Done domain={domain} account={account} site={site} />}
            </div>
        </Page>
    );
}

type Next = (change: Record<string, string>) => void;

// What is there already is as good as made.
async function make(path: string, body: Record<string, unknown>): Promise<void> {
    try {
        await post(path, body);
    } catch (error) {
        if (!(error instanceof ApiError && error.code === "conflict")) throw error;
    }
}

function DomainStep({ next }: { next: Next }): JSX.Element {
    const [name, setName] = useState("");
    return (
        <Card title="Your domain">
            <p>The part behind the @ of your mail addresses. You must own it; the DNS entries are shown at the end.</p>
            <Form submit="Add the domain" act={async () => {
                const word = name.trim().toLowerCase();
                if (!word) throw new FieldError("name", "type the name of your domain");
                await make("/domains", { name: word });
                next({ domain: word });
            }} buttons={<a class="button quiet" href="#/">Not now</a>}>
                <Text name="name" label="Domain" value={name} set={setName} placeholder="example.org" autofocus required />
            </Form>
        </Card>
    );
}

function AccountStep({ domain, next }: { domain: string; next: Next }): JSX.Element {
    const [local, setLocal] = useState("");
    const [name, setName] = useState("");
    const [password, setPassword] = useState("");
    const [quota, setQuota] = useState("");
    const [postmaster, setPostmaster] = useState(true);
    return (
        <Card title="The first account">
            <p>A person with a mailbox. The address is also the login.</p>
            <Form submit="Add the account" act={async () => {
                if (!local.trim()) throw new FieldError("address", "type the part before the @");
                if (!password) throw new FieldError("password", "without a password nobody can log in");
                const address = local.includes("@") ? local.trim() : `${local.trim()}@${domain}`;
                await post("/accounts", {
                    address, password, name: name.trim() || undefined, quota_bytes: sizeValue("quota_bytes", quota) || undefined,
                });
                if (postmaster && !address.startsWith("postmaster@")) {
                    await make("/aliases", { address: `postmaster@${domain}`, target: address });
                }
                next({ account: address });
            }} buttons={<button type="button" class="quiet" onClick={() => next({})}>Skip this step</button>}>
                <Text name="address" label="Address" value={local} set={setLocal} suffix={`@${domain}`} placeholder="alice" autofocus required />
                <Text name="name" label="Name" value={name} set={setName} placeholder="Alice Example" help="As others see it." />
                <Text name="password" label="Password" secret value={password} set={setPassword} autocomplete="new-password" required />
                <SizeField name="quota_bytes" label="Quota" value={quota} set={setQuota} />
                <Tick name="postmaster" label={`Mail to postmaster@${domain} goes here`} value={postmaster} set={setPostmaster}
                    help="Every domain needs that address." />
            </Form>
        </Card>
    );
}

function SiteStep({ domain, next }: { domain: string; next: Next }): JSX.Element {
    const [name, setName] = useState(`www.${domain}`);
    const [names, setNames] = useState(domain);
    const [httpsOnly, setHttpsOnly] = useState(true);
    return (
        <Card title="A web site">
            <p>What is shown to a browser that asks for this name.</p>
            <Form submit="Add the site" act={async () => {
                const word = name.trim().toLowerCase();
                if (!word) throw new FieldError("name", "type the name of the site");
                await make("/sites", { name: word, names: words(names).join(",") || undefined, https_only: httpsOnly });
                next({ site: word });
            }} buttons={<button type="button" class="quiet" onClick={() => next({})}>Skip this step</button>}>
                <Text name="name" label="Name" value={name} set={setName} autofocus required help="The host name that browsers ask for." />
                <Text name="names" label="Other names" value={names} set={setNames} help="Separated by spaces or commas; may be empty." />
                <Tick name="https_only" label="HTTPS only" value={httpsOnly} set={setHttpsOnly} help="Who comes by HTTP is sent to HTTPS." />
            </Form>
        </Card>
    );
}

// Where this server really listens, which need not be the usual port.
function port(status: Status | undefined, service: string, usual: number): number {
    const number = (status as Record<string, unknown> | undefined)?.[`port.${service}`];
    return typeof number === "number" && number > 0 ? number : usual;
}

function Block({ title, text, children }: { title: string; text?: ComponentChildren; children?: ComponentChildren }): JSX.Element {
    return (
        <Card title={title}>
            {text && <p class="dim">{text}</p>}
            {children}
        </Card>
    );
}

function Done({ domain, account, site: siteName }: { domain: string; account: string; site: string }): JSX.Element {
    const status = useData<Status>("/status");
    const site = useData<Site>(siteName ? `/sites/${encodeURIComponent(siteName)}` : null);
    const host = status.data?.host_name ?? "this-host";
    const address = "ADDRESS-OF-THIS-SERVER";
    const siteNames = [...new Set([siteName, ...words(site.data?.names)].filter(Boolean))];
    const records = [
        `${domain}.  3600  IN  MX   10 ${host}.`,
        `${domain}.  3600  IN  TXT  "v=spf1 mx -all"`,
        `${host}.  3600  IN  A    ${address}`,
        ...siteNames.filter((name) => name !== host).map((name) => `${name}.  3600  IN  A    ${address}`),
    ].join("\n");
    return (
        <div class="stack" role="status">
            <p class="all-good"><Icon name="ok" />
                {[domain && `the domain ${domain}`, account && `the account ${account}`, siteName && `the site ${siteName}`]
                    .filter(Boolean).join(", ").replace(/^the/, "The")} {account || siteName ? "are" : "is"} there.
            </p>
            {domain && (
                <Block title="1. Tell the DNS" text={<>Enter these lines where the domain is managed; put the server's address
                    for <code>{address}</code>.</>}>
                    <pre class="code" tabIndex={0} aria-label="DNS lines">{records}</pre>
                    <div class="buttons">
                        <Copy text={records} label="Copy the lines" />
                        <a class="button small" href={to("domains", domain)}>See what the DNS says of them</a>
                    </div>
                </Block>
            )}
            {account && (
                <Block title="2. Set up a mail program">
                    <dl class="facts">
                        <div><dt>Login</dt><dd><code>{account}</code></dd></div>
                        <div><dt>Incoming (IMAP)</dt><dd><code>{host}</code>, port {port(status.data, "imaps", 993)}, TLS</dd></div>
                        <div><dt>Outgoing (SMTP)</dt><dd><code>{host}</code>, port {port(status.data, "submissions", 465)}, TLS</dd></div>
                    </dl>
                    <p class="dim">Better than the password is an <a href={to("accounts", account, "passwords")}>app password</a> for each program.</p>
                </Block>
            )}
            {siteName && (
                <Block title="3. Fill the site" text={site.data?.root && <>Its files are in <code>{site.data.root}</code> on the server.</>}>
                    <div class="buttons">
                        {site.data?.url && /^https?:\/\//.test(site.data.url) && (
                            <a class="button" href={site.data.url} target="_blank" rel="noreferrer">Open the site<Icon name="external" /></a>
                        )}
                        <a class="button" href={to("sites", siteName)}>Its routes and names</a>
                    </div>
                </Block>
            )}
            <div class="buttons">
                <a class="button primary" href="#/">Go to the overview</a>
                {session.value?.role === "operator" && <a class="button" href="#/certificates">Add a certificate</a>}
                <a class="button" href="#/scripts">Write a policy script</a>
            </div>
        </div>
    );
}
