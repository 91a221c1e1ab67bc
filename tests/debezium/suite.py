"""The tests of Debezium's suite, by name: from a checkout of its sources, or from the tests jars of a version."""

import pathlib
import re
import subprocess
import zipfile

import connector
import servers

CONNECTOR = "/connector/postgresql/"
ALSO = ("EventRouterTest", "JsonSchemaDataTest", "BinaryDataConverterTest", "ActivateTracingSpanTest")
"""Classes outside of the connector whose tests are ours too."""
CLASS = re.compile(r"^(?:@\w+.*\n)*public\s+(abstract\s+)?(?:final\s+)?class\s+(\w+)(?:<[^{]*?>)?(?:\s+extends\s+(\w+))?", re.M)
TEST = re.compile(r"^\s*@(?:Test|ParameterizedTest)\b(?:(?!^\s*@(?:Test|ParameterizedTest)\b)[\s\S])*?\bvoid\s+(\w+)\s*\(", re.M)
COMMENT = re.compile(r"/\*[\s\S]*?\*/|^\s*//.*$", re.M)
JUNIT = re.compile(r"org\.junit\.(?:jupiter\.api\.)?(?:params\.)?(?:Parameterized)?Test\b")
TESTS_JARS = ("debezium-connector-postgres", "debezium-embedded")


def of_sources(folder):
    """Returns Class.test of each test in a checkout, with those that a class inherits."""
    classes = {}
    for path in sorted(pathlib.Path(folder).rglob("*.java")):
        text = COMMENT.sub("", path.read_text())
        if found := CLASS.search(text):
            add(classes, found[2], (path.as_posix(), bool(found[1]), found[3], TEST.findall(text)))
    return names(classes)


def jars(version):
    """Returns the tests jars of a version, fetched once.

    Raises connector.NotServed where one is not published, or not served.
    """
    folder = servers.cache() / "debezium-connectors" / f"{version}-tests"
    folder.mkdir(parents=True, exist_ok=True)
    return [next(folder.glob(f"{name}-*"), None) or connector.artifact(folder, f"io.debezium:{name}:{version}:jar:tests") for name in TESTS_JARS]


def of_jars(jars):
    """Returns the same of tests jars, as `javap` lists their classes."""
    classes = {}
    for jar in jars:
        with zipfile.ZipFile(jar) as entries:
            found = [name.removesuffix(".class") for name in entries.namelist() if re.search(r"/[^$/]*Test(s)?\.class$|/[^$/]*IT\.class$", name)]
        listed = subprocess.run(["javap", "-v", "-p", "-cp", jar, *found], capture_output=True, text=True, check=True).stdout
        for text in listed.split("\nClassfile "):
            if head := re.search(r"^public (?:(abstract) )?(?:final )?class ([\w.]+)(?:<.*?>)? extends ([\w.]+)", text, re.M):
                methods = re.split(r"\n(?=  [a-z][^\n]*\);?(?: throws [^\n]*)?\n    descriptor: )", text)
                tests = [method for method in methods if JUNIT.search(method)]
                named = [found[1] for method in tests if (found := re.match(r"[^\n(]*?(\w+)\(", method))]
                short = head[2].rpartition(".")[2]
                add(classes, short, ("/" + head[2].replace(".", "/"), bool(head[1]), head[3].rpartition(".")[2], named))
    return names(classes)


def add(classes, name, found):
    """Adds a class; two of one name in two packages are one."""
    earlier = classes.get(name, (*found[:3], []))
    classes[name] = (*found[:3], earlier[3] + found[3])


def names(classes):
    def inherited(name):
        path, _, parent, tests = classes.get(name, ("", False, None, []))
        return tests + (inherited(parent) if parent else []) if path else []

    ours = [name for name, (path, abstract, *_) in classes.items() if not abstract and (CONNECTOR in path or name in ALSO)]
    return [f"{name}.{test}" for name in sorted(ours) for test in dict.fromkeys(inherited(name))]
