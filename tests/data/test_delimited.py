"""Tables in text with commas, semicolons and tabs, with decimal points and decimal commas: read right or refused."""

import gzip

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drawn import FULL
from psimil.foundations.errors import InputError
from psimil.store import import_bags, open_store
from psimil.store.tables import read_bags

ROWS = [("b", 1, 0.5, -2e-3), ("a", 0, 1234.25, 3.0), ("b", 1, 0.75, 1.5)]


def text(separator, decimal=".", rows=ROWS):
    cells = [[str(cell).replace(".", decimal) for cell in row] for row in rows]
    return "".join(separator.join(row) + "\n" for row in [["bag", "label", "f", "g"], *cells])


def both(path, tmp_path, **options):
    """The table read at once, which the store must hold, too."""
    table = read_bags(path, **options)
    import_bags(path, tmp_path / "store", dtype="float64", overwrite=True, **options)
    stored = open_store(tmp_path / "store")
    np.testing.assert_array_equal(stored.X, table.bags.X)
    assert stored.feature_names == table.feature_names and stored.names.tolist() == table.bags.names.tolist()
    return table


@pytest.mark.parametrize("name", ["bags.csv", "bags.tsv", "bags.txt", "bags.csv.gz", "bags.tsv.gz", "bags.txt.gz"])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ",")])
def test_separators_and_decimals(write, tmp_path, name, separator, decimal):
    content = ("\ufeff" + text(separator, decimal)).encode()
    table = both(write(gzip.compress(content) if name.endswith("gz") else content, name), tmp_path)
    assert table.bags.X.tolist() == [[0.5, -2e-3], [0.75, 1.5], [1234.25, 3.0]]
    assert table.y.tolist() == [1, 0] and table.feature_names == ("f", "g")


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("bag;size, mm;mass, kg, dry\na;1;2\nb;3;4\n", ("size, mm", "mass, kg, dry")),
        ('bag,"a;b;c",d\na,1,2\nb,3,4\n', ("a;b;c", "d")),
        ('"a;b;c",d,bag\n1,2,a\n3,4,b\n', ("a;b;c", "d")),
        ("a\tb;c\tbag\n1\t2\ta\n3\t4\tb\n", ("a", "b;c")),
    ],
)
def test_other_marks_in_names(write, tmp_path, content, names):
    table = both(write(content), tmp_path)
    assert table.feature_names == names and table.bags.X.tolist() == [[1, 2], [3, 4]]


def test_ids_keep_their_commas(write, tmp_path):
    assert both(write("bag;f\n1,5;2\n2,5;3\n"), tmp_path).bags.ids.tolist() == ["1,5", "2,5"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("bag;f;g\na;1,5;2.5\nb;2,5;3.5\n", """column "f" holds '1,5' in row 1, which is no number here"""),
        ("bag;f\na;1.5\nb;2,5\n", "holds '2,5' in row 2, which is no number here. Write all decimals with a point"),
        ("bag;f\na;1,5\nb;1.234,5\n", "holds '1.234,5' in row 2, which is no number here. Write it without marks"),
        ("bag;f\n" + "a;1\n" * 1000 + "b;2,5\n", "holds '2,5' in row 1001, which is no number here"),
        ("id;f\na;1\n", 'has no column "bag". Columns: id, f.'),
        ("bag f\na 1\n", 'has no column "bag". Columns: bag f.'),
        ("bag,f\na,1,5\nb,2,5\n", "line 2 has 3 cells, the header has 2. Quote cells that hold the separator, such"),
        ("bag;f\na;1\nb;2;3\n", "bags.csv cannot be read as CSV: line 3 has 3 cells, the header has 2."),
        ("bag,f\na,1,\nb,2,\n", "line 2 ends with a separator, the header does not. Remove it there and below"),
        ("bag,f\na,1\nb,2,,\n", "line 3 ends with a separator, the header does not."),
        ("# by me\nbag,f\na,1\n", 'line 1 begins with "#" and is no row. Comments are not read; remove it.'),
        ("\n# a, b\nbag,f\na,1\n", 'line 2 begins with "#" and is no row.'),
        ("#bag,f\na,1\n", 'line 1 begins with "#" and is no row.'),
        ("bag,f\na,1\n# half\nb,2\n", 'line 3 begins with "#" and is no row.'),
        ("bag,f\na,1\n\nb,2\n# a, b, c\n", 'line 5 begins with "#" and is no row.'),
        ("bag,label,f\n" + "a,1,1\nb,0,2\n" * 2000 + "# end\n", 'line 4002 begins with "#" and is no row.'),
        ('bag,f\na,1\n"b,2\nc,3\n', "the quotation mark in line 3 is not closed. Close or remove it."),
        ('bag,f\na,1\n"b,2\n' + "c,3\n" * 50000, "the quotation mark in line 3 is not closed."),
        ("bag,f\nMüller,1\n".encode("latin-1"), "line 2 is not UTF-8. Save the file as UTF-8, in Excel as"),
        ("bag,Größe\na,1\n".encode("latin-1"), "line 1 is not UTF-8."),
        (b"bag,f\n" + b"a,1\n" * 40000 + "Müller,1\n".encode("cp1252"), "line 40002 is not UTF-8."),
        ("bag,f\na,1\n".encode("utf-16"), "line 1 is not UTF-8."),
        ("bag,f\na,1,2,3\nMüller,1\n".encode("latin-1"), "line 3 is not UTF-8."),
    ],
)
def test_what_cannot_be_read_right_is_refused(write, tmp_path, content, message):
    packed = gzip.compress(content if isinstance(content, bytes) else content.encode())
    for path in (write(content), write(packed, "bags.csv.gz")):
        for read in (read_bags, lambda path: import_bags(path, tmp_path / "store")):
            with pytest.raises(InputError) as caught:
                read(path)
        message = message.replace("bags.csv ", f"{path.name} ")
        assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("first", ["sep=;\n", "sep=;\r\n", '"sep=;"\n', "\ufeffsep=;\n"])
def test_a_first_line_may_name_the_separator(write, tmp_path, first):
    table = both(write(first + text(";", ",")), tmp_path)
    assert table.bags.X.tolist() == [[0.5, -2e-3], [0.75, 1.5], [1234.25, 3.0]] and table.y.tolist() == [1, 0]
    assert both(write(first.replace(";", "|") + text("|")), tmp_path).feature_names == ("f", "g")


def test_ids_may_begin_like_comments(write, tmp_path):
    table = both(write("bag,f,instance_label\n#1,2,\n#2,3,1\n#1,4,0\n"), tmp_path)
    assert table.bags.names.tolist() == ["#1", "#2"] and table.bags.X.tolist() == [[2], [4], [3]]


FUZZ = settings(
    max_examples=100 if FULL else 40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(
    separator=st.sampled_from([",", ";", "\t"]),
    decimal=st.sampled_from([".", ","]),
    values=st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=6),
)
@FUZZ
def test_numbers_are_read_right_or_not_at_all(tmp_path, separator, decimal, values):
    path = tmp_path / "bags.csv"
    rows = [f"b{n}{separator}{n % 2}{separator}{repr(x).replace('.', decimal)}\n" for n, x in enumerate(values)]
    path.write_text(separator.join(["bag", "label", "f"]) + "\n" + "".join(rows))
    try:
        found = read_bags(path).bags.X[:, 0]
    except InputError:
        assert separator == decimal == ","
    else:
        np.testing.assert_allclose(found, values, rtol=1e-12)
