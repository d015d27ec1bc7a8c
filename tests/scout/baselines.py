#!/usr/bin/env python3
"""Two plain baselines for the scout's questions, to compare the scout with.

DIR is what `fetch` filled. Both baselines look at every text file of the package's
language (.rs or .py), tests included:

  rarest  the question's content word found in the fewest files (case ignored, as a
          substring); files ranked by how many lines match it, ties by path
  bm25    one global BM25 over whole files (k1 = 1.2, b = 0.75); identifiers split at
          case changes and underscores, lower case, light plural stripping

A question scores by the best rank among its right files; a file that matches nothing
has no rank.
"""

import argparse
import collections
import json
import math
import os
import re
import sys

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit("baselines: needs Python 3.11 or newer (for tomllib)")

HERE = os.path.dirname(os.path.abspath(__file__))
SUFFIX = {"rust": ".rs", "python": ".py"}
K1, B = 1.2, 0.75
METHODS = ("rarest", "bm25")

STOP = set(
    """a about after again all also an and any anything are as at be because been before being
    between both but by can cannot could did do does doing done down during each either else
    every for from get gets give gives given go goes had happen happens has have having he her
    here him his how however i if in into is it its itself just like made make makes may me
    might more most much must my myself no nor not now of off on once one only or other others
    our out over own rather same she should so some such than that the their them then there
    these they this those through to too under until up us use used using very via was we were
    what whatever when whenever where whether which while who whom whose why will with within
    without would yet you your""".split()
)


def words(text):
    """The words of a question or a file, split at case changes and underscores."""
    for run in re.findall(r"[^\W_]+", text):
        if run.isalpha() and (run.islower() or run.isupper()):
            yield run.lower()
            continue
        for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\dA-Za-z_]+", run):
            yield part.lower()


def stem(word):
    """Strip a plain English plural."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def content_words(question):
    """Content words in order, each once, as they stand in the question."""
    seen = {}
    for word in re.findall(r"[^\W_]+", question.lower()):
        if word not in STOP and len(word) > 2:
            seen.setdefault(word)
    return list(seen)


class Tree:
    """The source files of one package, read once."""

    def __init__(self, root, suffix):
        self.lower = {}
        self.terms = {}
        self.lengths = {}
        self.df = collections.Counter()
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(files):
                if not name.endswith(suffix):
                    continue
                full = os.path.join(folder, name)
                with open(full, "rb") as file:
                    data = file.read()
                if b"\0" in data:
                    continue
                text = data.decode("utf-8", "replace")
                path = os.path.relpath(full, root).replace(os.sep, "/")
                counts = collections.Counter(stem(w) for w in words(text))
                self.lower[path] = text.lower()
                self.terms[path] = counts
                self.lengths[path] = sum(counts.values())
                self.df.update(counts.keys())
        if not self.lower:
            sys.exit(f"baselines: no {suffix} files under {root}: run `fetch` on that folder first")
        self.mean = sum(self.lengths.values()) / len(self.lengths)

    def rarest(self, question):
        best = None
        for word in content_words(question):
            hits = [path for path, text in self.lower.items() if word in text]
            if hits and (best is None or len(hits) < len(best[1])):
                best = (word, hits)
        if best is None:
            return []
        word, hits = best
        lines = {
            path: sum(word in line for line in self.lower[path].split("\n")) for path in hits
        }
        return sorted(hits, key=lambda path: (-lines[path], path))

    def bm25(self, question):
        total = len(self.lower)
        scores = collections.defaultdict(float)
        for term in dict.fromkeys(stem(w) for w in words(question) if w not in STOP):
            n = self.df.get(term, 0)
            if not n:
                continue
            idf = math.log(1 + (total - n + 0.5) / (n + 0.5))
            for path, counts in self.terms.items():
                tf = counts.get(term, 0)
                if tf:
                    norm = K1 * (1 - B + B * self.lengths[path] / self.mean)
                    scores[path] += idf * tf * (K1 + 1) / (tf + norm)
        return sorted(scores, key=lambda path: (-scores[path], path))


def best_rank(ranking, right):
    return next((i for i, path in enumerate(ranking, 1) if path in right), None)


def summary(rows):
    """Questions, top-1, top-3 and MRR of both methods over some rows."""
    out = {"questions": len(rows)}
    for method in METHODS:
        ranks = [row[method] for row in rows]
        n = len(ranks) or 1
        out[method] = {
            "top1": sum(r == 1 for r in ranks) / n,
            "top3": sum(r is not None and r <= 3 for r in ranks) / n,
            "mrr": sum(1 / r for r in ranks if r) / n,
        }
    return out


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with each question's ranks")
    parser.add_argument("--questions", default=os.path.join(HERE, "questions.toml"), metavar="FILE")
    parser.add_argument("data", metavar="DIR", help="the folder that `fetch` filled")
    args = parser.parse_args()

    with open(args.questions, "rb") as file:
        spec = tomllib.load(file)
    rows = []
    for package in spec["package"]:
        root = os.path.join(args.data, f"{package['name']}-{package['version']}")
        if not os.path.isdir(root):
            sys.exit(f"baselines: {root} is missing: run `fetch {args.data}` first")
        tree = Tree(root, SUFFIX[package["language"]])
        for number, question in enumerate(spec["question"], 1):
            if question["package"] != package["name"]:
                continue
            for path in question["files"]:
                if path not in tree.lower:
                    sys.exit(f"baselines: question {number} names {path}, which is not in {root}")
            row = {"number": number, "package": package["name"], "split": question["split"]}
            for method in METHODS:
                ranking = getattr(tree, method)(question["text"])
                row[method] = best_rank(ranking, set(question["files"]))
            rows.append(row)

    groups = []
    for name in [p["name"] for p in spec["package"]] + ["all"]:
        for split in ("dev", "test", "all"):
            chosen = [
                r for r in rows
                if (name == "all" or r["package"] == name) and (split == "all" or r["split"] == split)
            ]
            groups.append({"package": name, "split": split, **summary(chosen)})

    if args.json:
        json.dump({"groups": groups, "questions": rows}, sys.stdout, indent=1)
        print()
        return
    print(f"{'':<18}{'':>5}   {'rarest word':^20}   {'global BM25':^20}")
    head = f"{'top-1':>6}{'top-3':>7}{'MRR':>7}"
    print(f"{'package':<12}{'split':<6}{'n':>5}   {head}   {head}")
    for group in groups:
        cells = "   ".join(
            f"{group[m]['top1']:>6.0%}{group[m]['top3']:>7.0%}{group[m]['mrr']:>7.2f}" for m in METHODS
        )
        print(f"{group['package']:<12}{group['split']:<6}{group['questions']:>5}   {cells}")


if __name__ == "__main__":
    main()
