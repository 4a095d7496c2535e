// diff.tsx - two texts as one, with what went and what came
import type { JSX } from "preact";
import { diffLines, type DiffLine } from "../diff";

const around = 3;

// Long runs of equal lines are cut to a few around each change.
function cut(lines: DiffLine[]): (DiffLine | number)[] {
    const near = lines.map(() => false);
    lines.forEach((line, i) => {
        if (line.kind === "same") return;
        for (let j = Math.max(0, i - around); j <= Math.min(lines.length - 1, i + around); j++) near[j] = true;
    });
    const shown: (DiffLine | number)[] = [];
    lines.forEach((line, i) => {
        const last = shown[shown.length - 1];
        if (near[i]) shown.push(line);
        else if (typeof last === "number") shown[shown.length - 1] = last + 1;
        else shown.push(1);
    });
    return shown;
}

const marks = { same: " ", gone: "−", new: "+" };
const spoken = { same: "", gone: "removed: ", new: "added: " };

export function Diff({ before, after, label }: { before: string; after: string; label: string }): JSX.Element {
    const lines = diffLines(before, after);
    if (!lines.some((line) => line.kind !== "same")) return <p class="dim">No difference.</p>;
    return (
        <div class="diff" role="region" aria-label={label} tabIndex={0}>
            {cut(lines).map((line, i) => typeof line === "number" ? (
                <div key={i} class="diff-line is-cut">{line === 1 ? "1 equal line" : `${line} equal lines`}</div>
            ) : (
                <div key={i} class={`diff-line is-${line.kind}`}>
                    <span class="diff-number" aria-hidden="true">{line.right ?? line.left}</span>
                    <span class="diff-mark" aria-hidden="true">{marks[line.kind]}</span>
                    <span class="diff-text"><span class="hidden">{spoken[line.kind]}</span>{line.text}</span>
                </div>
            ))}
        </div>
    );
}
