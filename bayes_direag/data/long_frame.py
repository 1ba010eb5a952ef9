"""Questions in long form as a frame, and as Parquet with a row a question."""

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow
from jaxtyping import Shaped
from pyarrow import parquet

from bayes_direag.data.long_table import LongTable
from bayes_direag.data.records import COLUMNS, NUMBER, NUMBERS, OF_OBSERVATION, OF_QUESTION, SIGNALS, type_of

if TYPE_CHECKING:
    import pandas


def long_frame(table: LongTable) -> "pandas.DataFrame":
    """Return questions in long form: one row for each report, in :data:`~bayes_direag.data.records.COLUMNS`.

    Further signals have columns after the stated confidence, and numbers of questions are at the end. A question
    without reports is one row with an empty level.
    """
    import pandas as pd

    n_before = COLUMNS.index("confidence") + 1
    dtypes = {str: "str", int: "Int64", float: "Float64", bool: "boolean"}
    is_written = table.is_report.copy()
    is_written[table.start[table.n_reports == 0]] = True
    columns: dict[str, object] = {}
    for name in (
        *COLUMNS[:n_before],
        *_further_signals(table),
        *COLUMNS[n_before:],
        *filter(NUMBERS.holds, table.columns),
    ):
        of_question = name in ("problem_id", *table.of_question)
        values = table.texts_of_questions(name).objects()[table.question] if of_question else _of_rows(table, name)
        columns[name] = pd.array(values[is_written], dtypes[type_of(name)])
    return pd.DataFrame(columns)


def write_parquet(table: LongTable, path: Path) -> None:
    """Write a row for each question, with its reports as a list of structs: the fields of a JSON line."""
    dtypes = {str: "string", int: "int64", float: "float64", bool: "bool"}

    def of_reports(name: str) -> pyarrow.Array:
        return pyarrow.array(_of_rows(table, name)[table.is_report], dtypes[type_of(name)], from_pandas=True)

    reports = {name: of_reports(name) for name in OF_OBSERVATION}
    if further := _further_signals(table):
        arrays = [of_reports(name) for name in further]
        reports["confidences"] = pyarrow.StructArray.from_arrays(arrays, [SIGNALS.name(name) for name in further])
    ends = np.concatenate([[0], np.cumsum(table.n_reports)]).astype(np.int32)
    of_questions = {
        name: pyarrow.array(table.texts_of_questions(name).objects(), dtypes[type_of(name)])
        for name in ("problem_id", *table.of_question)
    }
    columns = {name: of_questions[name] for name in ("problem_id", *OF_QUESTION)}
    if numbers := [*filter(NUMBERS.holds, of_questions)]:
        arrays = [of_questions[name] for name in numbers]
        columns["numbers"] = pyarrow.StructArray.from_arrays(arrays, [*map(NUMBERS.name, numbers)])
    structs = pyarrow.StructArray.from_arrays([*reports.values()], [*reports])
    columns["observations"] = pyarrow.ListArray.from_arrays(ends, structs)
    parquet.write_table(pyarrow.table(columns), path, row_group_size=1 << 16)


def _further_signals(table: LongTable) -> list[str]:
    return [SIGNALS.column(name) for name in table.percents if name != NUMBER]


def write_parquet_parts(tables: Iterable["pandas.DataFrame"], path: Path) -> None:
    """Write frames of the same columns one after the other, each as a row group, as pandas would write them."""
    parts = (pyarrow.Table.from_pandas(table, preserve_index=False) for table in tables)
    first = next(parts)
    with parquet.ParquetWriter(path, first.schema) as writer:
        for rows in chain([first], parts):
            writer.write_table(rows)


def _of_rows(table: LongTable, name: str) -> Shaped[np.ndarray, " row"]:
    if type_of(name) is str:
        return table.texts(name).objects()
    return table.percents[NUMBER] if name == "confidence" else table.numbers(name)
