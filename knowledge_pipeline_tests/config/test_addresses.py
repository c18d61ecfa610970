"""Addresses of git repositories: what is refused, and that git opens what the parser says."""

from __future__ import annotations

import pytest

from knowledge_pipeline.config.addresses import parse_git_address
from knowledge_pipeline.config.connections import GitConnection
from knowledge_pipeline.connectors.git.command import build_remote, run_git


@pytest.mark.parametrize(
    ("text", "scheme", "host", "path"),
    [
        ("https://github.com/acme/shop.git", "https", "github.com", "/acme/shop.git"),
        ("HTTPS://GitHub.com:443/acme/shop?x=1#y", "https", "github.com", "/acme/shop"),
        ("https://ann:secret@git.example/x", "https", "git.example", "/x"),
        ("http://[::1]:8080/x", "http", "::1", "/x"),
        ("ssh://git@git.example:2222/x", "ssh", "git.example", "/x"),
        ("git+ssh://git.example/x", "ssh", "git.example", "/x"),
        ("git@git.example:acme/my shop.git", "ssh", "git.example", "acme/my shop.git"),
        ("[::1]:x", "ssh", "[::1]", "x"),
        ("file:///srv/a%20b%2e", "file", "", "/srv/a b."),
        ("FILE:///srv/x", "file", "", "/srv/x"),
        ("/srv/my repo:x", "file", "", "/srv/my repo:x"),
        ("./a:b/x", "file", "", "./a:b/x"),
        ("a/b:c", "file", "", "a/b:c"),
    ],
)
def test_an_address_is_read_as_git_reads_it(text, scheme, host, path):
    address = parse_git_address(text)
    assert (address.scheme, address.host, address.path) == (scheme, host, path)
    assert "secret" not in address.url


@pytest.mark.parametrize(
    "text",
    [
        *("", " file:///etc", "file:///etc\t", "\x00/etc", "fi\nle:///etc", "/etc\x7f"),
        *("file:/etc", "file:etc", "file://etc", "file:////etc", "file:///etc%00", "file:///a b"),
        *("https://a b/x", "https://*/x", "https://a\\@b/x", "https://ａ.example/x", "https://%61/x"),
        *("ext::sh -c id", "foo::bar", "ftp://a/x", "rsync://a/x", "x/file:///etc", "://x", "https:///x"),
        *("-u", "//host/share", "\\\\host\\share", "ssh://-oProxyCommand=id/x", "ssh://-l@host/x", "${X}:y"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_git_address(text)


@pytest.mark.parametrize("form", ["{}", "file://{}", "FILE://{}", "file://{}/../%74arget"])
def test_git_opens_the_folder_that_the_parser_says(form, tmp_path):
    folder = tmp_path / "target"
    run_git(["init", "--quiet", str(folder)], repository=None)
    run_git(["-C", str(folder), *AUTHOR, "commit", "--quiet", "--allow-empty", "-m", "x"], repository=None)
    connection = GitConnection(type="git", url=form.format(folder))
    remote = build_remote(connection)
    listed = run_git(
        ["ls-remote", "--", remote.url], repository=None, extra_environment=remote.build_environment()
    )
    head = run_git(["rev-parse", "HEAD"], repository=folder / ".git")
    assert listed.split()[0] == head.strip()
    assert (tmp_path / connection.address.path).resolve() == folder


AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b.example")
