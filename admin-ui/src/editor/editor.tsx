// editor.tsx - CodeMirror for Lua, checked by the server while one types; loaded only where it is shown
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import {
    bracketMatching, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting,
} from "@codemirror/language";
import { lua } from "@codemirror/legacy-modes/mode/lua";
import { type Diagnostic, linter, lintGutter, lintKeymap } from "@codemirror/lint";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { EditorState } from "@codemirror/state";
import {
    drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { adoptStyles } from "./adopt-styles";

adoptStyles();

const colours = HighlightStyle.define([
    { tag: [tags.keyword, tags.controlKeyword], color: "var(--code-keyword)" },
    { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
    { tag: tags.comment, color: "var(--code-comment)", fontStyle: "italic" },
    { tag: [tags.number, tags.bool, tags.atom], color: "var(--code-number)" },
    { tag: [tags.standard(tags.name), tags.standard(tags.variableName)], color: "var(--code-builtin)" },
]);

const look = EditorView.theme({
    "&": { backgroundColor: "var(--field)", color: "var(--text)", fontSize: "13.5px", height: "100%" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
    ".cm-content": { padding: "10px 0", caretColor: "var(--text)" },
    ".cm-cursor": { borderLeftColor: "var(--text)" },
    ".cm-gutters": { backgroundColor: "var(--field)", color: "var(--dim)", border: "none" },
    ".cm-activeLine": { backgroundColor: "var(--line-active)" },
    ".cm-activeLineGutter": { backgroundColor: "var(--line-active)", color: "var(--text)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
        backgroundColor: "var(--selection)",
    },
    ".cm-matchingBracket": { backgroundColor: "var(--selection)", outline: "1px solid var(--border-strong)" },
    ".cm-panels": { backgroundColor: "var(--surface-2)", color: "var(--text)", borderColor: "var(--border)" },
    ".cm-textfield": { backgroundColor: "var(--field)", color: "var(--text)", border: "1px solid var(--border-strong)" },
    ".cm-button": { backgroundImage: "none", backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--border-strong)" },
    ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--border-strong)", borderRadius: "6px" },
    ".cm-diagnostic": { padding: "6px 10px" },
    ".cm-searchMatch": { backgroundColor: "var(--warn-soft)" },
});

export interface Finding {
    line: number;
    message: string;
}

interface EditorProps {
    // What it begins with; from then on the text is the editor's.
    text: string;
    // Put in place of the text, once for each new object.
    replace: { text: string } | undefined;
    onChange: (text: string) => void;
    onSave: () => void;
    // Asked when the text has been still for half a second.
    check: (text: string) => Promise<Finding[]>;
    label: string;
    // Goes to this line, once for each new object.
    goTo: { line: number } | undefined;
}

export default function Editor(props: EditorProps): JSX.Element {
    const place = useRef<HTMLDivElement>(null);
    const view = useRef<EditorView | undefined>(undefined);
    const now = useRef(props);
    now.current = props;

    useEffect(() => {
        const made = new EditorView({
            parent: place.current!,
            state: EditorState.create({
                doc: now.current.text,
                extensions: [
                    lineNumbers(), highlightActiveLineGutter(), highlightActiveLine(), drawSelection(), history(),
                    bracketMatching(), indentOnInput(), indentUnit.of("    "), EditorState.tabSize.of(4),
                    StreamLanguage.define(lua), syntaxHighlighting(colours), search({ top: true }),
                    highlightSelectionMatches(), look,
                    EditorView.contentAttributes.of({ "aria-label": now.current.label, tabindex: "0" }),
                    EditorView.updateListener.of((update) => {
                        if (update.docChanged) now.current.onChange(update.state.doc.toString());
                    }),
                    lintGutter(),
                    linter(async (editor): Promise<Diagnostic[]> => {
                        const { doc } = editor.state;
                        const findings = await now.current.check(doc.toString());
                        return findings.map(({ line, message }) => {
                            const at = doc.line(Math.min(Math.max(line, 1), doc.lines));
                            return { from: at.from, to: at.to, severity: "error", message };
                        });
                    }, { delay: 500 }),
                    keymap.of([
                        { key: "Mod-s", preventDefault: true, run: () => {
                            now.current.onSave();
                            return true;
                        } },
                        // Escape, then Tab, leaves the editor by keyboard (CodeMirror's own convention).
                        indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap, ...lintKeymap,
                    ]),
                ],
            }),
        });
        view.current = made;
        return () => made.destroy();
    }, []);

    useEffect(() => {
        const editor = view.current;
        if (!editor || !props.replace) return;
        editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: props.replace.text } });
    }, [props.replace]);

    useEffect(() => {
        const editor = view.current;
        if (!editor || !props.goTo) return;
        const { doc } = editor.state;
        const at = doc.line(Math.min(Math.max(props.goTo.line, 1), doc.lines));
        editor.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
        editor.focus();
    }, [props.goTo]);

    return <div class="editor" ref={place} />;
}
