"""Entry point of ``ge2rt``: a group whose commands are imported when they are called."""

from __future__ import annotations

import importlib
import sys

import click

from ge2rt.base.errors import Ge2rtError, RegistryError

# command -> (module, one line of help)
COMMANDS = {
    "doctor": ("ge2rt.cli.doctor", "Show what was found on this machine, with fixes."),
    "kernels": ("ge2rt.cli.kernels", "List the registered kernels, or show one."),
    "capability": ("ge2rt.cli.kernels", "Rank the kernels of an op type for a call."),
    "render": ("ge2rt.cli.build", "Print the CUDA source of one specialisation."),
    "build": ("ge2rt.cli.build", "Compile one specialisation to CUDA, PTX or cubin."),
    "check": ("ge2rt.cli.check", "Validate, compile and run kernels against their references."),
    "cache": ("ge2rt.cli.cache", "Look into the compile cache, verify or clear it."),
}


class _LazyGroup(click.Group):
    """Imports a command's module only when it is needed: ``ge2rt --help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(cmd_name)
        if row is None:
            return None
        command: click.Command = getattr(importlib.import_module(row[0]), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_LazyGroup)
@click.version_option(package_name="ge2rt")
@click.option(
    "--registry",
    multiple=True,
    type=click.Path(),
    help="Add a kernels file, as GE2RT_REGISTRY does.",
)
def cli(registry: tuple[str, ...]) -> None:
    """Kernels from YAML and CUDA templates, compiled at run time, on a GPU or on any CPU."""
    from ge2rt.spec.registry import load_registry

    for path in registry:
        load_registry(path)


def main() -> None:
    """Run the command line; an error of the library is one message and exit status 1."""
    try:
        cli(standalone_mode=True)
    except RegistryError as fault:
        for line in fault.faults or (str(fault),):
            click.echo(line, err=True)
        sys.exit(1)
    except (Ge2rtError, OSError) as fault:
        click.echo(f"error: {fault}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
