"""What each supported language looks like: one row of data per language.

Pure data, and how a file name or an editor's language id finds its row. This module imports no parser
(syntax.py loads the wheel named in a row when it is first needed) and knows nothing about documents.
A new language is one row here and its wheel in pyproject.toml.
"""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath

Delimiter = tuple[str, str, bool]
"""Opening text, closing text, and whether what stands between may run over several lines."""

_SLASHES = (("/*", "*/", True),)
_C_STRINGS = (('"', '"', False), ("'", "'", False))
_JS_STRINGS = (("`", "`", True), ('"', '"', False), ("'", "'", False))


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language.

    module, loader: wheel and the function in it that returns the tree-sitter language.
    ids: editors' language ids beside `name`. suffixes, names: of files, lower case.
    line_comment: its token, empty if there is none. block_comments, strings: delimiters; longer ones first.
    skip: a regular expression for lexemes that look like a quote or bracket and are none.
    comment_nodes, string_nodes, code_nodes: node kinds that make a place a comment, a string, and (inside
        a string) code again. function_nodes, class_nodes, block_nodes, import_nodes: for features that look
        for the construct around a place.
    openers: a line whose code ends with one of these has opened a block; colon: a compound statement ending
        in `:` has. ends: words that close a block the way `}` does. holes: texts that stand for code to come.
    width, tabs: indentation where the file itself shows none.
    definitions: node kinds that define a name other files may use, and the kind of what they define. scopes: node
        kinds in which to look for them (functions are not looked into). family: languages that use each other's
        definitions.
    """

    name: str
    module: str
    loader: str = "language"
    ids: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    line_comment: str = "//"
    block_comments: tuple[Delimiter, ...] = _SLASHES
    strings: tuple[Delimiter, ...] = _C_STRINGS
    skip: str = ""
    comment_nodes: frozenset[str] = frozenset({"comment"})
    string_nodes: frozenset[str] = frozenset({"string"})
    code_nodes: frozenset[str] = frozenset()
    function_nodes: frozenset[str] = frozenset()
    class_nodes: frozenset[str] = frozenset()
    block_nodes: frozenset[str] = frozenset()
    import_nodes: frozenset[str] = frozenset()
    openers: tuple[str, ...] = ("{",)
    colon: bool = False
    ends: frozenset[str] = frozenset()
    holes: tuple[str, ...] = ()
    width: int = 4
    tabs: bool = False
    definitions: dict[str, str] = field(default_factory=dict[str, str], hash=False)
    scopes: frozenset[str] = frozenset()
    family: str = ""
    brackets: dict[str, str] = field(default_factory=lambda: {"(": ")", "[": "]", "{": "}"}, hash=False)


def _script(name: str, loader: str, ids: tuple[str, ...], suffixes: tuple[str, ...]) -> Grammar:
    """The JavaScript family differs in little but wheel, ids and suffixes."""
    interface = {"interface_declaration", "enum_declaration"}
    return Grammar(
        name=name,
        module="tree_sitter_javascript" if name == "javascript" else "tree_sitter_typescript",
        loader=loader,
        ids=ids,
        suffixes=suffixes,
        strings=_JS_STRINGS,
        skip=r"(?<=[(=,:]) ?/(?![/*])(?:\\.|\[[^\]\n]*\]|[^/\\\n\[])+/",
        string_nodes=frozenset({"string", "template_string", "regex"}),
        code_nodes=frozenset({"template_substitution"}),
        function_nodes=frozenset(
            {
                "function_declaration",
                "function_expression",
                "generator_function_declaration",
                "arrow_function",
                "method_definition",
            }
        ),
        class_nodes=frozenset({"class_declaration", "class"} | (set() if name == "javascript" else interface)),
        block_nodes=frozenset({"statement_block", "class_body", "switch_body", "object"}),
        import_nodes=frozenset({"import_statement"}),
        holes=("// TODO", "/* TODO"),
        width=2,
        definitions={
            "function_declaration": "function",
            "generator_function_declaration": "function",
            "function_signature": "function",
            "class_declaration": "class",
            "abstract_class_declaration": "class",
            "interface_declaration": "class",
            "enum_declaration": "type",
            "type_alias_declaration": "type",
            "method_definition": "method",
            "method_signature": "method",
            "abstract_method_signature": "method",
            "field_definition": "constant",
            "public_field_definition": "constant",
            "property_signature": "constant",
            "variable_declarator": "constant",
            "assignment_expression": "constant",
        },
        scopes=frozenset(
            {
                "export_statement",
                "lexical_declaration",
                "variable_declaration",
                "expression_statement",
                "ambient_declaration",
                "internal_module",
                "module",
                "statement_block",
                "class_body",
                "interface_body",
            }
        ),
        family="javascript",
    )


_C_DEFINITIONS = {
    "function_definition": "function",
    "declaration": "constant",
    "field_declaration": "constant",
    "struct_specifier": "type",
    "union_specifier": "type",
    "enum_specifier": "type",
    "type_definition": "type",
    "preproc_def": "constant",
    "preproc_function_def": "function",
}
_C_SCOPES = frozenset(
    {"preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "linkage_specification", "declaration_list"}
)
_C_BLOCKS = frozenset({"compound_statement", "field_declaration_list", "initializer_list", "enumerator_list"})

GRAMMARS: dict[str, Grammar] = {
    row.name: row
    for row in (
        Grammar(
            name="python",
            module="tree_sitter_python",
            ids=("py", "python3", "python2"),
            suffixes=(".py", ".pyi", ".pyw"),
            line_comment="#",
            block_comments=(),
            strings=(('"""', '"""', True), ("'''", "'''", True), ('"', '"', False), ("'", "'", False)),
            code_nodes=frozenset({"interpolation"}),
            function_nodes=frozenset({"function_definition", "lambda"}),
            class_nodes=frozenset({"class_definition"}),
            block_nodes=frozenset({"block"}),
            import_nodes=frozenset({"import_statement", "import_from_statement"}),
            openers=(),
            colon=True,
            holes=("pass", "...", "raise NotImplementedError", "# TODO"),
            definitions={
                "function_definition": "function",
                "class_definition": "class",
                "assignment": "constant",
                "type_alias_statement": "type",
            },
            scopes=frozenset(
                {
                    "decorated_definition",
                    "expression_statement",
                    "block",
                    "if_statement",
                    "else_clause",
                    "elif_clause",
                    "try_statement",
                    "except_clause",
                }
            ),
        ),
        _script("javascript", "language", ("javascriptreact", "js", "jsx"), (".js", ".jsx", ".mjs", ".cjs")),
        _script("typescript", "language_typescript", ("ts",), (".ts", ".mts", ".cts")),
        _script("tsx", "language_tsx", ("typescriptreact",), (".tsx",)),
        Grammar(
            name="rust",
            module="tree_sitter_rust",
            ids=("rs",),
            suffixes=(".rs",),
            strings=(('"', '"', True),),
            skip=r"'(?:\\(?:u\{[0-9a-fA-F]*\}|x..|.)|[^\\'\n])'|'[A-Za-z_]\w*",
            comment_nodes=frozenset({"line_comment", "block_comment"}),
            string_nodes=frozenset({"string_literal", "raw_string_literal", "char_literal"}),
            function_nodes=frozenset({"function_item", "closure_expression"}),
            class_nodes=frozenset({"struct_item", "enum_item", "impl_item", "trait_item"}),
            block_nodes=frozenset({"block", "declaration_list", "match_block", "field_declaration_list"}),
            import_nodes=frozenset({"use_declaration"}),
            holes=("todo!()", "unimplemented!()", "// TODO"),
            definitions={
                "function_item": "function",
                "function_signature_item": "function",
                "struct_item": "type",
                "enum_item": "type",
                "union_item": "type",
                "trait_item": "class",
                "type_item": "type",
                "const_item": "constant",
                "static_item": "constant",
                "macro_definition": "macro",
            },
            scopes=frozenset({"impl_item", "mod_item", "declaration_list"}),
        ),
        Grammar(
            name="go",
            module="tree_sitter_go",
            ids=("golang",),
            suffixes=(".go",),
            strings=(("`", "`", True), *_C_STRINGS),
            string_nodes=frozenset({"interpreted_string_literal", "raw_string_literal", "rune_literal"}),
            function_nodes=frozenset({"function_declaration", "method_declaration", "func_literal"}),
            class_nodes=frozenset({"type_declaration"}),
            block_nodes=frozenset({"block", "field_declaration_list", "literal_value"}),
            import_nodes=frozenset({"import_declaration"}),
            holes=('panic("not implemented")', "// TODO"),
            tabs=True,
            definitions={
                "function_declaration": "function",
                "method_declaration": "method",
                "type_spec": "type",
                "type_alias": "type",
                "const_spec": "constant",
                "var_spec": "constant",
            },
            scopes=frozenset({"const_declaration", "var_declaration", "var_spec_list", "type_declaration"}),
        ),
        Grammar(
            name="java",
            module="tree_sitter_java",
            suffixes=(".java",),
            strings=(('"""', '"""', True), *_C_STRINGS),
            comment_nodes=frozenset({"line_comment", "block_comment"}),
            string_nodes=frozenset({"string_literal", "character_literal"}),
            function_nodes=frozenset({"method_declaration", "constructor_declaration", "lambda_expression"}),
            class_nodes=frozenset({"class_declaration", "interface_declaration", "enum_declaration"}),
            block_nodes=frozenset({"block", "class_body", "interface_body", "switch_block"}),
            import_nodes=frozenset({"import_declaration"}),
            holes=("throw new UnsupportedOperationException()", "// TODO"),
            definitions={
                "class_declaration": "class",
                "interface_declaration": "class",
                "annotation_type_declaration": "class",
                "enum_declaration": "class",
                "record_declaration": "class",
                "method_declaration": "method",
                "constructor_declaration": "method",
                "field_declaration": "constant",
                "enum_constant": "constant",
            },
            scopes=frozenset({"class_body", "interface_body", "enum_body", "enum_body_declarations"}),
        ),
        Grammar(
            name="c",
            module="tree_sitter_c",
            suffixes=(".c", ".h"),
            skip=r"\b\d[\w']*",
            string_nodes=frozenset({"string_literal", "char_literal", "system_lib_string"}),
            function_nodes=frozenset({"function_definition"}),
            class_nodes=frozenset({"struct_specifier", "union_specifier", "enum_specifier"}),
            block_nodes=_C_BLOCKS,
            import_nodes=frozenset({"preproc_include"}),
            holes=("/* TODO", "// TODO"),
            definitions=_C_DEFINITIONS,
            scopes=_C_SCOPES,
        ),
        Grammar(
            name="cpp",
            module="tree_sitter_cpp",
            ids=("c++", "cuda-cpp"),
            suffixes=(".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".cu", ".cuh"),
            skip=r"\b\d[\w']*",
            string_nodes=frozenset({"string_literal", "char_literal", "system_lib_string", "raw_string_literal"}),
            function_nodes=frozenset({"function_definition", "lambda_expression"}),
            class_nodes=frozenset({"class_specifier", "struct_specifier", "enum_specifier"}),
            block_nodes=_C_BLOCKS | {"declaration_list"},
            import_nodes=frozenset({"preproc_include", "using_declaration"}),
            holes=("/* TODO", "// TODO"),
            definitions=_C_DEFINITIONS
            | {"class_specifier": "class", "struct_specifier": "class", "alias_declaration": "type"},
            scopes=_C_SCOPES | {"namespace_definition", "template_declaration", "field_declaration_list"},
            family="c",
        ),
        Grammar(
            name="json",
            module="tree_sitter_json",
            ids=("jsonc", "json5"),
            suffixes=(".json", ".jsonc"),
            strings=(('"', '"', False),),
            block_nodes=frozenset({"object", "array"}),
            openers=(),
            width=2,
        ),
        Grammar(
            name="bash",
            module="tree_sitter_bash",
            ids=("shellscript", "sh", "zsh", "shell"),
            suffixes=(".sh", ".bash", ".zsh"),
            names=(".bashrc", ".bash_profile", ".profile", ".zshrc"),
            line_comment="#",
            block_comments=(),
            skip=r"\\.|\$[#*@?$!-]|\$\{[^}\n]*\}|[^\s;&|(#]#",
            string_nodes=frozenset({"string", "raw_string", "ansi_c_string", "heredoc_body"}),
            code_nodes=frozenset({"command_substitution", "expansion"}),
            function_nodes=frozenset({"function_definition"}),
            block_nodes=frozenset({"compound_statement", "do_group", "if_statement"}),
            openers=("{", "then", "do", "else", " in"),
            ends=frozenset({"fi", "done", "esac", "else", "elif"}),
            holes=("# TODO",),
            width=2,
            definitions={"function_definition": "function", "variable_assignment": "constant"},
            scopes=frozenset({"declaration_command", "if_statement"}),
        ),
        Grammar(
            name="html",
            module="tree_sitter_html",
            suffixes=(".html", ".htm", ".xhtml"),
            line_comment="",
            block_comments=(("<!--", "-->", True),),
            strings=(),
            string_nodes=frozenset({"quoted_attribute_value"}),
            block_nodes=frozenset({"element"}),
            openers=(),
            width=2,
            brackets={},
        ),
        Grammar(
            name="css",
            module="tree_sitter_css",
            ids=("scss", "less"),
            suffixes=(".css",),
            line_comment="",
            string_nodes=frozenset({"string_value"}),
            block_nodes=frozenset({"block"}),
            width=2,
            definitions={"rule_set": "rule", "keyframes_statement": "rule"},
            scopes=frozenset({"media_statement", "block"}),
        ),
    )
}

GENERIC = Grammar(name="", module="", line_comment="", block_comments=(), strings=(('"', '"', False),))
"""What is assumed of a language without a row: brackets, double quotes, and no parser."""

_BY_ID = {key: row.name for row in GRAMMARS.values() for key in (row.name, *row.ids)}
_BY_SUFFIX = {suffix: row.name for row in GRAMMARS.values() for suffix in row.suffixes}
_BY_NAME = {name: row.name for row in GRAMMARS.values() for name in row.names}


def language_of(path_or_language_id: str) -> str | None:
    """The row's name for a path, a URI or an editor's language id; None where there is no row.

    >>> language_of("shellscript"), language_of("/src/App.tsx"), language_of("markdown")
    ('bash', 'tsx', None)
    """
    key = path_or_language_id.lower()
    if key in _BY_ID:
        return _BY_ID[key]
    path = PurePosixPath(re.split(r"[?#]", key.replace("\\", "/"))[0] if "://" in key else key.replace("\\", "/"))
    return _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix)


def grammar_of(language: str) -> Grammar:
    """The row of a language id; GENERIC where there is none."""
    name = language_of(language) if language else None
    return GRAMMARS[name] if name else GENERIC
