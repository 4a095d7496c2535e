// data.ts - asks for what a screen shows, and again when it may have changed
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, request, revision, type Query } from "./api";

export interface Loaded<T> {
    data: T | undefined;
    error: ApiError | undefined;
    loading: boolean;
    // What is shown answers an earlier question, with another search say.
    stale: boolean;
    reload: () => void;
    // Shows this until the next answer: what a change has just given.
    set: (data: T) => void;
}

// path null: nothing to ask (yet). What was shown stays until the new answer is there.
export function useData<T>(path: string | null, query?: Query): Loaded<T> {
    const [state, setState] = useState<{ data?: T; error?: ApiError; loading: boolean; of: string | null; to?: string }>({
        loading: path !== null, of: path,
    });
    const [again, setAgain] = useState(0);
    const asked = JSON.stringify(query ?? {});
    const round = revision.value;
    const seen = useRef(path);

    useEffect(() => {
        if (path === null) return;
        const abort = new AbortController();
        const other = seen.current !== path;
        seen.current = path;
        setState((now) => (other ? { loading: true, of: path } : { ...now, loading: true }));
        get<T>(path, query, abort.signal).then(
            (data) => setState({ data, loading: false, of: path, to: asked }),
            (error: unknown) => {
                if (abort.signal.aborted) return;
                if (!(error instanceof ApiError)) throw error;
                setState((now) => ({ ...now, error, loading: false }));
            },
        );
        return () => abort.abort();
    }, [path, asked, again, round]);

    const fresh = state.of === path;
    return {
        data: fresh ? state.data : undefined,
        error: fresh ? state.error : undefined,
        loading: fresh ? state.loading : path !== null,
        stale: state.data !== undefined && state.to !== asked,
        reload: () => setAgain((value) => value + 1),
        set: (data) => setState({ data, loading: false, of: path, to: asked }),
    };
}

// Asks again and again, as long as it is shown; nobody waits for it, so the bar at the top stays still.
export function useRegular<T>(path: string | null, ms: number): Loaded<T> {
    const [data, setData] = useState<T>();
    const [error, setError] = useState<ApiError>();
    const [again, setAgain] = useState(0);
    const round = revision.value;

    useEffect(() => {
        if (path === null) return;
        const abort = new AbortController();
        let timer: ReturnType<typeof setTimeout> | undefined;
        const wait = (): void => {
            timer = setTimeout(look, ms);
        };
        const look = (): void => {
            // A tab in the background asks nothing.
            if (document.hidden) return wait();
            request<T>("GET", path, { signal: abort.signal, quiet: true }).then((now) => {
                setData(now);
                setError(undefined);
                wait();
            }, (caught: unknown) => {
                if (abort.signal.aborted) return;
                if (!(caught instanceof ApiError)) throw caught;
                setError(caught);
                wait();
            });
        };
        look();
        return () => {
            abort.abort();
            clearTimeout(timer);
        };
    }, [path, ms, again, round]);

    return {
        data, error, loading: path !== null && !data && !error, stale: false, set: setData,
        reload: () => setAgain((value) => value + 1),
    };
}

// A value that follows another one only when that has been still for a while.
export function useStill<T>(value: T, ms: number): T {
    const [still, setStill] = useState(value);
    useEffect(() => {
        const timer = setTimeout(() => setStill(value), ms);
        return () => clearTimeout(timer);
    }, [value, ms]);
    return still;
}
