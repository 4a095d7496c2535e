// adopt-styles.ts - lets CodeMirror style itself under "style-src 'self'"
//
// style-mod writes its rules into a <style> element, which the policy forbids without a nonce. A sheet made
// by script and adopted by the document is allowed, so mounting is done that way; nothing else of it changes.
import { StyleModule } from "style-mod";

const sheets = new WeakMap<Document | ShadowRoot, { sheet: CSSStyleSheet; modules: StyleModule[] }>();

export function adoptStyles(): void {
    StyleModule.mount = (root: Document | ShadowRoot | DocumentOrShadowRoot, given: StyleModule | readonly StyleModule[]) => {
        const where = root as Document | ShadowRoot;
        let kept = sheets.get(where);
        if (!kept) {
            kept = { sheet: new CSSStyleSheet(), modules: [] };
            sheets.set(where, kept);
            where.adoptedStyleSheets = [kept.sheet, ...where.adoptedStyleSheets];
        }
        const modules: readonly StyleModule[] = Array.isArray(given) ? given as StyleModule[] : [given as StyleModule];
        // Later ones win; those of an earlier call stay in front.
        kept.modules = [...kept.modules.filter((module) => !modules.includes(module)), ...modules];
        kept.sheet.replaceSync(kept.modules.map((module) => module.getRules()).join("\n"));
    };
}
