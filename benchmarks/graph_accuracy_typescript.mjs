// What the TypeScript compiler answers at the calls, names, imports and bases of a package.
//
//     node graph_accuracy_typescript.mjs TYPESCRIPT ROOT < files.json > answers.json
//
// TYPESCRIPT is the folder of the npm package "typescript", ROOT the package's; files.json lists
// paths in it. An answer is [kind, path, definition around, line, name, [[path, definition]…], outside,
// whether all are variables].
// Definitions are read from the compiler's own tree, and named by the rules of the code graph.

import { createRequire } from "node:module";
import { readFileSync, existsSync } from "node:fs";
import { join, relative, resolve } from "node:path";

const [typescript, rootArgument] = process.argv.slice(2);
const ts = createRequire(import.meta.url)(resolve(typescript));
const root = resolve(rootArgument);
const files = JSON.parse(readFileSync(0, "utf8"));
const K = ts.SyntaxKind;

const options = {
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  jsx: ts.JsxEmit.Preserve,
  allowJs: true,
  noEmit: true,
  strict: true,
  esModuleInterop: true,
  skipLibCheck: true,
  experimentalDecorators: true,
  maxNodeModuleJsDepth: 0,
  customConditions: ["source", "@zod/source"],
  typeRoots: [join(resolve(typescript), "..", "@types")],
  types: ["node"],
  ...aliases(),
};
const program = ts.createProgram(files.map((file) => join(root, file)), options);
const checker = program.getTypeChecker();
const inProject = new Set(files);

// What tsconfig.json says; without one, a package's own name means its sources, not what is built of them.
function aliases() {
  const path = join(root, "tsconfig.json");
  if (!existsSync(path)) {
    const name = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).name;
    const folder = join(root, files[0].split("/")[0]);
    return { paths: { [name]: [join(folder, "index")], [`${name}/*`]: [join(folder, "*")] } };
  }
  const read = ts.readConfigFile(path, ts.sys.readFile).config ?? {};
  const parsed = ts.parseJsonConfigFileContent({ ...read, files: [] }, ts.sys, root).options;
  return { baseUrl: parsed.baseUrl, paths: parsed.paths, pathsBasePath: parsed.pathsBasePath };
}

const pathOf = (file) => relative(root, file.fileName).replaceAll("\\", "/");
const isFunction = (node) => !!node && (ts.isArrowFunction(node) || ts.isFunctionExpression(node));
const isAssigned = (node) =>
  ts.isBinaryExpression(node) &&
  node.operatorToken.kind === K.EqualsToken &&
  ts.isPropertyAccessExpression(node.left) &&
  isFunction(node.right);

function plain(text) {
  const name = text.split(/\s+/).join(" ").replace(/^["'`]+|["'`]+$/g, "").slice(0, 80);
  if (!name.startsWith("[")) return name.replace(/[.()[\]]/g, "_");
  const inner = name.replace(/^\[+|\]+$/g, "");
  return "@@" + inner.slice(inner.lastIndexOf(".") + 1).replace(/^["'`]+|["'`]+$/g, "").replace(/[.()[\]]/g, "_");
}

// What a node defines: "type", "function" (with a scope of its own), "variable", or nothing.
function kindOf(node) {
  switch (node.kind) {
    case K.ClassDeclaration:
    case K.InterfaceDeclaration:
    case K.TypeAliasDeclaration:
    case K.EnumDeclaration:
      return "type";
    case K.ModuleDeclaration:
      return node.flags & ts.NodeFlags.GlobalAugmentation ? null : "type";
    case K.FunctionDeclaration:
    case K.MethodDeclaration:
    case K.MethodSignature:
    case K.Constructor:
    case K.GetAccessor:
    case K.SetAccessor:
      return "function";
    case K.PropertyDeclaration:
      return isFunction(node.initializer) ? "function" : "variable";
    case K.PropertyAssignment:
      return isFunction(node.initializer) ? "function" : null;
    case K.PropertySignature:
      return isDirect(node) ? "variable" : null;
    case K.EnumMember:
      return "variable";
    case K.Parameter:
      return ts.isParameterPropertyDeclaration(node, node.parent) ? "variable" : null;
    case K.VariableDeclaration:
      if (isFunction(node.initializer)) return "function";
      if (node.initializer && ts.isClassExpression(node.initializer)) return "type";
      return isGlobal(node) || holdsFunctions(node.initializer) ? "variable" : null;
    case K.BindingElement:
      return isGlobal(node) ? "variable" : null;
    case K.BinaryExpression:
      return isAssigned(node) ? "function" : null;
    case K.ExportAssignment:
      return isFunction(node.expression) || ts.isClassExpression(node.expression) ? "function" : null;
    default:
      return null;
  }
}

function isDirect(node) {
  let around = node.parent;
  if (ts.isInterfaceDeclaration(around)) return true;
  if (!ts.isTypeLiteralNode(around)) return false;
  around = around.parent;
  if (ts.isIntersectionTypeNode(around)) around = around.parent;
  return ts.isTypeAliasDeclaration(around);
}

function isGlobal(node) {
  while (ts.isBindingElement(node) || ts.isObjectBindingPattern(node) || ts.isArrayBindingPattern(node)) node = node.parent;
  const statement = node.parent?.parent;
  return !!statement && ts.isVariableStatement(statement) && (ts.isSourceFile(statement.parent) || ts.isModuleBlock(statement.parent));
}

function bare(node) {
  while (node && (ts.isParenthesizedExpression(node) || ts.isAwaitExpression(node) || ts.isNonNullExpression(node))) node = node.expression;
  return node;
}

function holdsFunctions(node) {
  node = bare(node);
  return !!node && ts.isObjectLiteralExpression(node) && node.properties.some((each) => kindOf(each) === "function");
}

const named = new Map();
function nameOf(node) {
  if (!named.has(node)) named.set(node, qualified(node).filter(Boolean).join("."));
  return named.get(node);
}

function qualified(node) {
  const around = enclosing(node);
  const outer = around ? nameOf(around) : "";
  if (isAssigned(node)) return assigned(node, around, outer);
  if (ts.isParameter(node)) return [outer.slice(0, Math.max(0, outer.lastIndexOf("."))), plain(node.name.getText())];
  return [outer, ...holders(node), simpleName(node)];
}

function simpleName(node) {
  if (ts.isConstructorDeclaration(node)) return "constructor";
  if (ts.isExportAssignment(node) || !node.name) return "default";
  return ts.isModuleDeclaration(node) ? plain(node.name.getText()) : plain(node.name.getText());
}

const NOT_OWNERS = new Set(["prototype", "exports", "module", "this", "window", "self", "globalThis"]);

function assigned(node, around, outer) {
  const parts = node.left.getText().split(".");
  const name = plain(parts.pop());
  if (node.left.expression.kind === K.ThisKeyword) {
    const owner = around ? enclosing(around) : undefined;
    return [owner && ts.isClassLike(definedClass(owner)) ? nameOf(owner) : outer, name];
  }
  const owners = parts.filter((part) => !NOT_OWNERS.has(part));
  return [outer, owners.length ? plain(owners.at(-1)) : "", name];
}

const definedClass = (node) => (ts.isVariableDeclaration(node) ? node.initializer : node);

const PASSED = new Set([
  K.ObjectLiteralExpression, K.CallExpression, K.NewExpression, K.AsExpression, K.SatisfiesExpression,
  K.ArrayLiteralExpression, K.ParenthesizedExpression, K.NonNullExpression, K.AwaitExpression, K.ConditionalExpression,
]);

// The names of what holds a function of an object literal, outermost first.
function holders(node) {
  if (!node.parent || !ts.isObjectLiteralExpression(node.parent)) return [];
  const found = [];
  for (let each = node.parent.parent; each; each = each.parent) {
    if (PASSED.has(each.kind)) continue;
    if (ts.isPropertyAssignment(each)) found.push(plain(each.name.getText()));
    else if (ts.isVariableDeclaration(each)) {
      if (ts.isIdentifier(each.name)) found.push(plain(each.name.text));
      break;
    } else if (ts.isPropertyDeclaration(each)) {
      found.push(plain(each.name.getText()));
      break;
    } else if (ts.isExportAssignment(each)) {
      found.push("default");
      break;
    } else if (ts.isBinaryExpression(each) && each.operatorToken.kind === K.EqualsToken) {
      const words = (each.left.getText().slice(0, 200).match(/[\p{L}_$][\w$]*/gu) ?? []).filter((word) => !NOT_OWNERS.has(word));
      if (words.length) found.push(plain(words.at(-1)));
      break;
    } else break;
  }
  return found.reverse();
}

// The innermost definition around a node that has a scope of its own.
function enclosing(node) {
  let inner = node;
  for (let each = node.parent; each; inner = each, each = each.parent) {
    const kind = kindOf(each);
    if (ts.isDecorator(inner)) continue;
    if ((kind === "function" || kind === "type") && !ts.isExportAssignment(each)) return each;
    if (kind && ts.isExportAssignment(each)) return each;
  }
  return undefined;
}

const scopeOf = (node) => {
  const around = enclosing(node);
  return around ? nameOf(around) : "";
};

function definitionOf(declaration) {
  if (ts.isSourceFile(declaration)) return [declaration, ""];
  for (let node = declaration, steps = 0; node && steps < 4; node = node.parent, steps++) {
    const kind = kindOf(node);
    if (kind) return [node.getSourceFile(), nameOf(node), kind];
    const goesOn = isFunction(node) || ts.isClassExpression(node) || ts.isPropertyAccessExpression(node);
    if (!goesOn) return null;
  }
  return null;
}

function answer(symbol) {
  if (symbol && symbol.flags & ts.SymbolFlags.Alias) symbol = checker.getAliasedSymbol(symbol);
  const inside = new Map();
  let outside = false;
  let kinds = new Set();
  for (const declaration of symbol?.declarations ?? []) {
    const path = pathOf(declaration.getSourceFile());
    if (!inProject.has(path)) outside = true;
    else {
      const found = isLocal(symbol, declaration) ? null : definitionOf(declaration);
      if (found) {
        inside.set(`${path}\n${found[1]}`, [path, found[1]]);
        kinds.add(found[2]);
      }
    }
  }
  return { inside: [...inside.values()], outside: outside && !inside.size, onlyVariables: kinds.size === 1 && kinds.has("variable") };
}

// A constructor's parameter that declares a field is still a parameter where its name stands alone.
const isLocal = (symbol, declaration) => ts.isParameter(declaration) && !(symbol.flags & ts.SymbolFlags.Property);

const answers = [];
function site(kind, scope, node, name, found, start = node) {
  const file = node.getSourceFile();
  const line = file.getLineAndCharacterOfPosition(start.getStart()).line + 1;
  answers.push([kind, pathOf(file), scope, line, plain(name), found.inside, found.outside, !!found.onlyVariables]);
}

function nameNode(node) {
  node = bare(node);
  while (node && (ts.isAsExpression(node) || ts.isSatisfiesExpression(node) || ts.isTypeAssertionExpression?.(node))) node = bare(node.expression);
  if (!node) return null;
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === K.CommaToken) return nameNode(node.right);
  if (ts.isPropertyAccessExpression(node)) return node.name;
  if (ts.isIdentifier(node)) return node;
  if (node.kind === K.SuperKeyword) return node;
  return null;
}

const called = new Set();
function call(node, callee) {
  const name = nameNode(callee);
  if (!name) return;
  called.add(name);
  const found = answer(checker.getSymbolAtLocation(name));
  site("calls", scopeOf(node), name, name.getText(), found, callee);
}

function fileOf(specifier) {
  const symbol = checker.getSymbolAtLocation(specifier);
  const file = symbol?.declarations?.find(ts.isSourceFile);
  const found = file ?? resolved(specifier);
  if (!found) return { inside: [], outside: !specifier.text.startsWith(".") };
  const path = pathOf(found);
  return inProject.has(path) ? { inside: [[path, ""]], outside: false } : { inside: [], outside: true };
}

function resolved(specifier) {
  const found = ts.resolveModuleName(specifier.text, specifier.getSourceFile().fileName, options, ts.sys).resolvedModule;
  return found && program.getSourceFile(found.resolvedFileName);
}

function imported(node, specifier) {
  if (!specifier || !ts.isStringLiteralLike(specifier)) return;
  site("imports", scopeOf(node), specifier, specifier.text, fileOf(specifier), node);
  const clause = node.importClause;
  if (clause?.name) site("imports", scopeOf(node), clause.name, clause.name.text, answer(checker.getSymbolAtLocation(clause.name)), node);
  const bindings = clause?.namedBindings ?? node.exportClause;
  if (!bindings || !(ts.isNamedImports(bindings) || ts.isNamedExports(bindings))) return;
  for (const each of bindings.elements) {
    const symbol = checker.getSymbolAtLocation(each.name);
    site("imports", scopeOf(node), each, each.name.text, answer(symbol));
  }
}

function isRequire(node) {
  return !!node && ts.isCallExpression(node) && ts.isIdentifier(node.expression) && node.expression.text === "require";
}

// const a = require("./m"), const { b } = require("./m")
function required(node) {
  const names = ts.isIdentifier(node.name) ? [node.name] : (node.name.elements ?? []).map((each) => each.name);
  for (const name of names.filter(ts.isIdentifier)) {
    site("imports", scopeOf(node), name, name.text, answer(checker.getSymbolAtLocation(name)), node);
  }
}

function heritage(node) {
  const scope = scopeOf(node.types[0] ?? node);
  for (const each of node.types) {
    const name = nameNode(each.expression);
    if (!name) continue;
    called.add(name);
    site("extends", scope, name, name.getText(), answer(checker.getSymbolAtLocation(name)), each);
  }
}

function reference(node) {
  const parent = node.parent;
  if (called.has(node) || parent.name === node && !ts.isPropertyAccessExpression(parent) && !ts.isShorthandPropertyAssignment(parent)) return;
  if (ts.isBindingElement(parent) && parent.propertyName === node) return;
  if (ts.isPropertyAssignment(parent) && parent.name === node) return;
  if (ts.isLabeledStatement(parent) || ts.isBreakOrContinueStatement(parent) || ts.isJsxAttribute(parent)) return;
  if (ts.isTypePredicateNode(parent) && parent.parameterName === node) return;
  if (ts.isMetaProperty(parent) || ts.isNamespaceExport(parent)) return;
  if (ts.isJsxClosingElement(parent) || ts.isTypeParameterDeclaration(parent)) return;
  if ((ts.isJsxOpeningElement(parent) || ts.isJsxSelfClosingElement(parent)) && parent.tagName === node) return;
  const written = ts.isPropertyAccessExpression(parent) ? parent.parent : null;
  if (written && isAssigned(written) && written.left === parent) return;
  const symbol = ts.isShorthandPropertyAssignment(parent)
    ? checker.getShorthandAssignmentValueSymbol(parent)
    : checker.getSymbolAtLocation(node);
  const found = answer(symbol);
  found.inside = found.inside.filter(([, name]) => name); // a namespace import: its file is imported
  const start = ts.isPropertyAccessExpression(parent) || ts.isQualifiedName(parent) ? parent : node;
  site("references", scopeOf(node), node, node.text, found, start);
}

function visit(node) {
  if (ts.isImportDeclaration(node)) return imported(node, node.moduleSpecifier);
  if (ts.isExportDeclaration(node)) return imported(node, node.moduleSpecifier);
  if (ts.isImportEqualsDeclaration(node)) {
    if (ts.isExternalModuleReference(node.moduleReference)) imported(node, node.moduleReference.expression);
    return;
  }
  if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) imported(node, node.argument.literal);
  if (ts.isCallExpression(node)) {
    const first = node.arguments[0];
    const loads = node.expression.kind === K.ImportKeyword || (ts.isIdentifier(node.expression) && node.expression.text === "require" && node.arguments.length === 1);
    if (loads && first && ts.isStringLiteralLike(first)) {
      site("imports", scopeOf(node), first, first.text, fileOf(first), node);
      called.add(node.expression);
    } else call(node, node.expression);
  } else if (ts.isVariableDeclaration(node) && node.initializer && isRequire(node.initializer.expression && ts.isPropertyAccessExpression(node.initializer) ? node.initializer.expression : node.initializer)) required(node);
  else if (ts.isNewExpression(node)) call(node, node.expression);
  else if (ts.isTaggedTemplateExpression(node)) call(node, node.tag);
  else if (ts.isDecorator(node) && !ts.isCallExpression(node.expression)) call(node, node.expression);
  else if (ts.isJsxOpeningElement(node) || ts.isJsxSelfClosingElement(node)) {
    const tag = node.tagName.getText();
    if (tag.includes(".") || !/^[a-z]/.test(tag)) call(node, node.tagName);
  } else if (ts.isHeritageClause(node)) heritage(node);
  else if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) reference(node);
  ts.forEachChild(node, visit);
}

for (const file of files) {
  const source = program.getSourceFile(join(root, file));
  if (source) visit(source);
}
process.stdout.write(JSON.stringify(answers));
