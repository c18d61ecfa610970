import com.sun.source.tree.*;
import com.sun.source.util.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.stream.*;
import javax.lang.model.element.*;
import javax.tools.*;

/**
 * What the Java compiler says of every use in a folder of sources.
 *
 * java graph_accuracy_java_answers.java FOLDER [OPTION OF JAVAC]... prints, separated by tabs: kind,
 * file, definition it stands in, line, name, file of the target, its definition. The last two are "-"
 * for a target elsewhere, and for local variables, and "?" where the compiler knows none.
 */
class GraphAnswers {
    static Trees trees;
    static Path root;
    static final Set<ElementKind> LOCAL = Set.of(
        ElementKind.LOCAL_VARIABLE, ElementKind.PARAMETER, ElementKind.EXCEPTION_PARAMETER,
        ElementKind.RESOURCE_VARIABLE, ElementKind.BINDING_VARIABLE);

    public static void main(String[] arguments) throws IOException {
        root = Path.of(arguments[0]).toRealPath();
        List<File> files;
        try (Stream<Path> found = Files.walk(root)) {
            files = found.filter(each -> each.toString().endsWith(".java")).map(Path::toFile).sorted().toList();
        }
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, StandardCharsets.UTF_8);
        List<String> options = new ArrayList<>(List.of("-proc:none", "-Xmaxerrs", "100000"));
        options.addAll(Arrays.asList(arguments).subList(1, arguments.length));
        JavacTask task = (JavacTask) compiler.getTask(
            new PrintWriter(OutputStream.nullOutputStream()), manager, each -> {}, options, null,
            manager.getJavaFileObjectsFromFiles(files));
        trees = Trees.instance(task);
        List<CompilationUnitTree> units = new ArrayList<>();
        task.parse().forEach(units::add);
        task.analyze();
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        for (CompilationUnitTree unit : units) {
            out.println(String.join("\t", "file", file(unit), "", "1", "", "-", "-"));
            new Uses(unit, out).scan(unit, null);
        }
        out.flush();
    }

    static String file(CompilationUnitTree unit) {
        return root.relativize(Path.of(unit.getSourceFile().toUri())).toString();
    }

    /** The name of a definition within its file: classes without a name are left out. */
    static String name(TreePath path) {
        Deque<String> parts = new ArrayDeque<>();
        String type = "";
        for (TreePath each = path; each != null; each = each.getParentPath()) {
            Tree tree = each.getLeaf();
            if (tree instanceof ClassTree of && !of.getSimpleName().isEmpty()) {
                parts.addFirst(of.getSimpleName().toString());
            } else if (tree instanceof MethodTree of) {
                parts.addFirst(of.getName().contentEquals("<init>") ? "<init>" : of.getName().toString());
            } else if (each == path && tree instanceof VariableTree of) {
                parts.addFirst(of.getName().toString());
            }
        }
        List<String> named = new ArrayList<>(parts);
        for (int at = 1; at < named.size(); at++) {
            if (named.get(at).equals("<init>")) named.set(at, named.get(at - 1));
        }
        return String.join(".", named);
    }

    static class Uses extends TreePathScanner<Void, Void> {
        final CompilationUnitTree unit;
        final PrintStream out;
        final SourcePositions positions = trees.getSourcePositions();
        final String text;
        final String file;
        final Set<Tree> told = Collections.newSetFromMap(new IdentityHashMap<>());
        int annotations = 0;

        Uses(CompilationUnitTree unit, PrintStream out) throws IOException {
            this.unit = unit;
            this.out = out;
            this.text = unit.getSourceFile().getCharContent(true).toString();
            this.file = file(unit);
        }

        boolean written(Tree tree, String name) {
            int start = (int) positions.getStartPosition(unit, tree), end = (int) positions.getEndPosition(unit, tree);
            return start >= 0 && end > start && end <= text.length() && text.substring(start, end).endsWith(name);
        }

        void tell(String kind, Tree tree, String name, Element target, TreePath around) {
            if (!written(tree, name)) return;
            int end = (int) positions.getEndPosition(unit, tree);
            long line = unit.getLineMap().getLineNumber(end - name.length());
            String where = "-", what = "-";
            if (target == null || target.asType().getKind().toString().equals("ERROR")) {
                where = what = "?";
            } else if (target.getKind() != ElementKind.PACKAGE && target.getKind() != ElementKind.TYPE_PARAMETER) {
                Element of = target.getKind() == ElementKind.CONSTRUCTOR ? target.getEnclosingElement() : target;
                TreePath path = trees.getPath(of);
                boolean local = LOCAL.contains(of.getKind());
                if (path != null && !local) {
                    where = file(path.getCompilationUnit());
                    what = name(path);
                }
            } else if (target.getKind() == ElementKind.PACKAGE) {
                return;
            }
            out.println(String.join("\t", kind, file, name(around), Long.toString(line), name, where, what));
        }

        TreePath around() {
            TreePath path = getCurrentPath();
            if (annotations > 0) {  // an annotation stands before what it belongs to
                while (!(path.getLeaf() instanceof AnnotationTree)) path = path.getParentPath();
                while (path != null && !(path.getLeaf() instanceof ClassTree || path.getLeaf() instanceof MethodTree)) {
                    path = path.getParentPath();
                }
                Tree of = path == null ? null : path.getLeaf();
                boolean head = of instanceof ClassTree type && type.getModifiers().getAnnotations().stream().anyMatch(this::holds)
                    || of instanceof MethodTree method && method.getModifiers().getAnnotations().stream().anyMatch(this::holds);
                return head ? path.getParentPath() : getCurrentPath();
            }
            Tree leaf = path.getLeaf();
            return leaf instanceof VariableTree ? path.getParentPath() : path;
        }

        boolean holds(AnnotationTree annotation) {
            for (TreePath each = getCurrentPath(); each != null; each = each.getParentPath()) {
                if (each.getLeaf() == annotation) return true;
            }
            return false;
        }

        static Tree bare(Tree tree) {
            if (tree instanceof ParameterizedTypeTree of) return bare(of.getType());
            if (tree instanceof AnnotatedTypeTree of) return bare(of.getUnderlyingType());
            return tree;
        }

        static String last(Tree tree) {
            return tree instanceof MemberSelectTree of ? of.getIdentifier().toString() : tree.toString();
        }

        Element element(Tree tree) {
            return trees.getElement(new TreePath(getCurrentPath(), tree));
        }

        void typed(String kind, Tree written) {
            if (written == null) return;
            Tree type = bare(written);
            told.add(type);
            tell(kind, type, last(type), element(type), getCurrentPath());
        }

        @Override public Void visitAnnotation(AnnotationTree tree, Void none) {
            annotations++;
            super.visitAnnotation(tree, none);
            annotations--;
            return null;
        }

        @Override public Void visitClass(ClassTree tree, Void none) {
            if (!tree.getSimpleName().isEmpty()) {
                typed("extends", tree.getExtendsClause());
                tree.getImplementsClause().forEach(each -> typed("extends", each));
            }
            return super.visitClass(tree, none);
        }

        @Override public Void visitImport(ImportTree tree, Void none) {
            String name = last(tree.getQualifiedIdentifier());
            if (name.equals("*")) {  // of the members of a type; of a package it names no definition
                Tree of = ((MemberSelectTree) tree.getQualifiedIdentifier()).getExpression();
                TreePath path = new TreePath(new TreePath(getCurrentPath(), tree.getQualifiedIdentifier()), of);
                tell("imports", of, last(of), trees.getElement(path), getCurrentPath());
                return null;
            }
            Element found = trees.getElement(new TreePath(getCurrentPath(), tree.getQualifiedIdentifier()));
            if (found == null && tree.isStatic()) {
                Tree of = ((MemberSelectTree) tree.getQualifiedIdentifier()).getExpression();
                Element type = trees.getElement(new TreePath(new TreePath(getCurrentPath(), tree.getQualifiedIdentifier()), of));
                if (type != null) {
                    found = type.getEnclosedElements().stream()
                        .filter(each -> each.getSimpleName().contentEquals(name)).findFirst().orElse(null);
                }
            }
            tell("imports", tree.getQualifiedIdentifier(), name, found, getCurrentPath());
            return null;
        }

        @Override public Void visitPackage(PackageTree tree, Void none) {
            return null;
        }

        @Override public Void visitMethodInvocation(MethodInvocationTree tree, Void none) {
            Tree select = tree.getMethodSelect();
            told.add(select);
            tell("calls", select, last(select), trees.getElement(getCurrentPath()), around());
            return super.visitMethodInvocation(tree, none);
        }

        @Override public Void visitNewClass(NewClassTree tree, Void none) {
            Tree type = bare(tree.getIdentifier());
            Tree parent = getCurrentPath().getParentPath().getLeaf();
            told.add(type);
            boolean constant = parent instanceof VariableTree of && of.getNameExpression() == null
                && !text.startsWith("new", (int) positions.getStartPosition(unit, tree));
            if (!constant) tell("calls", type, last(type), element(type), around());
            return super.visitNewClass(tree, none);
        }

        @Override public Void visitMemberReference(MemberReferenceTree tree, Void none) {
            if (tree.getMode() == MemberReferenceTree.ReferenceMode.INVOKE) {
                tell("references", tree, tree.getName().toString(), trees.getElement(getCurrentPath()), around());
            }
            return super.visitMemberReference(tree, none);
        }

        @Override public Void visitIdentifier(IdentifierTree tree, Void none) {
            String name = tree.getName().toString();
            if (!told.contains(tree) && !name.equals("this") && !name.equals("super")) {
                tell("references", tree, name, trees.getElement(getCurrentPath()), around());
            }
            return null;
        }

        @Override public Void visitMemberSelect(MemberSelectTree tree, Void none) {
            String name = tree.getIdentifier().toString();
            if (!told.contains(tree) && !Set.of("this", "super", "class", "length").contains(name)) {
                tell("references", tree, name, trees.getElement(getCurrentPath()), around());
            }
            return super.visitMemberSelect(tree, none);
        }
    }
}
