//! The terraform files of `infra/`: each directory with such files is a module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hcl_edit::expr::{Expression, Object, ObjectKey, Traversal, TraversalOperator};
use hcl_edit::structure::{Block, Body};
use hcl_edit::template::Element;
use hcl_edit::visit::{Visit, visit_block, visit_object, visit_traversal};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Reads a file of the workspace.
pub(crate) fn source(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The text between `words` and the next `until`.
pub(crate) fn text_after<'t>(text: &'t str, words: &str, until: char) -> &'t str {
    text.split_once(words).unwrap().1.split_once(until).unwrap().0
}

/// A directory of terraform files, which terraform reads as one.
pub(crate) struct Module {
    /// Relative to `infra/`.
    pub(crate) path: String,
    /// The names of the files.
    pub(crate) files: Vec<String>,
    /// The text of its terraform tests.
    pub(crate) tests: String,
    body: Body,
}

/// All modules and examples.
pub(crate) fn infra() -> Vec<Module> {
    let mut texts = BTreeMap::new();
    read(&root().join("infra"), "", &mut texts);
    let read_module =
        |(path, files): (String, Files)| Module { tests: tests_of(&path), ..Module::new(&path, &files) };
    let modules: Vec<_> = texts.into_iter().map(read_module).collect();
    assert!(modules.len() > 10, "only {} modules found; expected all of infra/", modules.len());
    modules
}

/// A module with the given text, for tests of a rule.
pub(crate) fn fixture(text: &str) -> Vec<Module> {
    vec![Module::new("modules/fixture", &[("main.tf".to_owned(), text.to_owned())])]
}

/// Fails unless a fault contains `words`.
pub(crate) fn assert_reported(faults: &[String], words: &str) {
    assert!(faults.iter().any(|fault| fault.contains(words)), "no fault contains `{words}`: {faults:?}");
}

type Files = Vec<(String, String)>;

fn read(directory: &Path, path: &str, texts: &mut BTreeMap<String, Files>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() && !name.starts_with('.') {
            let below = if path.is_empty() { name } else { format!("{path}/{name}") };
            read(&entry.path(), &below, texts);
        } else if entry.path().extension().is_some_and(|extension| extension == "tf") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            texts.entry(path.to_owned()).or_default().push((name, text));
        }
    }
}

fn tests_of(module: &str) -> String {
    let Ok(tests) = std::fs::read_dir(root().join("infra").join(module).join("tests")) else {
        return String::new();
    };
    let tests = tests.map(|entry| entry.unwrap().path());
    let tests = tests.filter(|test| test.to_string_lossy().ends_with(".tftest.hcl"));
    tests.map(|test| std::fs::read_to_string(test).unwrap()).collect()
}

impl Module {
    fn new(path: &str, files: &[(String, String)]) -> Self {
        let mut names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        let parsed = files.iter().map(|(name, text)| {
            text.parse::<Body>().unwrap_or_else(|error| panic!("{path}/{name}: {error}"))
        });
        let body = parsed.flat_map(IntoIterator::into_iter).collect();
        Self { path: path.to_owned(), files: names, tests: String::new(), body }
    }

    pub(crate) fn body(&self) -> &Body {
        &self.body
    }

    /// The blocks of this type.
    pub(crate) fn blocks<'m>(&'m self, word: &'m str) -> impl Iterator<Item = &'m Block> {
        self.body.get_blocks(word)
    }

    /// The resources of this type.
    pub(crate) fn resources<'m>(&'m self, kind: &'m str) -> impl Iterator<Item = &'m Block> {
        self.blocks("resource").filter(move |block| label(block, 0) == kind)
    }

    /// A local value.
    pub(crate) fn local(&self, name: &str) -> Option<&Expression> {
        self.blocks("locals").find_map(|block| value(&block.body, name))
    }
}

/// The block's label at this index, or an empty text.
pub(crate) fn label(block: &Block, place: usize) -> &str {
    block.labels.get(place).map_or("", |label| label.as_str())
}

/// The value of an attribute.
pub(crate) fn value<'b>(body: &'b Body, key: &str) -> Option<&'b Expression> {
    body.get_attribute(key).map(|attribute| &attribute.value)
}

/// The value of an attribute of the first nested block of this name.
pub(crate) fn value_in<'b>(body: &'b Body, block: &'b str, key: &str) -> Option<&'b Expression> {
    value(&body.get_blocks(block).next()?.body, key)
}

/// The source text of an expression; a string without its quotes.
pub(crate) fn text(expression: &Expression) -> String {
    match expression {
        Expression::String(text) => text.as_str().to_owned(),
        Expression::StringTemplate(template) => template.iter().map(element).collect(),
        other => other.to_string().trim().to_owned(),
    }
}

fn element(element: &Element) -> String {
    match element {
        Element::Literal(literal) => literal.as_str().to_owned(),
        Element::Interpolation(interpolation) => format!("${{{}}}", interpolation.expr.to_string().trim()),
        Element::Directive(_) => "%{…}".to_owned(),
    }
}

/// The value of an attribute as text; empty if it is not set.
pub(crate) fn text_of(body: &Body, key: &str) -> String {
    value(body, key).map(text).unwrap_or_default()
}

/// The keys of an object, in source order.
pub(crate) fn keys(object: &Object) -> Vec<String> {
    object.iter().map(|(key, _)| key_text(key)).collect()
}

/// The value of a key of an object.
pub(crate) fn entry<'o>(object: &'o Object, name: &str) -> Option<&'o Expression> {
    object.iter().find(|(key, _)| key_text(key) == name).map(|(_, value)| value.expr())
}

fn key_text(key: &ObjectKey) -> String {
    match key {
        ObjectKey::Ident(name) => name.as_str().to_owned(),
        ObjectKey::Expression(expression) => text(expression),
    }
}

/// Every `a.b.c` in the body as a list of names, without index expressions.
pub(crate) fn references(body: &Body) -> Vec<Vec<String>> {
    let mut found = References(Vec::new());
    found.visit_body(body);
    found.0
}

struct References(Vec<Vec<String>>);

impl Visit for References {
    /// A `moved` block names resources that no longer exist.
    fn visit_block(&mut self, block: &Block) {
        if !block.has_ident("moved") {
            visit_block(self, block);
        }
    }

    fn visit_traversal(&mut self, traversal: &Traversal) {
        if let Some(root) = traversal.expr.as_variable() {
            let names = traversal.operators.iter().filter_map(|operator| match operator.value() {
                TraversalOperator::GetAttr(name) => Some(name.as_str().to_owned()),
                _ => None,
            });
            self.0.push(std::iter::once(root.as_str().to_owned()).chain(names).collect());
        }
        visit_traversal(self, traversal);
    }
}

/// Every object in the body, including nested ones.
pub(crate) fn objects(body: &Body) -> Vec<Object> {
    let mut found = Objects(Vec::new());
    found.visit_body(body);
    found.0
}

struct Objects(Vec<Object>);

impl Visit for Objects {
    fn visit_object(&mut self, object: &Object) {
        self.0.push(object.clone());
        visit_object(self, object);
    }
}
