"""rookery_report: a page of a run that needs nothing but itself."""

import html.parser
import json
import signal
import unittest

from whole import WholeTest

EMPTY = {"meta", "path", "rect", "line"}  # elements of the page that have no end


class Page(html.parser.HTMLParser):
    """Its texts, and whether each element is closed where it should be."""

    def __init__(self, document):
        super().__init__()
        self.open, self.texts, self.links = [], [], []
        self.feed(document)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data.strip())

    def has(self, part):
        return any(part in text for text in self.texts)


class Report(WholeTest):
    def page(self, *arguments):
        self.run_program("rookery_report", *arguments)
        return Page((self.folder / "report.html").read_text())

    def test_of_a_run_that_ended(self):
        self.write_settings(epochs=3)
        self.run_program("clusterize")
        self.run_program("launch")
        page = self.page()
        self.assertEqual(page.links, [])
        self.assertTrue(page.has("trained to its end on all nodes"))
        self.assertTrue(page.has(f"{float(self.losses()[-1]):.5g} at step {len(self.losses())};"))
        accuracies = [float(line) for line in (self.folder / "val_accuracies.txt").read_text().split()]
        self.assertTrue(page.has(f"{accuracies[-1]:.2f} %; at best {max(accuracies):.2f} %"))
        for heading in ("Curves", "Predicted and measured", "Plan", "A step, simulated", "Settings"):
            self.assertIn(heading, page.texts)
        self.assertFalse(page.has("Not on this page"))
        end = json.loads((self.folder / "runs" / "cnn_net" / "node_1.json").read_text())
        self.assertEqual(end["event"], "done")
        measured = end["times"]["step_ms"]
        self.assertTrue(page.has(f"{measured['predicted']:.4g} → {measured['measured']:.4g}"))

    def test_of_a_run_that_was_stopped_and_of_none(self):
        self.write_settings(epochs=60)
        self.run_program("clusterize")
        page = self.page()
        self.assertTrue(page.has("0 of 3 nodes have ended"))
        self.assertTrue(page.has("metrics.jsonl, which the Leaf"))
        launch = self.start("launch")
        self.wait_for(lambda: len(self.losses()) > 100, "step 100")
        launch.popen.send_signal(signal.SIGTERM)
        self.assertNotEqual(launch.wait(), 0)
        self.assertTrue(self.page().has("3 of 3 nodes failed"))
        self.write_pool(2)
        self.run_program("clusterize")
        page = self.page()
        self.assertTrue(page.has("0 of 2 nodes have ended"), "the ends are those of another plan")

    def test_without_a_plan(self):
        _, errors = self.run_program("rookery_report", "--node-data", "nowhere", code=1)
        self.assertIn("nowhere/plan.json", errors)
        self.write_settings()
        self.run_program("clusterize")
        (self.node_data / "plan.json").write_text("{}")
        _, errors = self.run_program("rookery_report", code=1)
        self.assertIn("plan.json", errors)


if __name__ == "__main__":
    unittest.main()
