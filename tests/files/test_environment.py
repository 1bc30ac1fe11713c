"""What a run says about where it was computed."""

from psimil.files.environment import checkout_commit, environment

SHA = "0123456789abcdef0123456789abcdef01234567"


def checkout(folder, head, name="psimil"):
    (folder / ".git").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    (folder / ".git" / "HEAD").write_text(head)
    return folder


def test_commit_of_a_checkout(tmp_path):
    assert checkout_commit(checkout(tmp_path / "detached", SHA + "\n")) == SHA
    loose = checkout(tmp_path / "loose", "ref: refs/heads/main\n")
    assert checkout_commit(loose) is None
    (loose / ".git" / "refs" / "heads").mkdir(parents=True)
    (loose / ".git" / "refs" / "heads" / "main").write_text(SHA + "\n")
    assert checkout_commit(loose) == SHA
    packed = checkout(tmp_path / "packed", "ref: refs/heads/main\n")
    (packed / ".git" / "packed-refs").write_text(f"# pack-refs\n{'f' * 40} refs/heads/other\n{SHA} refs/heads/main\n")
    assert checkout_commit(packed) == SHA
    (packed / ".git" / "packed-refs").write_text("# pack-refs\n")
    assert checkout_commit(packed) is None


def test_no_commit_of_other_projects(tmp_path):
    assert checkout_commit(checkout(tmp_path / "other", SHA, name="another")) is None
    assert checkout_commit(checkout(tmp_path / "odd", "nonsense")) is None
    assert checkout_commit(tmp_path) is None


def test_nothing_that_names_the_user_or_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    facts = environment(7)
    assert set(facts) == {"psimil", "python", "packages", "platform", "processors", "seed", "commit"}
    assert facts["seed"] == 7 and facts["commit"] is None
