"""``ge2rt kernels`` and ``ge2rt capability``."""

from __future__ import annotations

import sys

import click
from rich.markup import escape
from rich.table import Table

from ge2rt.base.errors import InvalidArgumentError
from ge2rt.cli.calls import CALL_HELP, attrs_option, descs_argument, parse_attrs, parse_inputs
from ge2rt.cli.screen import console, table
from ge2rt.device.registry import get_device
from ge2rt.run.launch import find_kernel
from ge2rt.run.select import choose
from ge2rt.spec.model import AttrSpec, BufferSpec, KernelSpec
from ge2rt.spec.registry import default_registry
from ge2rt.spec.suggest import did_you_mean

# terminal width from which so many columns of the listing fit
_COLUMNS = ((110, 5), (66, 4), (0, 2))


@click.command()
@click.argument("name", required=False)
@click.option("--op", is_flag=True, help="Only the op types, each with its kernels.")
def kernels(name: str | None, op: bool) -> None:
    """List the registered kernels, or show the declaration of NAME."""
    if name:
        click.echo("\n".join(_declaration(find_kernel(name))))
        return
    registry = default_registry()
    if op:
        shown = table("op type", "kernels")
        for op_type in sorted(registry.ops()):
            listed = sorted(registry.kernels_of(op_type), key=lambda spec: -spec.score)
            shown.add_row(op_type, ", ".join(f"{spec.name} ({spec.score})" for spec in listed))
    else:
        specs = [registry.get(each) for each in registry.names()]
        shown = _listing(sorted(specs, key=lambda s: (s.op, -s.score)), console().width)
    console().print(shown)


def _listing(specs: list[KernelSpec], width: int) -> Table:
    fit = next(count for least, count in _COLUMNS if width >= least)
    shown = table(
        *("kernel", "op type", "score", "call", "about")[:fit], right=("score",), broken=("call",)
    )
    for spec in specs:
        call = f"{_brief(spec.inputs)} -> {_brief(spec.outputs)}"
        shown.add_row(*(spec.name, spec.op, str(spec.score), call, escape(spec.doc))[:fit])
    return shown


@click.command(epilog=CALL_HELP)
@click.argument("op_type")
@descs_argument
@attrs_option
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, cuda:N or auto.")
def capability(op_type: str, descs: tuple[str, ...], attrs: tuple[str, ...], device: str) -> None:
    """Rank the kernels of OP_TYPE; with input DESCS the reasons too.

    Exits with 1 if none can run the call.
    """
    found = default_registry().kernels_of(op_type)
    if not found:
        raise _unknown_op(op_type)
    if not descs:
        for kernel in found:
            click.echo(f"{kernel.name}: {kernel.score}")
        return
    where = get_device(device)
    inputs = parse_inputs(descs, where.name)
    choice = choose(found, inputs, parse_attrs(attrs), where.props, infer=True)
    click.echo(str(choice))
    sys.exit(0 if choice.chosen else 1)


def _unknown_op(name: str) -> InvalidArgumentError:
    """The error for a name that is no op type, with the op type of the kernel it may be."""
    registry = default_registry()
    kernel = registry.find(name)
    hint = f"{name} is a kernel of op type {kernel.op}" if kernel else ""
    return InvalidArgumentError(
        "no kernel has this op type", got=name, expected=", ".join(sorted(registry.ops())),
        next_step=hint or did_you_mean(name, registry.ops()),
    )  # fmt: skip


def _brief(buffers: tuple[BufferSpec, ...]) -> str:
    return " ".join(b.name + ("?" if b.optional else "..." if b.many else "") for b in buffers)


def _declaration(spec: KernelSpec) -> list[str]:
    """What a caller needs to know of a kernel, a line each."""
    lines = [f"{spec.name}  {spec.doc}", f"  op type   {spec.op}, score {spec.score}"]
    lines += [f"  aliases   {', '.join(spec.aliases)}"] if spec.aliases else []
    lines += [f"  type      {name}: {', '.join(dtypes)}" for name, dtypes in spec.types.items()]
    lines += [_operand(buffer) for buffer in spec.buffers]
    lines += [_attribute(attr) for attr in spec.attrs.values()]
    lines += [f"  requires  {condition.text}" for condition in spec.requires]
    lines += [f"  block     {spec.param_block}"] if spec.param_block else []
    lines += [f"  meaning   {spec.reference.text}"] if spec.reference else []
    lines += [
        f"  allowed   {dtype}: rtol {each.rtol:g}, atol {each.atol:g}"
        for dtype, each in spec.tolerance.items()
    ]
    return [*lines, f"  template  {spec.template}", f"  declared  {spec.source}"]


def _operand(buffer: BufferSpec) -> str:
    shape = buffer.formula.text if buffer.formula else ", ".join(map(str, buffer.pattern or ()))
    note = " (optional)" if buffer.optional else ""
    note += f" (a list of 1 to {buffer.many})" if buffer.many else ""
    return f"  {buffer.role:<9} {buffer.name}: {buffer.dtype}[{shape}]{note}"


def _attribute(attr: AttrSpec) -> str:
    default = "required" if attr.required else f"default {attr.default}"
    among = f", one of {' '.join(map(str, attr.choices))}" if attr.choices else ""
    return f"  attribute {attr.name}: {attr.type}, {default}{among}"
