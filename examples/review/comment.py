#!/usr/bin/env python3
"""Keeps one comment with Lehr's plan on a pull request of GitHub or a merge request of GitLab.

    lehr plan --review -o json > review.json
    python3 comment.py github review.json      # or gitlab

A comment that begins with the plan's marker is brought up to date; where there is none, one is
made. Comments of other partitions, and of people, are left alone. Needs Python 3.9 and nothing
else. It asks the environment:

    GitHub   GITHUB_API_URL (https://api.github.com), GITHUB_REPOSITORY (OWNER/NAME),
             PULL_REQUEST (its number), GITHUB_TOKEN (may write pull requests)
    GitLab   CI_API_V4_URL (https://gitlab.com/api/v4), CI_PROJECT_ID,
             CI_MERGE_REQUEST_IID, GITLAB_TOKEN (scope api)
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

PER_PAGE = 100
MOST_PAGES = 50


def setting(name, default=None):
    value = os.environ.get(name) or default
    if not value:
        sys.exit(f"comment.py: {name} is not set; the top of this file says what it is")
    return value


class Host:
    """comments is the URL that lists comments and takes new ones; one is changed below item."""

    def __init__(self, comments, item, change, headers):
        self.comments, self.item, self.change = comments, item, change
        self.headers = {"Content-Type": "application/json", "User-Agent": "lehr-review", **headers}

    def ask(self, method, url, body=None):
        data = None if body is None else json.dumps({"body": body}).encode()
        request = urllib.request.Request(url, data, self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read(500).decode(errors="replace")
            sys.exit(f"comment.py: {method} {url}: {error.code} {error.reason}: {text}")
        except (urllib.error.URLError, ValueError) as error:
            sys.exit(f"comment.py: {method} {url}: {error}")

    def find(self, marker):
        for page in range(1, MOST_PAGES + 1):
            found = self.ask("GET", f"{self.comments}?per_page={PER_PAGE}&page={page}")
            for comment in found:
                if comment["body"].startswith(marker):
                    return comment
            if len(found) < PER_PAGE:
                return None
        sys.exit(f"comment.py: {self.comments} has more than {MOST_PAGES * PER_PAGE} comments")

    def keep(self, marker, text):
        existing = self.find(marker)
        if existing is None:
            self.ask("POST", self.comments, text)
            return "made"
        if existing["body"] == text:
            return "as it was"
        self.ask(self.change, f"{self.item}/{existing['id']}", text)
        return "brought up to date"


def github():
    api = setting("GITHUB_API_URL", "https://api.github.com").rstrip("/")
    issues = f"{api}/repos/{setting('GITHUB_REPOSITORY')}/issues"
    return Host(
        f"{issues}/{setting('PULL_REQUEST')}/comments", f"{issues}/comments", "PATCH",
        {"Authorization": "Bearer " + setting("GITHUB_TOKEN"), "Accept": "application/vnd.github+json"},
    )


def gitlab():
    api = setting("CI_API_V4_URL", "https://gitlab.com/api/v4").rstrip("/")
    project = urllib.parse.quote(setting("CI_PROJECT_ID"), safe="")
    notes = f"{api}/projects/{project}/merge_requests/{setting('CI_MERGE_REQUEST_IID')}/notes"
    return Host(notes, notes, "PUT", {"PRIVATE-TOKEN": setting("GITLAB_TOKEN")})


def main(arguments):
    hosts = {"github": github, "gitlab": gitlab}
    if len(arguments) != 2 or arguments[0] not in hosts:
        sys.exit("usage: comment.py github|gitlab REVIEW.json")
    try:
        with open(arguments[1], encoding="utf-8") as file:
            review = json.load(file)
        marker, text = review["marker"], review["markdown"]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"comment.py: {arguments[1]} is not what lehr plan --review -o json printed: {error}")
    print("The comment was", hosts[arguments[0]]().keep(marker, text.rstrip("\n")) + ".")


if __name__ == "__main__":
    main(sys.argv[1:])
