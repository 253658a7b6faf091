"""Renders the conversations with jinja2, set up as model authors set it up, and writes what came out.

    python3 make_renderings.py TEMPLATES        (a folder of *.jinja; needs jinja2 3.1.6)
Writes constructs.expected.json (the templates of constructs.json over one conversation) and renderings.tsv: template,
conversation and the FNV-1a hash of the text, or `!` and the exception. The templates themselves are not kept here.
"""
import datetime
import json
import pathlib
import sys

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

here = pathlib.Path(__file__).parent
MOMENT = datetime.datetime.fromtimestamp(1_790_000_000, datetime.timezone.utc)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


environment = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
)
environment.filters |= {"tojson": tojson, "from_json": json.loads}
environment.globals |= {"raise_exception": raise_exception, "strftime_now": MOMENT.strftime}


def render(source, conversation):
    return environment.from_string(source).render(
        messages=conversation["messages"],
        tools=conversation.get("tools"),
        documents=None,
        add_generation_prompt=conversation.get("add_generation_prompt", True),
        bos_token="<BOS>",
        eos_token="<EOS>",
    )


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


conversations = json.loads((here / "conversations.json").read_text())
constructs = json.loads((here / "constructs.json").read_text())
expected = {name: render(source, conversations["calls"]) for name, source in constructs.items()}
(here / "constructs.expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=2) + "\n")

rows = []
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jinja")):
    for name, conversation in conversations.items():
        try:
            result = fnv1a(render(path.open(newline="").read(), conversation))
        except Exception as error:
            result = f"!{type(error).__name__}: {error}"
        rows.append(f"{path.stem}\t{name}\t{result}\n")
(here / "renderings.tsv").write_text("".join(rows))
