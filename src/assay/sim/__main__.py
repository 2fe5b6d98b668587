"""`python -m assay.sim llm …`: the simulated servers without the rest of the command line."""

from __future__ import annotations

import argparse
import sys

from assay.errors import AssayError
from assay.sim.script import ListenOptions, Server, SimScript, settings_of
from assay.sim.serve import run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m assay.sim", description="A server with known truth.")
    kinds = parser.add_subparsers(dest="server", required=True)
    names: tuple[Server, ...] = ("llm", "http")
    for server in names:
        server_parser = kinds.add_parser(server, argument_default=argparse.SUPPRESS)
        for setting in (*settings_of(ListenOptions, server), *settings_of(SimScript, server)):
            meaning = setting.meaning.replace("%", "%%")
            if setting.switch is not None:
                server_parser.add_argument(
                    setting.flag, dest=setting.name, action="store_const", const=setting.switch, help=meaning
                )
            else:
                action = "append" if setting.many else "store"
                server_parser.add_argument(setting.flag, dest=setting.name, action=action, help=meaning)
    return parser


def main() -> None:
    values = vars(_parser().parse_args())
    server = values.pop("server")
    try:
        run(server, values)
    except AssayError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
