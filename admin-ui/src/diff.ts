// diff.ts - which lines went and which came, by Myers' greedy algorithm
export interface DiffLine {
    kind: "same" | "gone" | "new";
    text: string;
    left?: number;
    right?: number;
}

// Past this many changes the middle is given as one block: time and memory stay small.
const changesAtMost = 2000;

export function diffLines(before: string, after: string): DiffLine[] {
    const a = before.split("\n");
    const b = after.split("\n");
    let head = 0;
    while (head < a.length && head < b.length && a[head] === b[head]) head++;
    let tail = 0;
    while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;

    const lines: DiffLine[] = [];
    let left = 0;
    let right = 0;
    const same = (): void => {
        lines.push({ kind: "same", text: a[left]!, left: ++left, right: ++right });
    };
    const gone = (): void => {
        lines.push({ kind: "gone", text: a[left]!, left: ++left });
    };
    const fresh = (): void => {
        lines.push({ kind: "new", text: b[right]!, right: ++right });
    };
    for (let i = 0; i < head; i++) same();
    for (const step of middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail))) {
        if (step === "same") same();
        else if (step === "gone") gone();
        else fresh();
    }
    for (let i = 0; i < tail; i++) same();
    return lines;
}

function middle(a: string[], b: string[]): DiffLine["kind"][] {
    const most = Math.min(a.length + b.length, changesAtMost);
    const trace: Int32Array[] = [];
    const reach = new Int32Array(2 * most + 3);
    const zero = most + 1;
    for (let d = 0; d <= most; d++) {
        trace.push(reach.slice());
        for (let k = -d; k <= d; k += 2) {
            let x = k === -d || (k !== d && reach[zero + k - 1]! < reach[zero + k + 1]!)
                ? reach[zero + k + 1]! : reach[zero + k - 1]! + 1;
            while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
            reach[zero + k] = x;
            if (x >= a.length && x - k >= b.length) return walkBack(trace, a.length, b.length, zero);
        }
    }
    return [...a.map((): "gone" => "gone"), ...b.map((): "new" => "new")];
}

function walkBack(trace: Int32Array[], endX: number, endY: number, zero: number): DiffLine["kind"][] {
    const steps: DiffLine["kind"][] = [];
    let x = endX;
    let y = endY;
    for (let d = trace.length - 1; d >= 0; d--) {
        const reach = trace[d]!;
        const k = x - y;
        const from = k === -d || (k !== d && reach[zero + k - 1]! < reach[zero + k + 1]!) ? k + 1 : k - 1;
        const startX = d === 0 ? 0 : reach[zero + from]!;
        const startY = d === 0 ? 0 : startX - from;
        while (x > startX && y > startY) {
            steps.push("same");
            x--;
            y--;
        }
        if (d > 0) {
            steps.push(x > startX ? "gone" : "new");
            x = startX;
            y = startY;
        }
    }
    return steps.reverse();
}
