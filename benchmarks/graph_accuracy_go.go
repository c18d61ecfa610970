// What Go's type checker says of every use in a module.
//
// go run graph_accuracy_go.go FOLDER prints, separated by tabs: kind, file, definition it stands in,
// line, name, file of the target, its definition. The last two are "-" for a target elsewhere and for
// local variables, and "?" where the checker knows none. Tests are left out.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

var (
	fset = token.NewFileSet()
	root string
	out  = bufio.NewWriter(os.Stdout)
	// Where things are defined is known from positions: "file:offset" to a name within the file.
	defined = map[string]string{}
)

type unit struct {
	files []*ast.File
	info  *types.Info
}

func main() {
	root, _ = filepath.EvalSymlinks(os.Args[1])
	defer out.Flush()
	var units []unit
	source := importer.ForCompiler(fset, "source", nil)
	for _, folder := range folders() {
		found, err := build.ImportDir(folder, 0)
		if err != nil {
			continue
		}
		var files []*ast.File
		for _, name := range append(found.GoFiles, found.CgoFiles...) {
			file, err := parser.ParseFile(fset, filepath.Join(folder, name), nil, parser.ParseComments)
			if err == nil {
				files = append(files, file)
			}
		}
		info := &types.Info{
			Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
			Instances: map[*ast.Ident]types.Instance{},
		}
		config := types.Config{Importer: source, Error: func(error) {}, FakeImportC: true}
		config.Check(found.ImportPath, fset, files, info)
		units = append(units, unit{files, info})
	}
	for _, each := range units {
		for _, file := range each.files {
			define(file)
		}
	}
	for _, each := range units {
		for _, file := range each.files {
			tell(file, each.info)
		}
	}
}

func folders() []string {
	var found []string
	filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.IsDir() {
			name := info.Name()
			if path != root && (name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return filepath.SkipDir
			}
			found = append(found, path)
		}
		return nil
	})
	sort.Strings(found)
	return found
}

func at(pos token.Pos) string {
	position := fset.Position(pos)
	return fmt.Sprintf("%s:%d", position.Filename, position.Offset)
}

func relative(file string) string {
	path, err := filepath.Rel(root, file)
	if err != nil || strings.HasPrefix(path, "..") {
		return ""
	}
	return filepath.ToSlash(path)
}

// receiver is "Store" of "func (s *Store) Get()".
func receiver(declared *ast.FuncDecl) string {
	if declared.Recv == nil || len(declared.Recv.List) == 0 {
		return ""
	}
	return base(declared.Recv.List[0].Type)
}

func base(kind ast.Expr) string {
	switch each := kind.(type) {
	case *ast.StarExpr:
		return base(each.X)
	case *ast.ParenExpr:
		return base(each.X)
	case *ast.IndexExpr:
		return base(each.X)
	case *ast.IndexListExpr:
		return base(each.X)
	case *ast.SelectorExpr:
		return each.Sel.Name
	case *ast.Ident:
		return each.Name
	}
	return ""
}

func named(scope string, name string) string {
	if scope == "" {
		return name
	}
	return scope + "." + name
}

func define(file *ast.File) {
	for _, each := range file.Decls {
		switch declared := each.(type) {
		case *ast.FuncDecl:
			name := named(receiver(declared), declared.Name.Name)
			defined[at(declared.Name.Pos())] = name
			defineTypes(declared.Body, name)
		case *ast.GenDecl:
			for _, spec := range declared.Specs {
				defineSpec(spec, "")
			}
		}
	}
}

func defineTypes(body *ast.BlockStmt, scope string) {
	if body == nil {
		return
	}
	ast.Inspect(body, func(node ast.Node) bool {
		if spec, ok := node.(*ast.TypeSpec); ok {
			defineSpec(spec, scope)
		}
		return true
	})
}

func defineSpec(spec ast.Spec, scope string) {
	switch each := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range each.Names {
			defined[at(name.Pos())] = name.Name
		}
	case *ast.TypeSpec:
		name := named(scope, each.Name.Name)
		defined[at(each.Name.Pos())] = name
		var fields *ast.FieldList
		switch kind := each.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		}
		if fields == nil {
			return
		}
		for _, field := range fields.List {
			for _, one := range field.Names {
				defined[at(one.Pos())] = named(name, one.Name)
			}
			if len(field.Names) == 0 {
				if position := embeddedAt(field.Type); position.IsValid() {
					if _, taken := defined[at(position)]; !taken {
						defined[at(position)] = named(name, base(field.Type))
					}
				}
			}
		}
	}
}

func embeddedAt(kind ast.Expr) token.Pos {
	switch each := kind.(type) {
	case *ast.StarExpr:
		return embeddedAt(each.X)
	case *ast.IndexExpr:
		return embeddedAt(each.X)
	case *ast.SelectorExpr:
		return each.Sel.Pos()
	case *ast.Ident:
		return each.Pos()
	}
	return token.NoPos
}

type uses struct {
	info  *types.Info
	file  string
	scope string
	told  map[ast.Node]bool
}

func tell(file *ast.File, info *types.Info) {
	path := relative(fset.Position(file.Pos()).Filename)
	fmt.Fprintf(out, "file\t%s\t\t1\t\t-\t-\n", path)
	for _, each := range file.Imports {
		importOf(each, info, path)
	}
	for _, each := range file.Decls {
		switch declared := each.(type) {
		case *ast.FuncDecl:
			walk(declared, &uses{info, path, named(receiver(declared), declared.Name.Name), map[ast.Node]bool{}})
		case *ast.GenDecl:
			if declared.Tok != token.IMPORT {
				walk(declared, &uses{info, path, "", map[ast.Node]bool{}})
			}
		}
	}
}

// importOf tells the folder of an imported package.
func importOf(spec *ast.ImportSpec, info *types.Info, path string) {
	name := strings.Trim(spec.Path.Value, "\"`")
	folder, _ := filepath.Split(fset.Position(spec.Pos()).Filename)
	found, err := build.Import(name, folder, build.FindOnly)
	line := fset.Position(spec.Path.Pos()).Line
	where, what := "-", "-"
	if err == nil {
		if inside := relative(found.Dir); inside != "" {
			where, what = inside, ""
		}
	}
	fmt.Fprintf(out, "imports\t%s\t\t%d\t%s\t%s\t%s\n", path, line, name, where, what)
}

func walk(node ast.Node, in *uses) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch each := node.(type) {
		case *ast.TypeSpec:
			before := in.scope
			in.scope = named(before, each.Name.Name)
			in.typed(each)
			if each.TypeParams != nil {
				walk(each.TypeParams, in)
			}
			walk(each.Type, in)
			in.scope = before
			return false
		case *ast.InterfaceType:
			before := in.scope
			for _, field := range each.Methods.List {
				in.scope = before
				if _, isMethod := field.Type.(*ast.FuncType); isMethod && len(field.Names) > 0 {
					in.scope = named(before, field.Names[0].Name)
				}
				walk(field, in)
			}
			in.scope = before
			return false
		case *ast.CallExpr:
			in.call(each)
		case *ast.Ident:
			if !in.told[each] {
				in.say("references", each)
			}
		}
		return true
	})
}

func (in *uses) typed(spec *ast.TypeSpec) {
	var fields *ast.FieldList
	switch kind := spec.Type.(type) {
	case *ast.StructType:
		fields = kind.Fields
	case *ast.InterfaceType:
		fields = kind.Methods
	}
	if fields == nil {
		return
	}
	for _, field := range fields.List {
		if len(field.Names) > 0 {
			continue
		}
		if name := lastName(field.Type); name != nil {
			in.told[name] = true
			in.say("extends", name)
		}
	}
}

func (in *uses) call(call *ast.CallExpr) {
	if kind, ok := in.info.Types[call.Fun]; ok && kind.IsType() {
		return
	}
	if name := lastName(call.Fun); name != nil {
		in.told[name] = true
		in.say("calls", name)
	}
}

func lastName(kind ast.Expr) *ast.Ident {
	switch each := kind.(type) {
	case *ast.StarExpr:
		return lastName(each.X)
	case *ast.ParenExpr:
		return lastName(each.X)
	case *ast.IndexExpr:
		return lastName(each.X)
	case *ast.IndexListExpr:
		return lastName(each.X)
	case *ast.SelectorExpr:
		return each.Sel
	case *ast.Ident:
		return each
	}
	return nil
}

func (in *uses) say(kind string, name *ast.Ident) {
	object, ok := in.info.Uses[name]
	if !ok || name.Name == "_" {
		return
	}
	where, what := "-", "-"
	switch of := object.(type) {
	case *types.PkgName:
		return
	case *types.Nil:
		return
	case *types.Func:
		object = of.Origin()
	case *types.Var:
		object = of.Origin()
	}
	if object.Pos().IsValid() {
		if known, ok := defined[at(object.Pos())]; ok {
			where, what = relative(fset.Position(object.Pos()).Filename), known
		}
	}
	line := fset.Position(name.Pos()).Line
	fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", kind, in.file, in.scope, line, name.Name, where, what)
}
