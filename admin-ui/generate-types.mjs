// generate-types.mjs - openapi.json, as the server gives it, to src/api-types.ts
//
//   node generate-types.mjs [--check]       --check only says whether the types are those of the document
//
// openapi.json is the answer of GET /api/v1/openapi.json; tests/ui/openapi.t says when it is out of date.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const document = JSON.parse(readFileSync(join(here, "openapi.json"), "utf8"));

const names = { string: "string", integer: "number", number: "number", boolean: "boolean" };

function typeOf(schema) {
    if (schema.enum) return schema.enum.map((word) => JSON.stringify(word)).join(" | ");
    if (schema.type === "object") return fieldsOf(schema, "    ");
    if (schema.type === "array") return `${typeOf(schema.items)}[]`;
    return names[schema.type] ?? "unknown";
}

function fieldsOf(schema, indent) {
    const fields = Object.entries(schema.properties ?? {}).map(([name, field]) => {
        const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
        const help = field.description ? `${indent}    /** ${field.description.replaceAll("*/", "* /")} */\n` : "";
        return `${help}${indent}    ${key}?: ${typeOf(field)};\n`;
    });
    return `{\n${fields.join("")}${indent}}`;
}

const items = [];
const answers = [];
for (const path of Object.values(document.paths)) {
    for (const operation of Object.values(path)) {
        const schema = operation.responses?.["200"]?.content?.["application/json"]?.schema;
        if (!schema) continue;
        const rows = schema.properties?.items?.items;
        const named = JSON.stringify(operation.operationId);
        const { items: _, next, ...fields } = schema.properties ?? {};
        if (rows) items.push([named, fieldsOf(rows, "    ")]);
        if (!rows || Object.keys(fields).length > 0) {
            answers.push([named, fieldsOf(rows ? { properties: fields } : schema, "    ")]);
        }
    }
}

const section = (name, comment, list) =>
    `// ${comment}\nexport interface ${name} {\n` +
    list.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, type]) => `    ${key}: ${type};\n`).join("") + "}\n";
const text = `// api-types.ts - made by generate-types.mjs from openapi.json; not to be edited\n\n` +
    section("Items", "What the items of a list have, by action.", items) + "\n" +
    section("Answers", "What actions answer beside items.", answers);

const file = join(here, "src/api-types.ts");
if (process.argv.includes("--check")) {
    if (readFileSync(file, "utf8") !== text) {
        console.error("src/api-types.ts is not what openapi.json says: run `node generate-types.mjs`");
        process.exit(1);
    }
} else {
    writeFileSync(file, text);
}
