// list.tsx - a list that the server pages, searches and filters
//
// Its whole state (search, filters, page, shown columns) is in the address, so that a link shows the same
// and "back" goes back. On a narrow screen each row becomes a card; the table's roles are written out,
// because browsers forget them when the rows are no longer laid out as a table.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get, messageOf, type Query } from "../api";
import { useData, useStill } from "../data";
import { plural } from "../format";
import { go, place, setQuery } from "../router";
import type { Page as ListPage } from "../types";
import { csvOf, download } from "../csv";
import { Empty, Loading, Problem } from "./bits";
import { Icon, type IconName } from "./icons";
import { say } from "./toast";

export interface Column<T> {
    key: string;
    title: string;
    show: (item: T) => ComponentChildren;
    // For CSV; without it, the field of that name.
    text?: (item: T) => string;
    number?: boolean;
    // Not shown until chosen.
    extra?: boolean;
    // The row's name; shown as the head of its card.
    main?: boolean;
}

export interface Filter {
    key: string;
    title: string;
    options: { value: string; text: string }[];
}

interface ListProps<T> {
    // Read out as the table's name, and the name of the CSV file.
    name: string;
    path: string;
    // Arguments that do not change.
    query?: Query;
    columns: Column<T>[];
    id: (item: T) => string;
    filters?: Filter[];
    search?: string | false;
    rowHref?: (item: T) => string;
    rowActions?: (item: T, reload: () => void) => ComponentChildren;
    empty: { icon?: IconName; title: string; text?: ComponentChildren; action?: ComponentChildren };
    actions?: ComponentChildren;
    bulk?: (chosen: T[], done: () => void) => ComponentChildren;
    // Goes up when something was changed outside the list.
    changed?: number;
    // Several lists on one screen: the words of each in the address begin with this.
    prefix?: string;
    page?: number;
    // The server gives all rows at once and takes no search.
    whole?: boolean;
    onData?: (items: T[]) => void;
}

// Which page came before which, as far as this visit knows.
const before = new Map<string, string>();

export function List<T extends object>(props: ListProps<T>): JSX.Element {
    const { columns, filters = [], prefix = "" } = props;
    const size = props.page ?? 50;
    const words = place.value.query;
    const word = (key: string): string => words[prefix + key] ?? "";
    const set = (change: Record<string, string | undefined>, replace = true): void =>
        setQuery(Object.fromEntries(Object.entries(change).map(([key, value]) => [prefix + key, value])), replace);

    const [typed, setTyped] = useState(word("filter"));
    const still = useStill(typed, 250);
    const lastSet = useRef(word("filter"));
    useEffect(() => {
        if (still === lastSet.current) return;
        lastSet.current = still;
        set({ filter: still || undefined, after: undefined });
    }, [still]);
    // "Back" changes the address under us.
    useEffect(() => {
        if (word("filter") === lastSet.current) return;
        lastSet.current = word("filter");
        setTyped(word("filter"));
    }, [words]);

    const query: Query = { ...props.query, ...(!props.whole && { limit: size }) };
    if (word("filter")) query["filter"] = word("filter");
    if (word("after")) query["after"] = word("after");
    for (const filter of filters) {
        if (word(filter.key)) query[filter.key] = word(filter.key);
    }
    const list = useData<ListPage<T>>(props.path, query);
    const { data, error, reload } = list;
    const changed = useRef(props.changed);
    useEffect(() => {
        if (changed.current !== props.changed) reload();
        changed.current = props.changed;
    }, [props.changed]);
    useEffect(() => {
        if (data) props.onData?.(data.items);
    }, [data]);

    const chosenColumns = word("columns") ? word("columns").split(" ") : undefined;
    const shown = columns.filter((column) =>
        column.main || (chosenColumns ? chosenColumns.includes(column.key) : !column.extra));
    const narrowed = Boolean(word("filter")) || filters.some((filter) => word(filter.key));

    const [chosen, setChosen] = useState<Set<string>>(new Set());
    useEffect(() => setChosen(new Set()), [data]);
    const chosenItems = data?.items.filter((item) => chosen.has(props.id(item))) ?? [];

    const next = data?.next;
    const after = word("after");
    const page = (cursor: string | undefined): void => set({ after: cursor }, false);
    const id = useId();

    return (
        <div class="list">
            <div class="toolbar">
                {props.search !== false && !props.whole && (
                    <div class="search">
                        <Icon name="search" />
                        <input type="search" aria-label={`Search ${props.name}`} value={typed} data-search
                            placeholder={props.search ?? "Search"} spellcheck={false}
                            onInput={(event) => setTyped(event.currentTarget.value)} />
                    </div>
                )}
                {filters.map((filter) => (
                    <label key={filter.key} class="filter">
                        <span class="hidden">{filter.title}</span>
                        <select value={word(filter.key)}
                            onChange={(event) => set({ [filter.key]: event.currentTarget.value || undefined, after: undefined })}>
                            <option value="">{filter.title}: all</option>
                            {filter.options.map((option) => (
                                <option key={option.value} value={option.value}
                                    selected={option.value === word(filter.key)}>{option.text}</option>
                            ))}
                        </select>
                    </label>
                ))}
                <div class="toolbar-end">
                    {columns.length > 2 && (
                        <ColumnChoice columns={columns} shown={shown.map((column) => column.key)}
                            set={(keys) => set({ columns: keys?.join(" ") })} />
                    )}
                    <CsvButton {...props} query={{ ...query, after: undefined }} />
                    {props.actions}
                </div>
            </div>
            {props.bulk && chosenItems.length > 0 && (
                <div class="bulk" role="region" aria-label="Chosen rows">
                    <span>{plural(chosenItems.length, "row")} chosen</span>
                    {props.bulk(chosenItems, reload)}
                    <button type="button" class="quiet small" onClick={() => setChosen(new Set())}>Choose none</button>
                </div>
            )}
            {error && <Problem error={error} retry={reload} />}
            {!data && list.loading && <Loading />}
            {data && data.items.length === 0 && (narrowed || after ? (
                <Empty icon="search" title="Nothing found"
                    text="No row fits the search and the filters."
                    action={<button type="button" onClick={() => {
                        setTyped("");
                        lastSet.current = "";
                        set(Object.fromEntries(["filter", "after", ...filters.map((filter) => filter.key)]
                            .map((key) => [key, undefined])));
                    }}>Show all</button>} />
            ) : (
                <Empty {...props.empty} />
            ))}
            {data && data.items.length > 0 && (
                <div class={`table-frame ${list.stale ? "is-stale" : ""}`} aria-busy={list.stale}>
                    <table role="table" class="table" aria-label={props.name}>
                        <thead role="rowgroup">
                            <tr role="row">
                                {props.bulk && (
                                    <th role="columnheader" class="choose">
                                        <input type="checkbox" aria-label="Choose all rows of this page"
                                            checked={chosenItems.length === data.items.length}
                                            onChange={(event) => setChosen(new Set(event.currentTarget.checked
                                                ? data.items.map(props.id) : []))} />
                                    </th>
                                )}
                                {shown.map((column) => (
                                    <th key={column.key} role="columnheader" scope="col"
                                        class={column.number ? "number" : ""}>{column.title}</th>
                                ))}
                                {props.rowActions && (
                                    <th role="columnheader" scope="col" class="row-actions">
                                        <span class="hidden">Actions</span>
                                    </th>
                                )}
                            </tr>
                        </thead>
                        <tbody role="rowgroup">
                            {data.items.map((item) => {
                                const key = props.id(item);
                                const href = props.rowHref?.(item);
                                return (
                                    <tr key={key} role="row" class={href ? "is-link" : ""}
                                        onClick={href ? (event) => followRow(event, href) : undefined}>
                                        {props.bulk && (
                                            <td role="cell" class="choose">
                                                <input type="checkbox" aria-label={`Choose ${key}`}
                                                    checked={chosen.has(key)}
                                                    onChange={(event) => {
                                                        const now = new Set(chosen);
                                                        if (event.currentTarget.checked) now.add(key);
                                                        else now.delete(key);
                                                        setChosen(now);
                                                    }} />
                                            </td>
                                        )}
                                        {shown.map((column) => {
                                            const value = column.show(item);
                                            const blank = value === undefined || value === null || value === "";
                                            const classes = [column.number ? "number" : "", column.main ? "main" : "",
                                                blank ? "is-blank" : ""].filter(Boolean).join(" ");
                                            return (
                                                <td key={column.key} role="cell" data-title={column.title} class={classes}>
                                                    {column.main && href ? <a href={href}>{value}</a> : value}
                                                </td>
                                            );
                                        })}
                                        {props.rowActions && (
                                            <td role="cell" class="row-actions">
                                                <div class="buttons is-end">{props.rowActions(item, reload)}</div>
                                            </td>
                                        )}
                                    </tr>
                                );
                            })}
                        </tbody>
                    </table>
                </div>
            )}
            {data && (after || next) && (
                <nav class="pager" aria-label={`Pages of ${props.name}`} id={id}>
                    <button type="button" disabled={!after}
                        onClick={() => page(before.get(`${props.path} ${after}`) || undefined)}>
                        <Icon name="left" />{after && !before.has(`${props.path} ${after}`) ? "First page" : "Previous"}
                    </button>
                    <button type="button" disabled={!next} onClick={() => {
                        before.set(`${props.path} ${next}`, after);
                        page(next);
                    }}>
                        Next<Icon name="right" />
                    </button>
                </nav>
            )}
        </div>
    );
}

// A click on a row follows its link, unless it was meant for something in it or selects text.
function followRow(event: MouseEvent, href: string): void {
    if ((event.target as HTMLElement).closest("a, button, input, label, select, summary, dialog")) return;
    if (getSelection()?.toString()) return;
    if (event.metaKey || event.ctrlKey) open(href);
    else go(href);
}

function ColumnChoice<T>({ columns, shown, set }: {
    columns: Column<T>[];
    shown: string[];
    set: (keys: string[] | undefined) => void;
}): JSX.Element {
    const element = useRef<HTMLDetailsElement>(null);
    useEffect(() => {
        const close = (event: Event): void => {
            const details = element.current;
            if (!details?.open) return;
            if (event instanceof KeyboardEvent) {
                if (event.key !== "Escape") return;
                details.querySelector("summary")?.focus();
            } else if (details.contains(event.target as Node)) {
                return;
            }
            details.open = false;
        };
        document.addEventListener("pointerdown", close);
        document.addEventListener("keydown", close);
        return () => {
            document.removeEventListener("pointerdown", close);
            document.removeEventListener("keydown", close);
        };
    }, []);
    const usual = columns.filter((column) => !column.extra).map((column) => column.key).join(" ");
    return (
        <details class="menu" ref={element}>
            <summary class="button"><Icon name="columns" /><span>Columns</span></summary>
            <fieldset class="menu-body">
                <legend class="hidden">Shown columns</legend>
                {columns.filter((column) => !column.main).map((column) => (
                    <label key={column.key}>
                        <input type="checkbox" checked={shown.includes(column.key)} onChange={(event) => {
                            const keys = columns.map((other) => other.key).filter((key) =>
                                key === column.key ? event.currentTarget.checked : shown.includes(key));
                            set(keys.join(" ") === usual ? undefined : keys);
                        }} />
                        {column.title}
                    </label>
                ))}
            </fieldset>
        </details>
    );
}

const csvRowsAtMost = 50000;

function CsvButton<T extends object>(props: ListProps<T>): JSX.Element {
    const [busy, setBusy] = useState(false);
    const save = async (): Promise<void> => {
        setBusy(true);
        try {
            const rows: T[] = [];
            let after: string | undefined;
            do {
                const page: ListPage<T> = await get(props.path, { ...props.query, ...(!props.whole && { limit: 500 }), after });
                rows.push(...page.items);
                after = page.next;
            } while (after && rows.length < csvRowsAtMost);
            const text = csvOf(props.columns.map((column) => column.key), rows.map((row) =>
                props.columns.map((column) => column.text ? column.text(row)
                    : String((row as Record<string, unknown>)[column.key] ?? ""))));
            download(`${props.name}.csv`, "text/csv", text);
            say(after ? `Saved the first ${plural(rows.length, "row")} as ${props.name}.csv; there are more.`
                : `Saved ${plural(rows.length, "row")} as ${props.name}.csv.`);
        } catch (error) {
            say(messageOf(error), true);
        } finally {
            setBusy(false);
        }
    };
    return (
        <button type="button" disabled={busy} onClick={save} title="Save what the search finds, all pages, as CSV">
            <Icon name="save" /><span>CSV</span>
        </button>
    );
}
