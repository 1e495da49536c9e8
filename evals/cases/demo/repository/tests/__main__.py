"""Runs the suite; `--junit FILE` writes JUnit XML as well."""

import os
import sys
import time
import unittest
from xml.etree import ElementTree


class Recorder(unittest.TextTestResult):
    """Keeps every outcome, in order."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []
        self._started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._started = time.monotonic()

    def _keep(self, test, kind, message=""):
        class_name, _, name = test.id().rpartition(".")
        self.cases.append((class_name, name, kind, message, time.monotonic() - self._started))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._keep(test, None)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._keep(test, "failure", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self._keep(test, "error", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._keep(test, "skipped", reason)


def write_junit(path, cases):
    """Write the outcomes as JUnit XML."""
    suite = ElementTree.Element("testsuite", name="shop", tests=str(len(cases)))
    for class_name, name, kind, message, seconds in cases:
        case = ElementTree.SubElement(
            suite, "testcase", classname=class_name, name=name, time=f"{seconds:.3f}"
        )
        if kind:
            ElementTree.SubElement(case, kind, message=message.strip()[-200:]).text = message
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main():
    """Run all tests below this folder; exit 1 when one fails."""
    suite = unittest.defaultTestLoader.discover(os.path.dirname(__file__), top_level_dir=".")
    result = unittest.TextTestRunner(resultclass=Recorder, verbosity=2).run(suite)
    if sys.argv[1:2] == ["--junit"]:
        write_junit(sys.argv[2], result.cases)
    sys.exit(not result.wasSuccessful())


main()
