"""Responses of servers, made here from their documentation: response_test.py ASSAY; exit 77 without torch.

responses.tar.xz holds what llama-server of the llama.cpp in llama_cpp_python 0.3.36 answered of a Llama of two layers, F32,
with 32,000 tokens: completion.json to /completion, v1_completions.json to /v1/completions. It keeps its cache in F16.

What would break: a log-probability that is held to another token or position, a list that is taken for complete where it
is not, an answer that is not the likeliest one and is compared with other tokens, a response that says too little and
passes.
"""

import json
import sys
import tarfile
from pathlib import Path

from dump_case import DumpCase, np, unittest

PROMPT = [1, 5, 9, 2, 7]
SIZE = 48
K = 4


def log_softmax(rows):
    shifted = rows - rows.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


class Responses(DumpCase):
    def setUp(self):
        super().setUp()
        random = np.random.default_rng(7)
        self.logits = random.normal(size=(len(PROMPT) + 2, SIZE)).astype(np.float32) * 3
        self.logprobs = log_softmax(self.logits.astype(np.float64))
        self.answer = [int(row.argmax()) for row in self.logits[len(PROMPT) - 1 :]]
        self.reference = self.log({"logits": self.logits}, tokens=PROMPT)

    def top(self, position, count=K):
        row = self.logprobs[position]
        return [(int(i), float(row[i])) for i in np.argsort(-row)[:count]]

    def answered(self):
        """Position and token of each of the answer."""
        return [(len(PROMPT) - 1 + i, token) for i, token in enumerate(self.answer)]

    def llama_server(self):
        def entry(token, logprob):
            return {"id": token, "token": "x", "bytes": [120], "logprob": logprob}

        tokens = [{**entry(token, self.logprobs[position][token]), "top_logprobs": [entry(*each) for each in self.top(position)]}
                  for position, token in self.answered()]  # fmt: skip
        return {"content": "xxx", "tokens": [*self.answer], "tokens_evaluated": len(PROMPT), "completion_probabilities": tokens}

    def chat(self, by_id):
        """choices[].logprobs.content: with ids as llama-server has them, or with vLLM's texts."""
        def entry(token, logprob):
            return {"token": f"token_id:{token}", "logprob": logprob, "bytes": None} | ({"id": token, "token": "x"} if by_id else {})

        content = [{**entry(token, self.logprobs[position][token]), "top_logprobs": [entry(*each) for each in self.top(position)]}
                   for position, token in self.answered()]  # fmt: skip
        return {"object": "chat.completion", "choices": [{"index": 0, "logprobs": {"content": content}}],
                "usage": {"prompt_tokens": len(PROMPT)}}  # fmt: skip

    def vllm(self, extra=()):
        """v1/completions with prompt_logprobs, logprobs, return_tokens_as_token_ids and return_token_ids."""
        prompt = [None]
        for i, token in enumerate(PROMPT[1:]):
            order = np.argsort(-self.logprobs[i])
            shown = {*map(int, order[:K]), token, *extra}
            prompt.append({str(each): {"logprob": float(self.logprobs[i][each]), "rank": int(np.where(order == each)[0][0]) + 1,
                                       "decoded_token": "x"} for each in shown})  # fmt: skip
        logprobs = {"tokens": [f"token_id:{token}" for token in self.answer],
                    "token_logprobs": [float(self.logprobs[position][token]) for position, token in self.answered()],
                    "top_logprobs": [{f"token_id:{i}": value for i, value in self.top(position)} for position, _ in self.answered()],
                    "text_offset": []}  # fmt: skip
        return {"object": "text_completion", "usage": {"prompt_tokens": len(PROMPT)},
                "choices": [{"index": 0, "logprobs": logprobs, "prompt_logprobs": prompt, "prompt_token_ids": PROMPT,
                             "token_ids": [*self.answer]}]}  # fmt: skip

    def vllm_echo(self):
        """v1/completions with echo and logprobs: the prompt's tokens come first."""
        tokens = [*PROMPT, *self.answer]
        logprobs = {"tokens": [f"token_id:{token}" for token in tokens],
                    "token_logprobs": [None, *(float(self.logprobs[i][token]) for i, token in enumerate(tokens[1:]))],
                    "top_logprobs": [None]}  # fmt: skip
        for i, token in enumerate(tokens[1:]):
            shown = dict(self.top(i)) | {token: float(self.logprobs[i][token])}
            logprobs["top_logprobs"].append({f"token_id:{each}": value for each, value in shown.items()})
        return {"usage": {"prompt_tokens": len(PROMPT)}, "choices": [{"logprobs": logprobs}]}

    def sglang(self):
        """/generate with return_logprob, logprob_start_len 0 and top_logprobs_num."""
        def triples(position):
            return [[value, token, None] for token, value in self.top(position)]

        return {"text": "xxx", "output_ids": [*self.answer], "meta_info": {
            "prompt_tokens": len(PROMPT), "completion_tokens": len(self.answer),
            "input_token_logprobs": [[None, PROMPT[0], None],
                                     *([float(self.logprobs[i][t]), t, None] for i, t in enumerate(PROMPT[1:]))],
            "input_top_logprobs": [None, *(triples(i) for i in range(len(PROMPT) - 1))],
            "output_token_logprobs": [[float(self.logprobs[i][t]), t, None] for i, t in self.answered()],
            "output_top_logprobs": [triples(i) for i, _ in self.answered()]}}  # fmt: skip

    def tgi(self):
        """/generate with details, decoder_input_details and top_n_tokens."""
        def token(i, value):
            return {"id": i, "text": "x", "logprob": value, "special": False}

        return {"generated_text": "xxx", "details": {
            "prefill": [{"id": t, "text": "x", "logprob": None} for t in PROMPT],
            "tokens": [token(t, float(self.logprobs[i][t])) for i, t in self.answered()],
            "top_tokens": [[token(*each) for each in self.top(i)] for i, _ in self.answered()]}}  # fmt: skip

    def imported(self, response, *arguments, code=0):
        (self.folder / "response.json").write_text(json.dumps(response))
        return self.assay("import", "response.json", "-o", "got.jsonl", "--vocabulary", SIZE, *arguments, code=code)

    def compared(self, *arguments, code, reference=None):
        report = self.assay("compare", reference or self.reference, "got.jsonl", "--format", "json", *arguments, code=code).stdout
        return json.loads(report)

    def test_each_server(self):
        whole = (f"0..{len(self.logits) - 1}", len(self.logits))
        answer = (f"{len(PROMPT) - 1}..{len(self.logits) - 1}", len(self.answer))
        for name, response, (tokens, count) in (
            ("llama-server", self.llama_server(), answer),
            ("chat of llama-server", self.chat(True), answer),
            ("chat of vLLM", self.chat(False), answer),
            ("vLLM", self.vllm(), whole),
            ("echo", self.vllm_echo(), whole),
            ("SGLang", self.sglang(), whole),
            ("SGLang's list", [self.sglang()], whole),
            ("TGI", self.tgi(), answer),
        ):
            with self.subTest(name):
                self.imported(response)
                report = self.compared("--tokens", tokens, code=0)
                self.assertEqual(report["evidence"]["partial"], count)
                self.assertEqual(report["summary"]["argmax_agree"], count)
                if count < len(self.logits):
                    self.assertEqual(self.compared(code=2)["evidence"]["unproven"], len(PROMPT) - 1)

    def test_llama_server_answers_what_the_model_computes(self):
        with tarfile.open(Path(__file__).with_name("responses.tar.xz")) as archive:
            archive.extractall(self.folder)
        config = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
                  "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
                  "rope_theta": 10000.0}  # fmt: skip
        (self.folder / "config.json").write_text(json.dumps(config))
        self.assay("synth", "config.json", "--type", "F32", "-o", "m.gguf", code=0)
        self.assay("run", "m.gguf", "--tokens", "1,5,9,2,7,3", "-n", 4, "--ignore-eos", "--backend", "cpu", "--checkpoints", "logits",
                   "--sketch", "--log", "ours.jsonl", code=0)  # fmt: skip
        for response in ("completion.json", "v1_completions.json"):
            with self.subTest(response):
                self.assay("import", response, "--vocabulary", 32000, "-o", "got.jsonl", code=0)
                report = self.compared("--tokens", "5..8", code=0, reference="ours.jsonl")
                self.assertEqual(report["evidence"]["partial"], 4)
                self.assertEqual(report["summary"]["argmax_agree"], 4)
                self.assertLess(max(result["rel_l2"] for result in report["results"]), 1e-3)
                self.assay("run", "m.gguf", "--tokens", "1,5,9,2,7,4", "-n", 4, "--ignore-eos", "--backend", "cpu", "--log",
                           "other.jsonl", "--sketch", "--checkpoints", "logits", code=0)  # fmt: skip
                self.assertGreater(self.compared("--tokens", "5..8", code=1, reference="other.jsonl")["summary"]["failed"], 0)

    def test_a_wrong_value_is_found_at_its_token(self):
        for position in range(len(self.logits)):
            for index in (0, K - 1):
                with self.subTest(position=position, index=index):
                    right = self.logprobs.copy()
                    token = self.top(position)[index][0]
                    self.logprobs[position][token] += 1.5
                    self.imported(self.sglang())
                    self.logprobs = right
                    first = self.compared(code=1)["first_divergence"]
                    self.assertEqual(first["token_idx"], position)

    def test_a_token_far_below_the_list_bounds_nothing(self):
        """Breaks if the prompt's own token, of whatever rank, were the least likely of a complete list."""
        worst = int(self.logprobs[: len(PROMPT) - 1].max(0).argmin())
        for response in (self.vllm(), self.vllm(extra=[worst]), self.vllm_echo()):
            self.imported(response)
            self.assertEqual(self.compared(code=0)["evidence"]["partial"], len(self.logits))

    def test_a_probability_of_zero_is_no_number(self):
        """Breaks if tokens of probability 0 went without a word where the others leave room for them."""
        blunt = self.llama_server()
        blunt["completion_probabilities"][0]["top_logprobs"][-1]["logprob"] = -9999.0
        self.assertIn("probability 0, and the others add up to", self.imported(blunt, code=2).stderr)
        self.logits *= 8
        self.logprobs = log_softmax(self.logits.astype(np.float64))
        self.reference = self.log({"logits": self.logits}, tokens=PROMPT)
        response = self.llama_server()
        for value in (-9999.0, -3.4028234663852886e38):
            for token in response["completion_probabilities"]:
                token["top_logprobs"][-1]["logprob"] = value
            self.imported(response)
            lengths = [len(json.loads(line)["top"]) for line in (self.folder / "got.jsonl").read_text().splitlines()[1:]]
            self.assertEqual(lengths, [K - 1] * len(self.answer))
            self.compared("--tokens", f"{len(PROMPT) - 1}..{len(self.logits) - 1}", code=0)

    def test_what_is_said_twice_of_a_token_agrees(self):
        """Breaks if the log-probability of the text's own token were held to nothing."""
        def changed(response, path, value):
            at = response
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            return response

        choice, meta = ("choices", 0, "logprobs"), ("meta_info",)
        nan = float("nan")
        for response, said in (
            (changed(self.sglang(), (*meta, "output_token_logprobs", 1, 0), -9.0), "two log-probabilities of the token"),
            (changed(self.sglang(), (*meta, "input_token_logprobs", 2, 0), 0.5), "own token"),
            (changed(self.sglang(), (*meta, "input_token_logprobs", 1, 0), nan), "states no log-probability of its own"),
            (changed(self.sglang(), (*meta, "output_top_logprobs", 0, 3, 0), nan), "states no log-probability of the token"),
            (changed(self.sglang(), (*meta, "output_top_logprobs", 0, 3, 1), self.top(len(PROMPT) - 1)[2][0]), "two log-probabilities of the token"),
            (changed(self.vllm(), (*choice, "token_logprobs", 0), "NaN"), "that is no number"),
            (changed(self.vllm(), (*choice, "token_logprobs", 1), -20.0), "two log-probabilities of the token"),
            (changed(self.tgi(), ("details", "tokens", 2, "logprob"), -7.0), "two log-probabilities of the token"),
            (changed(self.llama_server(), ("completion_probabilities", 0, "logprob"), -4.0), "two log-probabilities of the token"),
            (changed(self.llama_server(), ("tokens", 1), 3), "two tokens at place 1 of the answer"),
            (changed(self.sglang(), ("output_ids", 0), 3), "two tokens at place 0 of the answer"),
            (changed(self.vllm(), ("choices", 0, "token_ids", 2), 3), "two tokens at place 2 of the answer"),
        ):  # fmt: skip
            with self.subTest(said):
                self.assertIn(said, self.imported(response, code=2).stderr)

    def test_what_follows_a_drawn_token_of_an_unknown_prompt_is_left_out(self):
        self.answer[1] = int(np.argsort(-self.logits[len(PROMPT)])[1])
        self.assertIn("is not the likeliest: 1 place after it", self.imported(self.llama_server()).stderr)
        self.compared("--tokens", f"{len(PROMPT) - 1}..{len(PROMPT)}", code=0)

    def test_an_answer_that_was_drawn_is_part_of_the_tokens(self):
        self.answer[0] = int(np.argsort(-self.logits[len(PROMPT) - 1])[2])
        self.assertIn("not made of the likeliest tokens", self.imported(self.vllm()).stderr)
        self.assertIn("names token", self.assay("compare", self.reference, "got.jsonl", code=2).stderr)
        given = self.log({"logits": self.logits}, name="given.jsonl", tokens=[*PROMPT, *self.answer[:-1]])
        self.assertEqual(self.compared(code=0, reference=given)["evidence"]["partial"], len(self.logits))

    def test_several_answers_are_sequences(self):
        first = self.sglang()
        self.logits = self.logits[::-1].copy()
        self.logprobs = log_softmax(self.logits.astype(np.float64))
        self.answer = [int(row.argmax()) for row in self.logits[len(PROMPT) - 1 :]]
        self.imported([first, self.sglang()])
        names = [str(json.loads(line).get("sequence", 0)) for line in (self.folder / "got.jsonl").read_text().splitlines()[1:]]
        self.assertEqual(names.count("0"), len(self.logits))
        self.assertEqual(names.count("1"), len(self.logits))

    def test_what_says_too_little_is_one_line(self):
        no_usage = self.chat(True)
        del no_usage["usage"]
        texts = self.chat(False)
        texts["choices"][0]["logprobs"]["content"][0]["token"] = " the"
        numbers = self.vllm()
        numbers["choices"][0]["logprobs"]["top_logprobs"][0] = {"12": -1.0}
        alone = self.llama_server()
        for token in alone["completion_probabilities"]:
            token["top_logprobs"] = []
        after = self.llama_server()
        after["completion_probabilities"][0]["top_logprobs"][0] = {"id": 1, "prob": 0.5}
        part = self.sglang()
        part["meta_info"]["input_token_logprobs"] = part["meta_info"]["input_token_logprobs"][3:]
        part["meta_info"]["input_top_logprobs"] = part["meta_info"]["input_top_logprobs"][3:]
        twice = self.llama_server()
        twice["completion_probabilities"][0]["top_logprobs"][1] = twice["completion_probabilities"][0]["top_logprobs"][0]
        for response, said in (
            (no_usage, "does not say how many tokens the prompt has"),
            (texts, "names tokens by their texts"),
            (numbers, "names tokens by their texts"),
            (alone, "lists no likeliest tokens"),
            (after, "has probabilities after sampling"),
            (part, "log-probabilities of 2 of 5 tokens of the prompt"),
            (twice, "twice in one place"),
            ({"choices": []}, "lists no likeliest tokens"),
            ({"choices": [{}]}, "does not say how many tokens"),
            ({"choices": [7]}, "does not say how many tokens"),
            ({"meta_info": []}, "does not say how many tokens"),
            ([{"choices": []}, 5], "is no response with log-probabilities"),
            ({"completion_probabilities": [1], "tokens_evaluated": 2}, "names tokens by their texts"),
            ({"meta_info": {"prompt_tokens": 1, "output_token_logprobs": [[1, 2]], "output_top_logprobs": [[5]]}}, "no [logprob, id"),
        ):  # fmt: skip
            with self.subTest(said):
                answer = self.imported(response, code=2)
                self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
                self.assertIn("response.json: ", answer.stderr)
                self.assertIn(said, answer.stderr)
        (self.folder / "response.json").write_text("[" * 1_000_000 + "]" * 1_000_000)
        self.assay("import", "response.json", "--vocabulary", SIZE, "-o", "x.jsonl", code=2)
        (self.folder / "response.json").write_text(json.dumps(self.sglang()))
        for arguments in (("import", "response.json", "-o", "x.jsonl"), ("compare", self.reference, "response.json")):
            self.assertIn("--vocabulary N", self.assay(*arguments, code=2).stderr)
        self.assay("import", "response.json", "--vocabulary", 5, "-o", "x.jsonl", code=2)
        for flag, value, said in (("--skip", "logits", "'logits' matches no tensor"), ("--layers", "1", "leave out --layers")):
            answer = self.assay("import", "response.json", "--vocabulary", SIZE, flag, value, "-o", "x.jsonl", code=2)
            self.assertIn(said, answer.stderr)
        answer = self.assay("import", self.reference, "--vocabulary", SIZE, "-o", "x.jsonl", code=2)
        self.assertIn("is no response of a server", answer.stderr)


if __name__ == "__main__":
    DumpCase.program = sys.argv.pop(1)
    unittest.main()
