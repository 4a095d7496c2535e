// main.tsx - which screen is shown where
import { render, type JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { away, messageOf, revision, session, whoAmI } from "./api";
import { place } from "./router";
import { Account, Accounts } from "./screens/accounts";
import { Aliases } from "./screens/aliases";
import { ApiKeys } from "./screens/api-keys";
import { Audit } from "./screens/audit";
import { Certificates } from "./screens/certificates";
import { Contacts } from "./screens/contacts";
import { Domains } from "./screens/domains";
import { Log } from "./screens/log";
import { LinkPage, LoginPage } from "./screens/login";
import { Operators, Tenants } from "./screens/operators";
import { Overview } from "./screens/overview";
import { Plugin, Plugins } from "./screens/plugins";
import { Records } from "./screens/records";
import { Script, Scripts } from "./screens/scripts";
import { Sessions } from "./screens/sessions";
import { Settings } from "./screens/settings";
import { Site, Sites } from "./screens/sites";
import { Start } from "./screens/start";
import { Upstream, Upstreams } from "./screens/upstreams";
import type { Role } from "./types";
import { Empty, Loading, Page } from "./ui/bits";
import { Banner, Shell } from "./ui/shell";

type Screen = (rest: string[]) => JSX.Element;

const all: Role[] = ["operator", "tenant", "user"];
const admins: Role[] = ["operator", "tenant"];
const operators: Role[] = ["operator"];

// First word of the path; who may see it; what is shown, by the words behind.
const screens: Record<string, { roles: Role[]; show: Screen }> = {
    "": { roles: admins, show: () => <Overview /> },
    start: { roles: admins, show: () => <Start /> },
    domains: { roles: admins, show: ([name]) => name ? <Records key={name} domain={name} /> : <Domains /> },
    aliases: { roles: admins, show: () => <Aliases /> },
    accounts: {
        roles: all,
        show: ([address, tab]) => address ? <Account key={address} address={address} tab={tab ?? ""} /> : <Accounts />,
    },
    contacts: { roles: admins, show: () => <Contacts /> },
    upstreams: { roles: operators, show: ([name]) => name ? <Upstream key={name} name={name} /> : <Upstreams /> },
    sites: { roles: admins, show: ([name]) => name ? <Site key={name} name={name} /> : <Sites /> },
    scripts: {
        roles: admins,
        show: ([name, tab]) => name ? <Script key={name} name={name} tab={tab ?? ""} /> : <Scripts />,
    },
    certificates: { roles: operators, show: () => <Certificates /> },
    sessions: { roles: operators, show: () => <Sessions /> },
    log: { roles: operators, show: () => <Log /> },
    audit: { roles: admins, show: () => <Audit /> },
    plugins: { roles: operators, show: ([name]) => name ? <Plugin key={name} name={name} /> : <Plugins /> },
    settings: { roles: operators, show: () => <Settings /> },
    operators: { roles: operators, show: () => <Operators /> },
    tenants: { roles: operators, show: () => <Tenants /> },
    "api-keys": { roles: operators, show: () => <ApiKeys /> },
};

function NotHere(): JSX.Element {
    return (
        <Page title="Not here">
            <Empty icon="search" title="There is no such page, or it is not for you"
                action={<a class="button" href="#/">Go to the start</a>} />
        </Page>
    );
}

function Content(): JSX.Element {
    const who = session.value!;
    let [first = "", ...rest] = place.value.segments;
    if (who.role === "user") {
        // A user has one account and sees no list of others.
        if (first === "") [first, rest] = ["accounts", [who.login]];
        if (first === "accounts" && rest[0] !== who.login) return <NotHere />;
    }
    const screen = screens[first];
    return screen?.roles.includes(who.role) ? screen.show(rest) : <NotHere />;
}

function App(): JSX.Element {
    const [error, setError] = useState("");
    const round = revision.value;
    const { segments } = place.value;
    const isLink = segments[0] === "link" && segments[1] !== undefined;
    useEffect(() => {
        if (session.value !== undefined || isLink) return;
        whoAmI().then(() => setError(""), (caught: unknown) => setError(messageOf(caught)));
    }, [round, isLink]);

    if (isLink) return <LinkPage token={segments[1]!} />;
    if (session.value === undefined) {
        return (
            <main class="login">
                <Banner />
                {error && !away.value ? <p class="notice is-bad" role="alert">{error}</p> : <Loading />}
            </main>
        );
    }
    if (session.value === null) return <LoginPage />;
    return <Shell><Content /></Shell>;
}

render(<App />, document.getElementById("app")!);
