"""Fetching: what it shares, what it survives, and what it says."""

import multiprocessing
import shutil
import subprocess
from concurrent.futures import ProcessPoolExecutor

import pytest

from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.connectors.git import command as git_command
from knowledge_pipeline.connectors.git.command import build_environment, build_remote
from knowledge_pipeline.connectors.git.mirror import Mirror
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import ConfigError, SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.connectors.repositories import Repository, listed, over_git, read
from knowledge_pipeline_tests.fakes.git_server import GitFault, GitServer


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Nobody waits long before the next attempt."""
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)


def mirrors(cache):
    return sorted(path for path in (cache / "mirrors").iterdir() if path.is_dir())


def mirror_of(source, cache):
    return Mirror(build_remote(source.connection), cache)


def test_all_sources_of_a_repository_share_one_mirror(repository, cache):
    repository.write({"a.py": "1", "README.md": "# A", "api.yaml": "openapi: 3.1.0\n"}).commit()
    for type_ in ("code", "markdown", "openapi", "git_history"):
        assert len(listed(over_git(type_, repository.root), cache)) >= 1
    assert len(mirrors(cache)) == 1


def test_a_second_listing_fetches_only_what_is_new(repository, cache):
    repository.write({f"{number}.py": "x" * 1000 + str(number) for number in range(50)}).commit()
    source = over_git("code", repository.root)
    listed(source, cache)
    [mirror] = mirrors(cache)
    packs = set((mirror / "repository.git/objects/pack").iterdir())
    repository.write({"new.py": "1"}).commit()
    assert "new.py" in listed(source, cache)
    assert packs <= set((mirror / "repository.git/objects/pack").iterdir())


def test_a_branch_that_is_gone_leaves_the_mirror(repository, cache):
    repository.write({"a.py": "1"}).commit()
    repository.git("branch", "old")
    source = over_git("code", repository.root, branch="old")
    assert set(listed(source, cache)) == {"a.py"}
    repository.git("branch", "-D", "old")
    with pytest.raises(SourceRefused, match="no branch 'old'"):
        listed(source, cache)


def test_a_forced_push_is_followed(repository, cache):
    repository.write({"a.py": "1"}).commit()
    repository.write({"b.py": "1"}).commit()
    assert set(listed(over_git("code", repository.root), cache)) == {"a.py", "b.py"}
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.write({"c.py": "1"}).commit()
    assert set(listed(over_git("code", repository.root), cache)) == {"a.py", "c.py"}


def test_what_a_killed_clone_left_is_removed(repository, cache):
    repository.write({"a.py": "1"}).commit()
    source = over_git("code", repository.root)
    folder = mirror_of(source, cache).folder
    leftover = folder.parent / f"{folder.name}.new-killed"
    (leftover / "repository.git/objects").mkdir(parents=True)
    assert set(listed(source, cache)) == {"a.py"}
    assert mirrors(cache) == [folder]


def test_a_lock_that_a_killed_fetch_left_is_no_obstacle(repository, cache):
    repository.write({"a.py": "1"}).commit()
    source = over_git("code", repository.root)
    listed(source, cache)
    (mirror_of(source, cache).repository / "refs/heads/main.lock").touch()
    (mirror_of(source, cache).repository / "packed-refs.lock").touch()
    repository.write({"b.py": "1"}).commit()
    assert set(listed(source, cache)) == {"a.py", "b.py"}


def damage_refs(git):
    (git / "refs/heads/main").write_text("0" * 39 + "1\n")


def damage_config(git):
    (git / "config").write_text("[broken")


def damage_head(git):
    (git / "HEAD").unlink()


def damage_objects(git):
    shutil.rmtree(git / "objects")
    (git / "objects").mkdir()


def damage_all(git):
    shutil.rmtree(git)
    git.mkdir()


@pytest.mark.parametrize("damage", [damage_refs, damage_config, damage_head, damage_objects, damage_all])
def test_a_damaged_mirror_is_cloned_anew(repository, cache, damage):
    repository.write({"a.py": "1"}).commit()
    source = over_git("code", repository.root)
    listed(source, cache)
    damage(mirror_of(source, cache).repository)
    repository.write({"b.py": "1"}).commit()
    assert {document.text for document in read(source, cache).values()} == {"1"}


def test_a_file_lost_from_the_mirror_is_told_and_the_next_refresh_has_it(repository, cache):
    repository.write({"a.py": "1"}).commit()
    source = over_git("code", repository.root)
    [item] = listed(source, cache).values()
    blob = item.locator.partition(":")[0]
    git = mirror_of(source, cache).repository
    packs = list((git / "objects/pack").glob("*.pack"))
    for pack in packs:  # loose objects can be lost one by one
        moved = pack.rename(cache / pack.name)
        subprocess.run(["git", "unpack-objects", "-q"], cwd=git, stdin=moved.open("rb"), check=True)
        pack.with_suffix(".idx").unlink()
    (git / "objects" / blob[:2] / blob[2:]).unlink()
    with open_source(source, cache=cache) as opened, pytest.raises(SourceUnavailable, match="damaged"):
        opened.fetch(item)
    assert read(source, cache)["a.py"].text == "1"


def listed_in_process(arguments):
    source, cache = arguments
    return sorted(listed(source, cache))


@pytest.mark.slow
def test_processes_that_fetch_at_once_wait_for_each_other(repository, cache):
    repository.write({"a.py": "1"}).commit()
    source = over_git("code", repository.root)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(3, mp_context=spawn) as pool:  # which, unlike Pool, ends its workers in peace
        assert list(pool.map(listed_in_process, [(source, cache)] * 6)) == [["a.py"]] * 6
    assert len(mirrors(cache)) == 1


def test_a_repository_that_does_not_exist_is_refused(tmp_path, cache):
    with pytest.raises(SourceRefused, match=r"refuses us or does not exist .*: check connection\.url"):
        listed(over_git("code", tmp_path / "nowhere"), cache)
    assert mirrors(cache) == []


def test_a_repository_that_vanishes_is_an_error_and_not_an_empty_listing(repository, cache):
    repository.write({"a.py": "1"}).commit()
    source = over_git("code", repository.root)
    listed(source, cache)
    hidden = repository.root.rename(repository.root.with_name("hidden"))
    with pytest.raises(SourceRefused):
        listed(source, cache)
    hidden.rename(repository.root)
    assert set(listed(source, cache)) == {"a.py"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, SourceRefused),
        (403, SourceRefused),
        (404, SourceRefused),
        (410, SourceRefused),
        (429, SourceUnavailable),
        (500, SourceUnavailable),
        (503, SourceUnavailable),
    ],
)
def test_an_answer_of_the_server_is_permanent_or_worth_a_retry(tmp_path, cache, status, error):
    with GitServer(tmp_path) as server:
        server.git_fault = GitFault(status)
        with pytest.raises(error, match=r"git repository http://127\.0\.0\.1"):
            listed(over_git("code", f"{server.url}/x.git"), cache)


@pytest.mark.parametrize("status", [429, 503])
def test_what_may_pass_is_fetched_again_and_what_cannot_is_not(tmp_path, cache, status):
    Repository(tmp_path / "served/x.git").write({"a.py": "1"}).commit()
    with GitServer(tmp_path / "served") as server:
        source = over_git("code", f"{server.url}/x.git")
        server.git_fault = GitFault(status, times=2)
        assert set(listed(source, cache)) == {"a.py"}
        asked = len(server.requests)
        server.git_fault = GitFault(403)
        with pytest.raises(SourceRefused):
            listed(source, cache)
        assert len(server.requests) == asked + 1


def test_a_server_that_is_down_is_worth_a_retry(tmp_path, cache):
    with GitServer(tmp_path) as server:
        url = server.url
    with pytest.raises(SourceUnavailable, match="did not answer"):
        listed(over_git("code", f"{url}/x.git"), cache)


def test_a_host_that_has_no_address_is_worth_a_retry(cache):
    with pytest.raises(SourceUnavailable):
        listed(over_git("code", "https://host.invalid/x.git"), cache)


TOKEN = "not-a-" + "real-token"


@pytest.fixture
def guarded(tmp_path):
    Repository(tmp_path / "served/private.git").write({"a.py": "1"}).commit()
    with GitServer(tmp_path / "served", token=TOKEN) as server:
        yield server


def test_a_token_opens_a_private_repository(guarded, cache):
    source = over_git("code", f"{guarded.url}/private.git", token=TOKEN)
    assert set(listed(source, cache)) == {"a.py"}


def test_a_password_in_the_url_is_used_and_kept_out_of_the_arguments(guarded, cache, monkeypatch):
    started = []
    monkeypatch.setattr(
        git_command,
        "build_command",
        lambda *a, was=git_command.build_command: started.append(was(*a)) or was(*a),
    )
    url = guarded.url.replace("http://", f"http://user:{TOKEN}@")
    assert set(listed(over_git("code", f"{url}/private.git"), cache)) == {"a.py"}
    assert started
    assert TOKEN not in str(started)
    for file in cache.rglob("*"):
        assert TOKEN not in str(file)
        assert not file.is_file() or TOKEN.encode() not in file.read_bytes()


def test_a_wrong_token_is_refused_at_once_and_never_shown(guarded, cache):
    wrong = "quite-" + "wrong"
    sources = [
        over_git("code", f"{guarded.url}/private.git", token=wrong),
        over_git("code", f"{guarded.url.replace('://', f'://user:{wrong}@')}/private.git"),
        over_git("code", f"{guarded.url}/private.git"),
    ]
    for source in sources:
        with pytest.raises(SourceRefused, match=r"check connection\.url and token") as refused:
            listed(source, cache)
        assert wrong not in str(refused.value)
        assert wrong not in repr(build_remote(source.connection))


def test_a_token_is_not_sent_unencrypted():
    with pytest.raises(ConfigError, match="is not https") as refused:
        build_remote(over_git("code", "http://example.org/x.git", token=TOKEN).connection)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    ["--upload-pack=touch pwned", "-u", "ext::sh -c 'touch pwned'", "fd::17", "https://a/b\nc", "foo::bar"],
)
def test_an_address_that_could_run_something_is_not_allowed(url, cache):
    with pytest.raises(ConfigError, match="is not allowed: use https://"):
        open_source(over_git("code", url), cache=cache)


def test_hooks_and_settings_of_the_surroundings_are_not_obeyed(repository, cache, monkeypatch):
    repository.write({"a.py": "1"}).commit()
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "log.showSignature")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "true")
    assert "GIT_DIR" not in build_environment()
    assert set(listed(over_git("code", repository.root), cache)) == {"a.py"}
