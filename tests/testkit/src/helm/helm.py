"""Helm and the schemas of Kubernetes for tests in Rust: a list of requests on standard input, as many answers on
standard output, both in JSON. An answer is {"ok": …}, or {"error": …} with the words of Helm or of the schema.

  {"do": "depend", "chart": FOLDER}                 as `helm dependency update`: they are in FOLDER/charts then
  {"do": "create", "name": NAME, "folder": FOLDER}  as `helm create`
  {"do": "lint", "chart": FOLDER, "values": {…}}    the findings, each {severity, path, error}
  {"do": "package", "chart": FOLDER, "to": FOLDER}  the archive's path
  {"do": "render", "chart": FOLDER, "values": {…}, "name": RELEASE, "namespace": NAMESPACE, "with": PROGRAM}
                                                    {text, objects, notes}; `with` is a helm to use instead of the
                                                    library: that tells no notes
  {"do": "parse", "text": YAML}                     its documents
  {"do": "validate", "objects": […], "version": V}  against the strict schemas of this Kubernetes: the kinds without one
"""
import functools, json, os, subprocess, sys, tempfile

import helm_python
import kubernetes_validate
import yaml
from kubernetes_validate import utils

# It reads its files, several MB, anew for every object.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)
utils.all_versions = functools.lru_cache(maxsize=None)(utils.all_versions)
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def depend(chart):
    helm_python.dependency_update(chart, skip_refresh=True)


def create(name, folder):
    helm_python.Chart.create(name, folder).close()


def lint(chart, values=None):
    return helm_python.lint(chart, values, strict=True, with_subcharts=True)["messages"]


def package(chart, to):
    return helm_python.package(chart, destination=to)


def parse(text):
    return [document for document in yaml.load_all(text, LOADER) if document is not None]


def render(chart, name, namespace, values=None, program=None):
    notes = None
    if program:
        text = by_program(program, chart, name, namespace, values)
    else:
        with helm_python.Chart.load(chart) as loaded:
            files = loaded.render(values or {}, name=name, namespace=namespace)
        notes = "".join(text for path, text in files.items() if path.endswith("NOTES.txt"))
        files = [(path, text) for path, text in sorted(files.items()) if not path.endswith("NOTES.txt")]
        text = "".join(f"---\n# {path}\n{text.strip()}\n" for path, text in files if text.strip())
    return {"text": text, "objects": parse(text), "notes": notes}


def by_program(program, chart, name, namespace, values):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values or {}, file)
        file.flush()
        command = [program, "template", name, chart, "--namespace", namespace, "--values", file.name]
        command += ["--kube-version", "v1.33.0"]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode != 0:
        raise ValueError(ended.stderr)
    return ended.stdout


def validate(objects, version):
    unknown = set()
    version = kubernetes_validate.latest_version() if version == "newest" else version
    for item in objects:
        try:
            kubernetes_validate.validate(item, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            unknown.add(item["kind"])
        except kubernetes_validate.ValidationError as error:
            path = ".".join(map(str, error.path))
            what = f"{item['kind']} {item['metadata']['name']} in {version}"
            raise ValueError(f"{what}: {path}: {error.message}") from error
    return sorted(unknown)


def answer(request):
    arguments = {{"with": "program"}.get(key, key): value for key, value in request.items() if key != "do"}
    tasks = {task.__name__: task for task in (depend, create, lint, package, parse, render, validate)}
    try:
        return {"ok": tasks[request["do"]](**arguments)}
    except (helm_python.HelmError, ValueError, yaml.YAMLError, OSError) as error:
        return {"error": str(error)}


# Helm's library may write to standard output.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
json.dump([answer(request) for request in json.load(sys.stdin)], answers)
answers.close()
