// figure.tsx - a small line chart, and the same as a table
import type { JSX } from "preact";
import { useId } from "preact/hooks";
import { clockTime } from "../format";

export interface Point {
    at: number;
    value: number;
}

const width = 240;
const height = 48;

export function Figure({ title, points, show }: {
    title: string;
    points: Point[];
    show: (value: number) => string;
}): JSX.Element | null {
    const id = useId();
    const last = points[points.length - 1];
    const first = points[0];
    if (!last || !first) return null;
    const top = Math.max(...points.map((point) => point.value));
    const low = Math.min(...points.map((point) => point.value));
    // A flat line stands in the middle; noise of a few per cent is not blown up to the full height.
    const floor = Math.max(0, Math.min(low, top * 0.8));
    const range = top - floor || 1;
    const x = (at: number): number => ((at - first.at) / (last.at - first.at || 1)) * width;
    const y = (value: number): number => top === floor ? height - 1.5 : height - 2 - ((value - floor) / range) * (height - 6);
    const line = points.map((point) => `${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`).join("L");
    return (
        <figure class="figure" aria-labelledby={id}>
            <figcaption id={id}>
                <span class="dim">{title}</span>
                <strong>{show(last.value)}</strong>
            </figcaption>
            <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
                <path class="area" d={`M0 ${height}L${line}L${width} ${height}Z`} />
                <path class="line" d={`M${line}`} vector-effect="non-scaling-stroke" />
            </svg>
            <details>
                <summary>As a table</summary>
                <div class="figure-table" tabIndex={0} role="region" aria-label={`${title}, as a table`}>
                    <table>
                        <thead><tr><th scope="col">Time</th><th scope="col">{title}</th></tr></thead>
                        <tbody>
                            {[...points].reverse().slice(0, 30).map((point) => (
                                <tr key={point.at}><td>{clockTime(new Date(point.at))}</td><td>{show(point.value)}</td></tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            </details>
        </figure>
    );
}
