// sites.tsx - web sites: their names, and which path is answered by what
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { del, patch, post, route, session } from "../api";
import { useData } from "../data";
import { count, plural, words } from "../format";
import { to } from "../router";
import type { Page as ListPage, Route, Site as SiteData } from "../types";
import { Badge, Card, Empty, Facts, Loading, Page, Problem, Time } from "../ui/bits";
import { Conflict, isConflict } from "../ui/conflict";
import { ask, Dialog } from "../ui/dialog";
import { Form, Text, Tick } from "../ui/form";
import { Icon } from "../ui/icons";
import { List } from "../ui/list";
import { say } from "../ui/toast";

export function SiteLink({ url }: { url: string | undefined }): JSX.Element | null {
    if (!url || !/^https?:\/\//.test(url)) return null;
    return (
        <a href={url} target="_blank" rel="noreferrer">{url.replace(/^https?:\/\//, "").replace(/\/$/, "")}<Icon name="external" />
            <span class="hidden"> (opens in a new tab)</span></a>
    );
}

export function Sites(): JSX.Element {
    const [adding, setAdding] = useState(false);
    const [changed, setChanged] = useState(0);
    return (
        <Page title="Sites" intro="What is served over HTTP and HTTPS."
            actions={<button type="button" class="primary" onClick={() => setAdding(true)}><Icon name="plus" />Add a site</button>}>
            <List<SiteData> name="sites" path="/sites" id={(site) => site.name} changed={changed}
                columns={[
                    { key: "name", title: "Site", main: true, show: (site) => site.name },
                    { key: "names", title: "Names", show: (site) => words(site.names).join(", ") },
                    { key: "routes", title: "Routes", number: true, show: (site) => count(site.routes) },
                    { key: "https_only", title: "HTTPS", show: (site) => site.https_only ? <Badge tone="ok">only</Badge> : "and HTTP" },
                    { key: "url", title: "Open", show: (site) => <SiteLink url={site.url} /> },
                    { key: "root", title: "Folder", extra: true, show: (site) => site.root && <code>{site.root}</code> },
                    { key: "tenant", title: "Tenant", extra: true, show: (site) => site.tenant },
                    { key: "created", title: "Added", extra: true, show: (site) => <Time at={site.created} none="" /> },
                ]}
                rowHref={(site) => to("sites", site.name)}
                empty={{
                    icon: "site", title: "No site yet",
                    text: "A site has a name, a folder of files, and routes for what is not a file.",
                    action: <button type="button" class="primary" onClick={() => setAdding(true)}>Add a site</button>,
                }} />
            {adding && <AddSite close={() => setAdding(false)} added={(name) => {
                setAdding(false);
                setChanged((value) => value + 1);
                say(`The site ${name} is added.`);
                location.hash = to("sites", name);
            }} />}
        </Page>
    );
}

function AddSite({ close, added }: { close: () => void; added: (name: string) => void }): JSX.Element {
    const [name, setName] = useState("");
    const [names, setNames] = useState("");
    const [root, setRoot] = useState("");
    const [httpsOnly, setHttpsOnly] = useState(true);
    return (
        <Dialog title="Add a site" onClose={close}>
            <Form submit="Add" onCancel={close} act={async () => {
                await post("/sites", {
                    name: name.trim(), names: words(names).join(",") || undefined,
                    root: root.trim() || undefined, https_only: httpsOnly,
                });
                added(name.trim());
            }}>
                <Text name="name" label="Name" value={name} set={setName} placeholder="www.example.org" autofocus required
                    help="The host name that browsers ask for." />
                <Text name="names" label="Other names" value={names} set={setNames} placeholder="example.org"
                    help="Separated by spaces or commas." />
                <Text name="root" label="Folder" value={root} set={setRoot} mono help="Empty: one is made for it." />
                <Tick name="https_only" label="HTTPS only" value={httpsOnly} set={setHttpsOnly}
                    help="Who comes by HTTP is sent to HTTPS." />
            </Form>
        </Dialog>
    );
}

export function Site({ name }: { name: string }): JSX.Element {
    const site = useData<SiteData>(route`/sites/${name}`);
    const { data } = site;
    const remove = (): void => ask({
        title: `Remove the site ${name}?`,
        text: <p>Its names are no longer answered and its {plural(data?.routes ?? 0, "route")} go with it. The files
            in its folder are kept.</p>,
        confirm: "Remove",
        danger: true,
        type: name,
        act: () => del(route`/sites/${name}`),
        done: () => {
            say(`${name} is removed.`);
            location.hash = "#/sites";
        },
    });
    return (
        <Page title={name} back={{ href: "#/sites", text: "Sites" }} intro={data && <SiteLink url={data.url} />}
            actions={data && <button type="button" class="danger-quiet" onClick={remove}>Remove</button>}>
            {site.error && <Problem error={site.error} retry={site.reload} />}
            {!data && site.loading && <Loading />}
            {data && (
                <>
                    <Routes site={name} reload={site.reload} />
                    <div class="columns">
                        <ChangeSite key={data.version} site={data} reload={site.reload} set={site.set} />
                        <Card title="In short">
                            <Facts rows={[
                                ["Folder", data.root ? <code>{data.root}</code> : "none"],
                                ["Tenant", data.tenant || "none"],
                                ["Added", <Time at={data.created} as="full" none="not known" />],
                            ]} />
                        </Card>
                    </div>
                </>
            )}
        </Page>
    );
}

function ChangeSite({ site, reload, set }: { site: SiteData; reload: () => void; set: (site: SiteData) => void }): JSX.Element {
    const [names, setNames] = useState(words(site.names).join(", "));
    const [root, setRoot] = useState(site.root ?? "");
    const [httpsOnly, setHttpsOnly] = useState(site.https_only ?? false);
    const [theirs, setTheirs] = useState<Record<string, unknown> | null>(null);
    const values = (): Record<string, string | boolean> =>
        ({ names: words(names).join(","), root: root.trim(), https_only: httpsOnly });
    const save = async (version: number | undefined): Promise<void> => {
        await patch(route`/sites/${site.name}`, { ...values(), if_version: version });
        say("Saved.");
        setTheirs(null);
        reload();
    };
    return (
        <Card title="Names and folder">
            <Form submit="Save" act={() => save(site.version)} onError={(error) => {
                if (!isConflict(error, site.version)) return false;
                setTheirs(error.current);
                return true;
            }}>
                <Text name="names" label="Names" value={names} set={setNames} help="Host names, separated by spaces or commas." />
                {session.value?.role === "operator" && <Text name="root" label="Folder" value={root} set={setRoot} mono />}
                <Tick name="https_only" label="HTTPS only" value={httpsOnly} set={setHttpsOnly} />
            </Form>
            {theirs && (
                <Conflict what={site.name} fields={{ names: "Names", root: "Folder", https_only: "HTTPS only" }}
                    mine={values()} theirs={theirs} close={() => setTheirs(null)}
                    keepMine={() => save(Number(theirs["version"]))}
                    takeTheirs={() => {
                        set({ ...site, ...(theirs as unknown as SiteData) });
                        setTheirs(null);
                    }} />
            )}
        </Card>
    );
}

function Routes({ site, reload: reloadSite }: { site: string; reload: () => void }): JSX.Element {
    const list = useData<ListPage<Route>>(route`/sites/${site}/routes`);
    const [editing, setEditing] = useState<Route | "new" | null>(null);
    const reload = (): void => {
        list.reload();
        reloadSite();
    };
    const remove = (item: Route): void => ask({
        title: `Remove the route ${item.prefix}?`,
        text: <p>Paths that begin with <code>{item.prefix}</code> are then answered by the next shorter route, or
            from the site's folder.</p>,
        confirm: "Remove",
        danger: true,
        act: () => del(route`/sites/${site}/routes/${item.id}`),
        done: () => {
            say("The route is removed.");
            reload();
        },
    });
    return (
        <Card title="Routes" actions={
            <button type="button" class="small" onClick={() => setEditing("new")}><Icon name="plus" />Add a route</button>
        }>
            <p class="dim">The longest prefix that fits a path decides who answers.</p>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {!list.data && list.loading && <Loading />}
            {list.data?.items.length === 0 && <Empty icon="site" title="No route" text="Everything is answered from the folder." />}
            {list.data && list.data.items.length > 0 && (
                <div class="table-frame">
                    <table role="table" class="table" aria-label={`Routes of ${site}`}>
                        <thead role="rowgroup">
                            <tr role="row">
                                <th role="columnheader" scope="col">Path begins with</th>
                                <th role="columnheader" scope="col">Handler</th>
                                <th role="columnheader" scope="col">Target</th>
                                <th role="columnheader" class="row-actions"><span class="hidden">Actions</span></th>
                            </tr>
                        </thead>
                        <tbody role="rowgroup">
                            {list.data.items.map((item) => (
                                <tr role="row" key={item.id}>
                                    <td role="cell" class="main" data-title="Path begins with"><code>{item.prefix}</code></td>
                                    <td role="cell" data-title="Handler"><Badge>{item.handler}</Badge></td>
                                    <td role="cell" data-title="Target" class={`wrap ${item.target ? "" : "is-blank"}`}>
                                        {item.target && <code>{item.target}</code>}
                                    </td>
                                    <td role="cell" class="row-actions">
                                        <div class="buttons is-end">
                                            <button type="button" class="small" onClick={() => setEditing(item)}>Change</button>
                                            <button type="button" class="small danger-quiet" onClick={() => remove(item)}>Remove</button>
                                        </div>
                                    </td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
            {editing && (
                <EditRoute site={site} item={editing === "new" ? undefined : editing} close={() => setEditing(null)} saved={() => {
                        setEditing(null);
                        say("The route is saved and in force.");
                        reload();
                    }} />
            )}
        </Card>
    );
}

// What the web server brings; plugins bring more, under names of their own.
const handlers: Record<string, { help: string; target: string }> = {
    static: {
        help: "Files of the site.",
        target: "A folder below the site's, in which the rest of the path is looked up. Empty: the whole path, in the site's folder.",
    },
    lua: { help: "A script answers.", target: "The name of a script that takes the hook http.content." },
    redirect: {
        help: "Sends the browser elsewhere.",
        target: "Where to; 301, 303, 307 or 308 and a blank may stand before it. Where it ends with /, the rest of the path is added.",
    },
};

function EditRoute({ site, item, close, saved }: {
    site: string;
    item: Route | undefined;
    close: () => void;
    saved: () => void;
}): JSX.Element {
    const [prefix, setPrefix] = useState(item?.prefix ?? "/");
    const [handler, setHandler] = useState(item?.handler ?? "static");
    const [target, setTarget] = useState(item?.target ?? "");
    const known = handlers[handler.trim()];
    return (
        <Dialog title={item ? "Change the route" : "Add a route"} onClose={close}>
            <Form submit="Save" onCancel={close} act={async () => {
                const body = { prefix: prefix.trim(), handler: handler.trim(), target: target.trim() };
                if (item) await patch(route`/sites/${site}/routes/${item.id}`, body);
                else await post(route`/sites/${site}/routes`, { ...body, target: body.target || undefined });
                saved();
            }}>
                <Text name="prefix" label="Path begins with" value={prefix} set={setPrefix} mono autofocus required />
                <Text name="handler" label="Handler" value={handler} set={setHandler} suggestions={Object.keys(handlers)} required
                    help={known?.help ?? "The name of a handler that a plugin offers; until the plugin runs, the answer is 503."} />
                <Text name="target" label="Target" value={target} set={setTarget} mono help={known?.target} />
            </Form>
        </Dialog>
    );
}
