// SPDX-License-Identifier: Apache-2.0
//
// Manifests on standard input against what Kubernetes knows: values by its schemas, and names of
// fields by its types, for the API server drops or refuses a field that it does not know, and a typing
// error would be a setting that is not there. Prints them as JSON; exit status 1 with a line on
// standard error for each fault.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { dirname, join } from "node:path";
import ts from "typescript";
import { parseAllDocuments } from "yaml";

const here = dirname(fileURLToPath(import.meta.url));
const faults = [];
const objects = [];
const lines = [];

for (const document of parseAllDocuments(readFileSync(0, "utf8"))) {
  const object = document.toJS();
  // Long secrets are folded; the API server reads over the ends of lines, the schema does not.
  for (const key of Object.keys(object.kind === "Secret" ? object.data ?? {} : {}))
    object.data[key] = object.data[key].replaceAll("\n", "");
  objects.push(object);
  const name = `${object.kind} ${object.metadata?.name}`;
  const version = object.apiVersion.includes("/") ? object.apiVersion : `v1`;
  const module = `kubernetes-models/${version}/${object.kind}`;
  let Model;
  try {
    Model = (await import(module))[object.kind];
  } catch (error) {
    faults.push(`${name}: Kubernetes has no ${object.kind} in ${object.apiVersion}`);
    continue;
  }
  try {
    new Model(object).validate();
  } catch (error) {
    faults.push(`${name}: ${error.message}`);
  }
  lines.push(`import type { I${object.kind} as T${lines.length} } from "${module}";
export const m${lines.length}: T${lines.length} = ${JSON.stringify(object)};`);
}

// The types know all names; a literal with one more is an error of the compiler.
const path = join(here, "manifests.ts");
const options = {
  noEmit: true, strict: true, skipLibCheck: true, types: [],
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
};
const host = ts.createCompilerHost(options);
const read = host.getSourceFile;
host.getSourceFile = (file, ...rest) =>
  file === path ? ts.createSourceFile(file, lines.join("\n"), ts.ScriptTarget.ESNext) : read(file, ...rest);
host.fileExists = ((exists) => (file) => file === path || exists(file))(host.fileExists);
for (const found of ts.getPreEmitDiagnostics(ts.createProgram([path], options, host)))
  faults.push(ts.flattenDiagnosticMessageText(found.messageText, " "));

if (lines.length === 0) faults.push("no manifest on standard input");
for (const fault of faults) console.error(fault);
console.log(JSON.stringify(objects));
process.exitCode = faults.length > 0 ? 1 : 0;
