"""`t9ksched manifests`: what is installed on a cluster, as YAML, from the chart of this very package."""

from pathlib import Path
from typing import Annotated

import typer

from t9ksched.cli.failure import BAD_USAGE, Failure
from t9ksched.cli.manifests.chart import ORDER, images, objects, render
from t9ksched.cli.manifests.gotemplate import TemplateError
from t9ksched.cli.manifests.overrides import given
from t9ksched.cli.output import Output, print_json
from t9ksched.packaged import folder


def manifests(
    values: Annotated[
        list[Path] | None,
        typer.Option("-f", "--values", metavar="FILE", help="A file of values, as Helm has it; repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="VALUE=…", help="A single value, as Helm does; repeatable."),
    ] = None,
    set_string: Annotated[
        list[str] | None, typer.Option(metavar="VALUE=…", help="The same with a value that is text.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help=f"This part alone; repeatable: {', '.join(ORDER)}."),
    ] = None,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Print all values with what they mean, in place of manifests.")
    ] = False,
    show_images: Annotated[
        bool, typer.Option("--show-images", help="Print the images that nodes pull, in place of manifests.")
    ] = False,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="YAML as kubectl takes it, or json: a List of all objects.")
    ] = Output.table,
) -> None:
    """Print what is installed on a cluster: custom kinds, rights, a Deployment for each role, and what belongs to them.

    They are those of the Helm chart, with their namespace: t9ksched manifests | kubectl apply --server-side -f -
    """
    if show_values:
        typer.echo((folder("chart") / "values.yaml").read_text(encoding="utf-8"), nl=False)
        return
    for name in only or ():
        if name not in ORDER:
            raise Failure(
                f"--only {name}: there is no such part.", remedy=f"Parts are {', '.join(ORDER)}.", code=BAD_USAGE
            )
    chosen = given(values or (), set_ or (), set_string or ())
    try:
        parts = [part for part in render(chosen) if not only or part.name in only]
    except TemplateError as error:
        raise Failure(f"These values do not go together: {error}", code=BAD_USAGE) from None
    if show_images:
        typer.echo("\n".join(images(parts)))
    elif output is Output.json:
        print_json({"apiVersion": "v1", "kind": "List", "items": list(objects(parts))})
    else:
        typer.echo("---\n".join(part.text for part in parts), nl=False)
