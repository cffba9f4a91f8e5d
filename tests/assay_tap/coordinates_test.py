"""A record's place in a run, and headers of several sequences."""

import json
import unittest

import numpy as np
import writer_test
from assay_tap import LogError, LogWriter

SAID = dict(sequence='chat "7"', step=0, phase="prefill", rank={"ep": 2, "tp": 1}, dims="t h[tp]")


class Coordinates(writer_test.Folder):
    def places(self, *told, **options):
        """What stands between token_idx and values, for each of `told`."""
        with LogWriter(self.path, summary=False, **options) as log:
            for where in told:
                log.write("x", 3, [1.0, 2.0], **where)
        return [line.partition('"token_idx":3')[2].partition(',"values"')[0] for line in self.lines()]

    def test_stand_where_the_program_has_them(self):
        """Breaks if the bytes were not those of `assay convert` (which tap_test holds the C header to)."""
        plain, told, decoding, part = self.places(
            {},
            SAID,
            dict(sequence=5, step=np.int64(12), phase="decode", rank={"pp": 3}),
            dict(rank={"sp": 3}, dims="t h +[tp]"),
        )
        self.assertEqual(plain, ',"dtype":"f32","shape":[1,2]')
        self.assertEqual(told, r',"sequence":"chat \"7\"","step":0,"phase":"prefill","rank":{"tp":1,"pp":0,"ep":2},'
                               '"dtype":"f32","shape":[1,2],"dims":"t h[tp]"')  # fmt: skip
        self.assertEqual(decoding, ',"sequence":"5","step":12,"phase":"decode","rank":{"tp":0,"pp":3,"ep":0}' + plain)
        self.assertEqual(part, f',"rank":{{"tp":0,"pp":0,"ep":0,"sp":3}}{plain},"dims":"t h +[tp]"')

    def test_the_first_sequence_is_not_named(self):
        for name in (None, 0, "0"):
            self.assertEqual(self.places(dict(sequence=name)), self.places({}))

    def test_a_writer_of_one_process_says_its_rank_once(self):
        own, other = self.places({}, dict(rank={"tp": 2}), rank={"tp": 1})
        self.assertIn('"rank":{"tp":1,"pp":0,"ep":0}', own)
        self.assertIn('"rank":{"tp":2,"pp":0,"ep":0}', other)

    def test_the_reader_takes_them(self):
        with LogWriter(self.path, values=None) as log:
            log.write_rows("layer_0_output", [0, 1], np.ones((2, 4)), sequence="a", step=1, phase="prefill", dims="t h")
        answer = writer_test.assay("analyze", self.path, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(answer.stdout)["records"], 2)

    def test_what_makes_no_sense_is_refused_and_not_written(self):
        for where, said in (
            (dict(step=-1), "the step -1 is not a whole number from 0 to 9223372036854775807"),
            (dict(step=True), "the step True"),
            (dict(step=np.True_), "the step "),
            (dict(step=1.0), "the step 1.0"),
            (dict(step=2**63), "the step 9223372036854775808"),
            (dict(sequence=True), "the sequence True is neither a name nor a whole number"),
            (dict(sequence=1.5), "the sequence 1.5"),
            (dict(sequence=""), "the sequence ''"),
            (dict(sequence=b"a"), "the sequence b'a'"),
            (dict(sequence=2**70), "the sequence 1180591620717411303424"),
            (dict(phase="train"), "the phase 'train' is neither prefill nor decode"),
            (dict(rank={"dp": 1}), "is not a dict of tp, pp, ep, sp"),
            (dict(rank={"tp": -1}), "numbers from 0 to 32767"),
            (dict(rank={"tp": 2**15}), "numbers from 0 to 32767"),
            (dict(rank={"tp": True}), "numbers from 0 to 32767"),
            (dict(rank=1), "the rank 1 is not a dict"),
            (dict(dims="t h[zz]"), r"the dims 't h\[zz\]' are not as in"),
            (dict(dims="t[tp] h[ep,tp]"), "are not as in"),
            (dict(dims="t h d"), r"the dims 't h d' name 3 axes of the shape \[1, 2\]"),
        ):
            with self.subTest(where), self.assertRaisesRegex(LogError, said) as raised:
                self.places(where)
            self.assertTrue(str(raised.exception).startswith(f"{self.path}: checkpoint 'x' at 3: "))
            self.assertEqual(self.lines(), [])
        with self.assertRaisesRegex(LogError, "the rank 'tp' is not"):
            LogWriter(self.path, rank="tp")


class Headers(writer_test.Folder):
    def test_several_sequences_have_their_tokens_and_names(self):
        with LogWriter(self.path) as log:
            log.header([[1, 2], np.array([3])], sequences=["0", "b"], engine="e")
        self.assertIn('},"tokens":[[1,2],[3]],"sequences":["0","b"],"engine":"e"', self.lines()[0])
        with LogWriter(self.path) as log, self.assertRaisesRegex(LogError, "2 names of sequences for 1 lists of tokens"):
            log.header([[1, 2]], sequences=["0", "b"])

    def test_what_the_reader_would_refuse_or_take_for_another_is_not_written(self):
        """Breaks if a token were rounded, or if an engine learned of a bad header only when the log is read."""
        for said, problem in (
            (dict(tokens=[1.7]), "the token 1.7 is not a whole number"),
            (dict(tokens=[True]), "the token True"),
            (dict(tokens=np.ones(2)), "the token "),
            (dict(tokens=[2**70]), "the token 1180591620717411303424"),
            (dict(tokens=[[1]], sequences=[False]), "the sequence False"),
            (dict(ranks={"dp": 2}), "is not a dict of tp, pp, ep, sp"),
            (dict(ranks={"tp": 0}), "numbers from 1 to 32768"),
        ):
            with self.subTest(said), LogWriter(self.path) as log:
                with self.assertRaisesRegex(LogError, f"{self.path}: the header: .*{problem}"):
                    log.header(**said)
            self.assertEqual(self.lines(), [])
        with LogWriter(self.path) as log:
            log.header(np.array([3, 4], np.int16), ranks={"tp": 32768})
        self.assertIn('"tokens":[3,4],', self.lines()[0])


if __name__ == "__main__":
    unittest.main()
