"""``ge2rt kernels`` and ``ge2rt capability``."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.table import Table

from ge2rt.cli.calls import attrs_option, descs_argument, parse_attrs, parse_inputs
from ge2rt.device.registry import get_device
from ge2rt.run.launch import find_kernel
from ge2rt.run.select import choose
from ge2rt.spec.model import BufferSpec, KernelSpec
from ge2rt.spec.registry import default_registry


@click.command()
@click.argument("name", required=False)
@click.option("--op", is_flag=True, help="Group by op type.")
def kernels(name: str | None, op: bool) -> None:
    """List the registered kernels, or show the declaration of NAME."""
    console = Console()
    if name:
        _show_one(console, find_kernel(name))
        return
    registry = default_registry()
    specs = [registry.get(each) for each in registry.names()]
    if op:
        for op_type in sorted({spec.op for spec in specs}):
            listed = ", ".join(s.name for s in registry.kernels_of(op_type))
            click.echo(f"{op_type}: {listed}")
        return
    table = Table("kernel", "op type", "score", "inputs", "outputs", "about", box=None)
    for spec in sorted(specs, key=lambda s: (s.op, -s.score)):
        table.add_row(
            spec.name, spec.op, str(spec.score), _brief(spec.inputs), _brief(spec.outputs), spec.doc
        )
    console.print(table)


@click.command()
@click.argument("op_type")
@descs_argument
@attrs_option
@click.option("--device", default="auto", help="cpu, cuda, cuda:N or auto.")
def capability(op_type: str, descs: tuple[str, ...], attrs: tuple[str, ...], device: str) -> None:
    """Rank the kernels of OP_TYPE; with input DESCS (f32[128,64] ...) say why each is turned down."""
    found = default_registry().kernels_of(op_type)
    if not found:
        known = sorted({default_registry().get(n).op for n in default_registry().names()})
        click.echo(f"no kernel has op type {op_type!r}; known: {', '.join(known)}", err=True)
        sys.exit(1)
    if not descs:
        for kernel in found:
            click.echo(f"{kernel.name}: {kernel.score}")
        return
    where = get_device(device)
    inputs = parse_inputs(descs, where.name)
    choice = choose(found, inputs, parse_attrs(attrs), where.props, infer=True)
    click.echo(str(choice))
    sys.exit(0 if choice.chosen else 1)


def _brief(buffers: tuple[BufferSpec, ...]) -> str:
    return " ".join(b.name + ("?" if b.optional else "") for b in buffers)


def _show_one(console: Console, spec: KernelSpec) -> None:
    console.print(f"[bold]{spec.name}[/] ({spec.op}, score {spec.score})  {spec.doc}")
    if spec.aliases:
        console.print(f"  aliases: {', '.join(spec.aliases)}")
    for variable, choices in spec.types.items():
        console.print(f"  type {variable}: {', '.join(choices)}", markup=False)
    for buffer in spec.buffers:
        shape = buffer.formula.text if buffer.formula else list(buffer.pattern or ())
        optional = ", optional" if buffer.optional else ""
        console.print(f"  {buffer.role} {buffer.name}: {buffer.dtype} {shape}{optional}", markup=False)
    for attr in spec.attrs.values():
        choices = f" out of {', '.join(map(str, attr.choices))}" if attr.choices else ""
        default = "required" if attr.required else f"default {attr.default}"
        console.print(f"  attribute {attr.name}: {attr.type}{choices}, {default}", markup=False)
    for condition in spec.requires:
        console.print(f"  requires {condition.text}", markup=False)
    if spec.reference:
        console.print(f"  reference: {spec.reference.text}", markup=False)
    for dtype, tolerance in spec.tolerance.items():
        console.print(f"  tolerance {dtype}: rtol {tolerance.rtol:g}, atol {tolerance.atol:g}")
    console.print(f"  template {spec.template} ({spec.source})", markup=False)
