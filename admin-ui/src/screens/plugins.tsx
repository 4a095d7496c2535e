// plugins.tsx - start, stop, replace; and the settings of one plugin
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { post, route } from "../api";
import { useData } from "../data";
import { count, plural } from "../format";
import { to } from "../router";
import type { Page as ListPage, Plugin as PluginData } from "../types";
import { Badge, Card, Empty, Facts, Loading, Page, Problem, type Tone } from "../ui/bits";
import { Dialog } from "../ui/dialog";
import { FieldError, Form, Text } from "../ui/form";
import { say } from "../ui/toast";
import { SettingList } from "./settings";

const tones: Record<string, Tone> = {
    serving: "ok", running: "ok", started: "ok", active: "ok", stopped: "none", stopping: "warn", draining: "warn", starting: "warn", failed: "bad", broken: "bad",
};

type Verb = "start" | "stop" | "replace";

export function Plugins(): JSX.Element {
    const list = useData<ListPage<PluginData>>("/plugins");
    const [starting, setStarting] = useState(false);
    return (
        <Page title="Plugins" intro="The protocols; each can be stopped and replaced while the others go on."
            actions={<button type="button" onClick={() => setStarting(true)}>Start a plugin</button>}>
            {starting && <StartPlugin close={() => setStarting(false)} done={() => {
                setStarting(false);
                list.reload();
            }} />}
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {!list.data && list.loading && <Loading />}
            {list.data?.items.length === 0 && <Empty icon="system" title="No plugin" text="The folder of plugins is empty." />}
            <ul class="tiles">
                {list.data?.items.map((plugin) => (
                    <li key={`${plugin.name} ${plugin.generation}`} class="card">
                        <div class="tile-head">
                            <h2><a href={to("plugins", plugin.name)}>{plugin.name}</a></h2>
                            <Badge tone={tones[plugin.state] ?? "none"}>{plugin.state}</Badge>
                        </div>
                        {plugin.summary && <p class="dim">{plugin.summary}</p>}
                        {plugin.error && <p class="notice is-bad">{plugin.error}</p>}
                        {plugin.state === "draining" ? (
                            <p class="dim">Replaced; serves the {plural(plugin.uses ?? 0, "session")} that it still has.</p>
                        ) : <PluginButtons plugin={plugin} reload={list.reload} small />}
                    </li>
                ))}
            </ul>
        </Page>
    );
}

function PluginButtons({ plugin, reload, small }: { plugin: PluginData; reload: () => void; small?: boolean }): JSX.Element {
    const [verb, setVerb] = useState<Verb | null>(null);
    const running = plugin.state !== "stopped" && plugin.state !== "failed";
    const size = small ? "small" : "";
    return (
        <>
            <div class="buttons">
                {running ? (
                    <>
                        <button type="button" class={size} onClick={() => setVerb("replace")}
                            aria-label={`Replace ${plugin.name}`}>Replace</button>
                        {plugin.name !== "admin" && (
                            <button type="button" class={size} onClick={() => setVerb("stop")}
                                aria-label={`Stop ${plugin.name}`}>Stop</button>
                        )}
                    </>
                ) : (
                    <button type="button" class={size} onClick={() => setVerb("start")}
                        aria-label={`Start ${plugin.name}`}>Start</button>
                )}
                {small && <a class="button small" href={to("plugins", plugin.name)} aria-label={`Settings of ${plugin.name}`}>Settings</a>}
            </div>
            {verb && <PluginDialog plugin={plugin} verb={verb} close={() => setVerb(null)} done={() => {
                setVerb(null);
                reload();
            }} />}
        </>
    );
}

const said: Record<Verb, { title: string; text: string; button: string; done: string }> = {
    start: {
        title: "Start", button: "Start", done: "is started",
        text: "It is loaded and listens.",
    },
    stop: {
        title: "Stop", button: "Stop it", done: "is stopped",
        text: "It stops listening at once: new clients are refused until it is started again. Sessions that are open are told goodbye, and cut when the deadline is over.",
    },
    replace: {
        title: "Replace", button: "Replace it", done: "is replaced",
        text: "The file is loaded anew beside the running one. New sessions go to it, those that are open are served to their end by the old one. Nobody is refused.",
    },
};

function PluginDialog({ plugin, verb, close, done }: {
    plugin: PluginData;
    verb: Verb;
    close: () => void;
    done: () => void;
}): JSX.Element {
    const [deadline, setDeadline] = useState("");
    const [file, setFile] = useState("");
    const words = said[verb];
    return (
        <Dialog title={`${words.title} ${plugin.name}`} onClose={close}>
            <Form submit={words.button} danger={verb === "stop"} onCancel={close} act={async () => {
                const seconds = deadline.trim() === "" ? undefined : Number(deadline);
                if (seconds !== undefined && !(Number.isInteger(seconds) && seconds >= 0)) {
                    throw new FieldError("deadline_s", "write a whole number of seconds");
                }
                await post(route`/plugins/${plugin.name}/` + verb, {
                    deadline_s: verb === "stop" ? seconds : undefined,
                    file: verb === "stop" ? undefined : file.trim() || undefined,
                });
                say(`${plugin.name} ${words.done}.`);
                done();
            }}>
                <p>{words.text}</p>
                {verb === "stop" && (
                    <Text name="deadline_s" label="Deadline" value={deadline} set={setDeadline} suffix="seconds"
                        placeholder="as set" help="How long open sessions may still take." />
                )}
                {verb !== "stop" && (
                    <Text name="file" label="File" value={file} set={setFile} mono placeholder="as installed"
                        help="Path on the server; empty: the file that is installed." />
                )}
            </Form>
        </Dialog>
    );
}

function StartPlugin({ close, done }: { close: () => void; done: () => void }): JSX.Element {
    const [name, setName] = useState("");
    const [file, setFile] = useState("");
    return (
        <Dialog title="Start a plugin" onClose={close}>
            <Form submit="Start" onCancel={close} act={async () => {
                if (!name.trim()) throw new FieldError("name", "type the plugin's name");
                await post(route`/plugins/${name.trim()}/start`, { file: file.trim() || undefined });
                say(`${name.trim()} is started.`);
                done();
            }}>
                <p>Until the server is started anew; the setting <code>server.plugins</code> names those that always are.</p>
                <Text name="name" label="Name" value={name} set={setName} placeholder="example" autofocus required />
                <Text name="file" label="File" value={file} set={setFile} mono placeholder="as installed"
                    help="Path on the server; empty: the file that is installed." />
            </Form>
        </Dialog>
    );
}

export function Plugin({ name }: { name: string }): JSX.Element {
    const list = useData<ListPage<PluginData>>("/plugins");
    const plugin = list.data?.items.find((item) => item.name === name && item.state !== "draining");
    return (
        <Page title={name} intro={plugin?.summary} back={{ href: "#/plugins", text: "Plugins" }}
            actions={plugin && <PluginButtons plugin={plugin} reload={list.reload} />}>
            {list.error && <Problem error={list.error} retry={list.reload} />}
            {!list.data && list.loading && <Loading />}
            {list.data && !plugin && <Empty icon="system" title="There is no such plugin" />}
            {plugin && (
                <Card>
                    {plugin.error && <p class="notice is-bad">{plugin.error}</p>}
                    <Facts rows={[
                        ["State", <Badge tone={tones[plugin.state] ?? "none"}>{plugin.state}</Badge>],
                        ["Generation", count(plugin.generation ?? 0)],
                        ["In use by", `${count(plugin.uses ?? 0)} sessions, jobs and timers`],
                    ]} />
                </Card>
            )}
            <h2 class="section-title">Settings</h2>
            <SettingList plugin={name} />
        </Page>
    );
}
