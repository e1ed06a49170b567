// The part of the playground that comes from npm: a CodeMirror 6 editor with the languages of the samples.
// It knows nothing about the model or the page.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { go } from "@codemirror/lang-go";
import { java } from "@codemirror/lang-java";
import { javascript } from "@codemirror/lang-javascript";
import { python } from "@codemirror/lang-python";
import { rust } from "@codemirror/lang-rust";
import { bracketMatching, defaultHighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";

const LANGUAGES = {
  python, rust, go, java, cpp, c: cpp, javascript, typescript: () => javascript({ typescript: true }),
};

// Tab leaves the editor, as everywhere on a page; Enter indents.
export function createEditor(parent, text, { onRun, onChange }) {
  const language = new Compartment();
  const run = keymap.of([{ key: "Mod-Enter", run: () => (onRun(), true), preventDefault: true }]);
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        run, lineNumbers(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
        syntaxHighlighting(defaultHighlightStyle, { fallback: true }), EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": "Code with a cursor or a selection" }),
        keymap.of([...defaultKeymap, ...historyKeymap]), language.of(python()),
        EditorView.updateListener.of((update) => update.docChanged && onChange()),
      ],
    }),
  });
  return {
    focus: () => view.focus(),
    text: () => view.state.doc.toString(),
    selection: () => ({ from: view.state.selection.main.from, to: view.state.selection.main.to }),
    language: (name) => view.dispatch({ effects: language.reconfigure(LANGUAGES[name] ? LANGUAGES[name]() : []) }),
    replace: (from, to, insert) =>
      view.dispatch({ changes: { from, to, insert }, selection: { anchor: from + insert.length } }),
    set: (doc, from, to) =>
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: doc }, selection: { anchor: from, head: to } }),
  };
}
