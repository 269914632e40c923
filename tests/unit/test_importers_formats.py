"""Each foreign format, from a real-shaped sample of it."""

from __future__ import annotations

import json
import math
import types
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import InputError, NoDecisionsError, NotFoundError, UsageError
from evalkit.importers import FORMATS, ImportOptions, InputFile, find_format, inspect_log
from tests.unit.importing import SAMPLES, Importing, write_lines

SERVERS = SAMPLES / "openai-responses"
MILL = (0.9241418199787564, 0.07585818002124355)  # exp(-0.1), exp(-2.6), renormalised


@pytest.fixture
def importing(tmp_path: Path) -> Importing:
    return Importing(tmp_path)


@pytest.mark.parametrize(
    ("sample", "format"),
    [
        ("semif/scorer.jsonl", "semif"),
        ("semif/fixtures.jsonl", "semif"),
        ("openai-responses/vllm.jsonl", "openai-responses"),
        ("openai-batch/output.jsonl", "openai-batch"),
        ("openai-batch/errors.jsonl", "openai-batch"),
        ("lm-eval/samples_mill_2029-01-01T00-00-00.jsonl", "lm-eval"),
        ("inspect/mill.json", "inspect"),
        ("inspect/mill.eval", "inspect"),
        ("promptfoo/results.json", "promptfoo"),
        ("promptfoo/results.jsonl", "promptfoo"),
        ("promptfoo/two-providers.json", "promptfoo"),
        ("tables/decisions.csv", "csv"),
        ("tables/labels.csv", "csv"),
    ],
)
def test_format_is_recognised_by_content(sample: str, format: str) -> None:
    file = InputFile(SAMPLES / sample, sample)
    assert find_format(None, file, ImportOptions()).name == format


def test_every_format_has_a_sample() -> None:
    folders = {path.name for path in SAMPLES.iterdir()}
    assert set(FORMATS) - {"csv", "parquet"} <= folders


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ('{"what": 1, "ever": 2}\n', "keys: what, ever"),
        ("once upon a time\n", "once upon a time"),
        ("\n\n  \n\u00ff\u00fe\n", "\u00ff\u00fe"),
    ],
)
def test_unknown_shape_is_named_with_its_first_line(tmp_path: Path, content: str, shown: str) -> None:
    path = tmp_path / "what.txt"
    path.write_text(content, "utf-8")
    with pytest.raises(InputError, match="in no known format") as error:
        find_format(None, InputFile(path, "what.txt"), ImportOptions())
    assert shown in str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b'{"id": "q1", "resp', "unfinished record"),
        (b"[1]", "JSON array"),
    ],
)
def test_damaged_start_is_no_unknown_format(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "start.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        find_format(None, InputFile(path, "start.jsonl"), ImportOptions())


def test_missing_file_and_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        find_format(None, InputFile(tmp_path / "none", "none"), ImportOptions())
    with pytest.raises(UsageError, match="there is semif, openai-responses"):
        find_format("yaml", InputFile(tmp_path / "none", "none"), ImportOptions())


# --- servers ------------------------------------------------------------------------------------


def test_vllm_as_recorded(importing: Importing) -> None:
    rows = importing.by_id(SERVERS / "vllm.jsonl", options=("A", "B"))
    # The same prompt with the two letters asked for by number, and through the sampler's own mask.
    assert rows["logprob_token_ids"]["probabilities"] == pytest.approx(MILL)
    assert rows["structured_choice"]["probabilities"] == pytest.approx(MILL)
    low, high = rows["normal"]["probability_range"]["A"]
    assert low <= MILL[0] <= high
    assert rows["normal"]["censored"] == ["B"]
    assert rows["processed_topk3"]["status"] == "missing_option"
    assert rows["top_logprobs_0"]["status"] == "missing_option"
    assert "listed tokens (' D'" in rows["completions_echo"]["error"]
    assert "max allowed: 20" in rows["top_logprobs_21"]["error"]
    assert "does not exist" in rows["wrong_model"]["error"]
    assert rows["bad_key"]["error"] == "Unauthorized"
    assert "ConnectionRefusedError" in rows["kill_SIGKILL_refused"]["error"]
    assert rows["normal"]["system_fingerprint"] == "vllm-0.32.0-606867a0"
    assert rows["normal"]["input_tokens"] == 114
    assert rows["normal"]["total_seconds"] == 5.4974


def test_vllm_placeholders_with_a_map(importing: Importing) -> None:
    rows = importing.by_id(SERVERS / "vllm.jsonl", options=("A", "B"), token_ids={49: "A", 50: "B"})
    assert rows["token_ids"]["choice"] == "A"


def test_two_answers_of_one_response_are_repeats(importing: Importing) -> None:
    sample = SERVERS / "vllm-n2.jsonl"
    with pytest.raises(InputError, match="epoch 1 at line 1, epoch 2 at line 1"):
        importing.runs(sample, options=("A", "B"))
    importing.runs(sample, options=("A", "B"), repeats=True)
    assert [run.path.name for run in importing.written] == ["run.1.jsonl", "run.2.jsonl"]


def test_llamacpp_as_recorded(importing: Importing) -> None:
    rows = importing.by_id(SERVERS / "llamacpp.jsonl", options=("A", "B"))
    assert rows["normal"]["probabilities"] == pytest.approx((0.6695, 0.3305), abs=1e-4)
    assert rows["max_tokens_4"]["probabilities"] == pytest.approx(rows["logprobs_only"]["probabilities"])
    assert rows["post_sampling_probs"]["after_sampling"] is True
    assert rows["force_leadbyte_1tok"]["status"] == "error"
    assert "exceeds the available context size" in rows["too_long"]["error"]
    assert rows["max_tokens_4"]["cached_tokens"] == 111
    assert "asked for the model 'x', answered by 'model.gguf'" in importing.notices


MEASURED = (
    "llamacpp-native", "ollama-chat", "ollama-generate", "sglang-chat", "sglang-native", "tgi-chat",
    "tgi-native", "lmstudio-responses",
)  # fmt: skip


def test_other_servers_say_the_same_in_their_shapes(importing: Importing) -> None:
    rows = importing.by_id(SERVERS / "other-servers.jsonl", options=("A", "B"))
    for name in MEASURED:
        assert rows[name]["probabilities"] == pytest.approx(MILL), name
        assert rows[name]["allowed_token_mass"] == pytest.approx(0.9791, abs=1e-4)
    assert rows["llamacpp-native-old"]["probabilities"] == pytest.approx((0.8421, 0.1579), abs=1e-4)
    assert rows["llamacpp-native-sampled"]["probabilities"] == [0.92, 0.08]
    for name in ("ollama-without", "lmstudio-chat"):
        assert "no probabilities recorded" in rows[name]["error"]
    assert "placeholders" in rows["sglang-native-numbers"]["error"]
    assert rows["unknown"]["error"] == "unknown response shape (keys: outcome, confidence)"
    assert "a stream of events" in rows["stream"]["error"]
    assert rows["llamacpp-native"]["cached_tokens"] == 60
    assert rows["ollama-chat"]["input_tokens"] == 58


def test_token_numbers_of_sglang_can_be_named(importing: Importing) -> None:
    rows = importing.by_id(SERVERS / "other-servers.jsonl", options=("A", "B"), token_ids={32: "A", 33: "B"})
    assert rows["sglang-native-numbers"]["probabilities"] == pytest.approx(MILL)


def test_answers_without_probabilities_are_choices_only_where_asked_for(importing: Importing) -> None:
    rows = importing.by_id(SERVERS / "other-servers.jsonl", options=("A", "B"), text_choices=True)
    for name in ("ollama-without", "lmstudio-chat"):
        assert rows[name]["choice"] == "A"
        assert "probabilities" not in rows[name]
    assert importing.meta["protocol"] == "letters/1 and text/1"


def response(**body: Any) -> dict[str, Any]:
    return {"id": "q1", "request": {}, "response": body}


CHAT = {
    "token": "A",
    "logprob": -0.1,
    "top_logprobs": [{"token": "A", "logprob": -0.1}, {"token": "B", "logprob": -2.6}],
}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (response(choices=[]), "no choices"),
        (response(choices=[{"logprobs": {"content": "x"}}]), "unknown shape of logprobs (content)"),
        (response(choices=[{"logprobs": {"tokens": 5}}]), "unknown shape of logprobs (tokens)"),
        (response(choices=[{"logprobs": 7}]), "unknown shape of logprobs (int)"),
        (response(choices=[{"logprobs": {}}]), "no probabilities recorded"),
        (response(choices=[{"text": 5, "logprobs": {"content": None}}]), "no probabilities recorded"),
        (response(error="full"), "full"),
        (response(error={"type": "Overloaded"}), "Overloaded"),
        (response(error={"odd": [1]}), "odd"),
        (response(error=["x"]), "x"),
        (response(detail="Not Found"), "Not Found"),
        (response(), "unknown response shape (keys: none)"),
        (response(output=[]), "no probabilities recorded"),
        (
            response(output=[{"content": [{"type": "output_text", "logprobs": 3}]}]),
            "unknown shape of logprobs",
        ),
        (response(done=True, response="A", logprobs=[1]), "unknown shape of logprobs"),
        (response(generated_text="A"), "no probabilities recorded"),
        (response(meta_info={"output_token_logprobs": 3}), "no probabilities recorded"),
        (response(completion_probabilities=None, content=3), "no probabilities recorded"),
        ({"id": "q1", "request": {}, "response": 5}, "unknown response shape: int"),
        ({"id": "q1", "request": {}, "response": None}, "no response was recorded"),
        ({"id": "q1", "request": {}, "error": "timed out"}, "timed out"),
    ],
)
def test_bodies_that_hold_no_decision_say_why(
    importing: Importing, tmp_path: Path, record: dict[str, Any], words: str
) -> None:
    (row,) = importing.runs(write_lines(tmp_path / "raw.jsonl", [record]), options=("A", "B"))
    assert row["status"] == "error"
    assert words in row["error"]


@pytest.mark.parametrize(
    "entry",
    [
        {"token": "A", "logprob": -0.1, "top_logprobs": {"A": -0.1, "B": -2.6}},
        {**CHAT, "id": True},
        {"token": None, "logprob": -0.1, "top_logprobs": CHAT["top_logprobs"]},
    ],
)
def test_variants_of_entries_are_understood(
    importing: Importing, tmp_path: Path, entry: dict[str, Any]
) -> None:
    body = response(choices=[{"logprobs": {"content": [entry]}}])
    (row,) = importing.runs(write_lines(tmp_path / "raw.jsonl", [body]), options=("A", "B"))
    assert row["choice" if "choice" in row else "option_ids"] is not None
    assert row.get("status") is None or row["status"] == "invalid"


def test_entries_that_are_no_objects_make_the_row_invalid(importing: Importing, tmp_path: Path) -> None:
    body = response(choices=[{"logprobs": {"content": [{**CHAT, "top_logprobs": ["A", 3]}]}}])
    (row,) = importing.runs(write_lines(tmp_path / "raw.jsonl", [body]), options=("A", "B"))
    assert row["status"] == "invalid"


def test_captured_http_messages_are_unwrapped(importing: Importing, tmp_path: Path) -> None:
    record = {
        "id": "q1",
        "request": {
            "method": "POST",
            "path": "/v1/chat/completions",
            "body": {"temperature": 0.5, "model": "mill"},
        },
        "response": {"status": 200, "headers": {}, "body": {"choices": [{"logprobs": {"content": [CHAT]}}]}},
    }
    (row,) = importing.runs(write_lines(tmp_path / "raw.jsonl", [record]), options=("A", "B"))
    assert row["probabilities"] == pytest.approx(MILL)
    assert importing.meta["recorded"]["options"] == {"temperature": 0.5}
    assert importing.meta["model"] == {"name": "mill"}


def prompt(content: Any) -> dict[str, Any]:
    body = {"choices": [{"logprobs": {"content": [CHAT]}}]}
    return {"id": "q1", "request": {"messages": [{"role": "user", "content": content}]}, "response": body}


def test_options_are_taken_from_a_prompt_that_lists_letters(importing: Importing, tmp_path: Path) -> None:
    listed = [{"letter": letter, "description": "..."} for letter in "AB"]
    record = prompt(json.dumps({"evidence": "", "criterion": "", "options": listed}))
    (row,) = importing.runs(write_lines(tmp_path / "raw.jsonl", [record]))
    assert row["option_ids"] == ["A", "B"]


@pytest.mark.parametrize(
    "content",
    ["yes or no?", None, "[" * 5000, json.dumps({"options": [{"letter": "B"}]}), json.dumps({"options": 3})],
)
def test_options_have_to_be_declared_otherwise(importing: Importing, tmp_path: Path, content: Any) -> None:
    with pytest.raises(
        UsageError, match=r"raw.jsonl:1: the file does not say which options 'q1' has.*--options"
    ):
        importing.runs(write_lines(tmp_path / "raw.jsonl", [prompt(content)]))


# --- batches ------------------------------------------------------------------------------------


def test_batch_files_are_joined_by_custom_id(importing: Importing) -> None:
    batch = SAMPLES / "openai-batch"
    rows = importing.by_id(batch / "output.jsonl", batch / "errors.jsonl", options=("A", "B"))
    assert rows["mill-1"]["probabilities"][0] > rows["mill-3"]["probabilities"][0]
    assert rows["mill-2"]["error"] == "429: Rate limit reached for mill-1"
    assert "expired" in rows["mill-4"]["error"]
    assert [file["name"] for file in importing.meta["source"]["files"]] == ["output.jsonl", "errors.jsonl"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"custom_id": "a", "response": None, "error": None}, "no answer: error without a message"),
        ({"custom_id": "a", "response": {"status_code": 500, "body": None}}, "500: error without a message"),
        ({"custom_id": "a", "error": {}}, "{}"),
    ],
)
def test_failed_batch_lines(importing: Importing, tmp_path: Path, line: dict[str, Any], reason: str) -> None:
    (row,) = importing.runs(write_lines(tmp_path / "batch.jsonl", [line]), options=("A", "B"))
    assert (row["status"], row["error"]) == ("error", reason)


def test_batch_input_is_no_answer(importing: Importing, tmp_path: Path) -> None:
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {}}
    with pytest.raises(InputError, match="a request of the batch"):
        importing.runs(write_lines(tmp_path / "batch.jsonl", [line]), options=("A", "B"))


# --- lm-evaluation-harness ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample", ["samples_mill_2029-01-01T00-00-00", "samples_mill_2030-01-01T00-00-00.000000"]
)
def test_lm_eval_in_both_shapes_of_arguments(importing: Importing, sample: str) -> None:
    rows = importing.by_id(SAMPLES / "lm-eval" / f"{sample}.jsonl")
    assert rows["1"]["option_ids"] == ["A", "B", "C"]
    assert rows["1"]["probabilities"] == pytest.approx((0.2122, 0.7405, 0.0473), abs=1e-4)
    assert importing.meta["protocol"] == "loglikelihood/1"
    assert importing.meta["readout"]["basis"].startswith("exp of the log-likelihoods")
    assert "the probabilities are exp of the log-likelihoods" in importing.notices


def test_lm_eval_without_context_is_left_out(importing: Importing) -> None:
    rows = importing.by_id(SAMPLES / "lm-eval" / "samples_mutual_2029-01-01T00-00-00.jsonl")
    assert rows["0"]["probabilities"] == pytest.approx((0.0370, 0.9547, 0.0083), abs=1e-4)


def test_lm_eval_generated_answers_are_choices_of_one_filter(importing: Importing) -> None:
    sample = SAMPLES / "lm-eval" / "samples_mill_generate_2030-01-01T00-00-00.jsonl"
    with pytest.raises(UsageError, match=r"\(strict-match, flexible-extract\): choose one with --filter"):
        importing.runs(sample)
    with pytest.raises(UsageError, match="--filter none: the file has strict-match, flexible-extract"):
        importing.runs(sample, series={"--filter": "none"})
    with pytest.raises(UsageError, match="--provider means nothing"):
        importing.runs(sample, series={"--provider": "x"})
    rows = importing.by_id(sample, series={"--filter": "flexible-extract"})
    assert [row["choice"] for row in rows.values()] == ["B", "B"]
    assert importing.meta["source"]["filter"] == "flexible-extract"
    rows = importing.by_id(sample, series={"--filter": "strict-match"})
    assert "'[invalid]' names none" in rows["1"]["error"]


def lm_sample(**changes: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "doc_id": 0,
        "doc": {"id": "mill-0", "query": "Where?", "endings": ["here", "there"]},
        "target": 1,
        "arguments": [["Where?", " here"], ["Where?", " there"]],
        "filtered_resps": [[-1.0, False], [-2.0, True]],
    }
    return usual | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"filtered_resps": None}, "no responses were saved"),
        ({"filtered_resps": [[-1.0, False]]}, "1 log-likelihoods for 2 continuations"),
        ({"arguments": None, "filtered_resps": [[-1.0, False]]}, "not multiple choice"),
        ({"filtered_resps": [["x", False], [-2.0, True]]}, "no number"),
    ],
)
def test_lm_eval_samples_that_are_no_decision(
    importing: Importing, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (row,) = importing.runs(
        write_lines(tmp_path / "s.jsonl", [lm_sample(**changes)]), options=("here", "there")
    )
    assert words in row["error"]


def test_lm_eval_ids_and_options(importing: Importing, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "s.jsonl", [lm_sample()])
    assert importing.runs(path, id_field="doc.id")[0]["id"] == "mill-0"
    assert importing.runs(path, options=("here", "there"))[0]["option_ids"] == ["here", "there"]
    with pytest.raises(UsageError, match=r"--id-field doc\.no"):
        importing.runs(path, id_field="doc.no")
    (row,) = importing.runs(path, options=("here", "there", "nowhere"))
    assert row["error"] == "2 log-likelihoods for 3 options"
    many = lm_sample(
        arguments={f"gen_args_{n}": {"arg_0": "?", "arg_1": f" {n}"} for n in range(30)} | {"odd": {}},
        filtered_resps=[[-9.0 - n, False] for n in range(31)],
    )
    (row,) = importing.runs(write_lines(tmp_path / "s.jsonl", [many]))
    assert row["option_ids"][:3] == ["0", "1", "2"]


def test_lm_eval_labels(importing: Importing, tmp_path: Path) -> None:
    sample = SAMPLES / "lm-eval" / "samples_mill_2030-01-01T00-00-00.000000.jsonl"
    with pytest.raises(InputError, match="declare the index base"):
        importing.labels(sample)
    items, _ = importing.labels(sample, index_base=0)
    assert [item["label"] for item in items] == ["B", "B", "A"]
    assert items[0]["options"][1] == {"id": "B", "description": "an open tub"}
    assert items[0]["evidence"] == "Which of these keeps flour dry?"
    bare = write_lines(tmp_path / "s.jsonl", [lm_sample(doc=3, target=" there")])
    items, notices = importing.labels(bare)
    assert items[0]["label"] == "B"
    assert "the option's text (' there' is B)" in notices
    assert "evidence" not in items[0]


# --- Inspect ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", ["mill.json", "mill.eval"])
def test_inspect_log_in_both_containers(importing: Importing, sample: str) -> None:
    log = SAMPLES / "inspect" / sample
    with pytest.raises(InputError, match="1: 2 different decisions"):
        importing.runs(log)
    rows = importing.by_id(log, epoch=1)
    # exp(-0.2), exp(-1.8); exp(-1.5), exp(-0.3): at the token after "ANSWER:", not at the first one.
    assert rows["1"]["probabilities"] == pytest.approx((0.8320, 0.1680), abs=1e-4)
    assert rows["01"]["probabilities"] == pytest.approx((0.2315, 0.7685), abs=1e-4)
    assert importing.meta["protocol"] == "letters/1 after ANSWER:"
    assert importing.meta["source"]["epoch"] == 1
    assert importing.meta["recorded"]["options"] == {"logprobs": True, "top_logprobs": 5}
    assert importing.by_id(log, epoch=2)["01"]["censored"] == ["B"]
    with pytest.raises(UsageError, match="--epoch 3: the file has the epochs 1, 2"):
        importing.runs(log, epoch=3)


def test_inspect_epochs_become_repeats(importing: Importing) -> None:
    importing.runs(SAMPLES / "inspect" / "mill.eval", repeats=True)
    assert [run.path.name for run in importing.written] == ["run.1.jsonl", "run.2.jsonl"]
    assert [run.usable for run in importing.written] == [2, 2]


def test_inspect_labels(importing: Importing) -> None:
    items, notices = importing.labels(SAMPLES / "inspect" / "mill.eval")
    assert [(item["id"], item["label"]) for item in items] == [("1", "A"), ("01", "B")]
    assert items[0]["options"] == [{"id": "A", "description": "yes"}, {"id": "B", "description": "no"}]
    assert items[0]["evidence"] == "Has the river been bridged?"
    assert "identical; one is kept" in notices


def log_file(tmp_path: Path, *samples: Any, **header: Any) -> Path:
    path = tmp_path / "log.json"
    log = {"version": 2, "status": "success", "eval": {"model": "mill"}, "samples": list(samples), **header}
    path.write_text(json.dumps(log))
    return path


def inspect_sample(**changes: Any) -> dict[str, Any]:
    output = {"choices": [{"message": {"content": "A"}, "logprobs": {"content": [CHAT]}}], "time": 0.5}
    usual = {"id": 1, "epoch": 1, "input": "?", "choices": ["yes", "no"], "target": ["A"], "output": output}
    return usual | changes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"error": {"message": "sandbox died"}}, "sandbox died"),
        ({"output": {"error": "refused", "choices": []}}, "refused"),
        ({"output": {"choices": []}}, "the sample has no output"),
        ({"output": {"choices": [{"logprobs": 3}]}}, "unknown shape of logprobs"),
    ],
)
def test_inspect_samples_that_failed(
    importing: Importing, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    (row,) = importing.runs(log_file(tmp_path, inspect_sample(**changes)))
    assert (row["status"], words in row["error"]) == ("error", True)


def test_inspect_answers_without_probabilities(importing: Importing, tmp_path: Path) -> None:
    bare = {"choices": [{"message": {"content": "It is so.\nANSWER: B"}}]}
    scored = inspect_sample(output=bare, scores={"choice": {"value": math.nan, "answer": "B"}})
    (row,) = importing.runs(log_file(tmp_path, scored), text_choices=True)
    assert row["choice"] == "B"
    (row,) = importing.runs(log_file(tmp_path, inspect_sample(output=bare)), text_choices=True)
    assert row["status"] == "invalid"
    assert (importing.written[0].usable, importing.written[0].invalid) == (0, 1)


def test_inspect_log_that_was_broken_off_says_so(importing: Importing, tmp_path: Path) -> None:
    importing.runs(log_file(tmp_path, inspect_sample(epoch=None), status="cancelled"))
    assert "status is cancelled" in importing.notices


def test_inspect_shuffled_choices_are_refused(importing: Importing, tmp_path: Path) -> None:
    plan = {"steps": [{"solver": "multiple_choice", "params": {"shuffle": True}}]}
    with pytest.raises(InputError, match="its own letters"):
        importing.runs(log_file(tmp_path, inspect_sample(), plan=plan))


@pytest.mark.parametrize("samples", [None, [], [3]])
def test_inspect_log_without_samples(importing: Importing, tmp_path: Path, samples: Any) -> None:
    with pytest.raises(InputError, match=r"holds no (samples|decision)"):
        importing.runs(log_file(tmp_path, samples=samples))


@pytest.mark.parametrize(
    ("changes", "evidence"),
    [
        ({"input": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]}, "u"),
        ({"input": "attachment://abc", "attachments": {"abc": "long"}}, "long"),
        ({"input": []}, None),
        ({"choices": None}, "?"),
    ],
)
def test_inspect_evidence(
    importing: Importing, tmp_path: Path, changes: dict[str, Any], evidence: str | None
) -> None:
    log = log_file(tmp_path, inspect_sample(**changes))
    items, _ = importing.labels(log, options=("A", "B"))
    assert items[0].get("evidence") == evidence


# --- promptfoo ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", ["results.json", "results.jsonl"])
def test_promptfoo_results(importing: Importing, sample: str) -> None:
    rows = importing.by_id(SAMPLES / "promptfoo" / sample, options=("A", "B", "C"))
    assert rows["mill-0"]["choice"] == "B"
    # An assertion turned the answer down: that is a wrong answer, not an error.
    assert rows["mill-1"]["choice"] == "A"
    assert (rows["mill-2"]["status"], rows["mill-2"]["error"]) == ("error", "API call error: 503")
    assert importing.meta["model"]["name"] == "openai:chat:mill-1"
    assert rows["mill-0"]["total_seconds"] == 0.12


def test_promptfoo_with_two_providers_needs_a_choice(importing: Importing) -> None:
    sample = SAMPLES / "promptfoo" / "two-providers.json"
    with pytest.raises(UsageError, match="choose one with --provider"):
        importing.runs(sample, options=("A", "B", "C"))
    rows = importing.by_id(sample, options=("A", "B", "C"), series={"--provider": "ollama:chat:mill-2"})
    assert [row["choice"] for row in rows.values()] == ["B", "B", "A"]
    rows = importing.by_id(
        sample, options=("A", "B", "C"), series={"--provider": "ollama:chat:mill-2", "--prompt": "1"}
    )
    assert len(rows) == 3


def test_promptfoo_labels(importing: Importing, tmp_path: Path) -> None:
    sample = SAMPLES / "promptfoo" / "results.json"
    items, _ = importing.labels(sample, options=("A", "B", "C"))
    assert [item["label"] for item in items] == ["B", "B", "A"]
    assert items[2]["criterion"] == "Which month has the lowest water?"
    bare = [{"testIdx": 3, "promptIdx": 0, "vars": {"expected": "A", "text": "t"}, "provider": "x"}]
    items, _ = importing.labels(write_lines(tmp_path / "r.jsonl", bare), options=("A", "B"))
    assert items == [{"id": "3", "options": [{"id": "A"}, {"id": "B"}], "label": "A", "evidence": "t"}]


@pytest.mark.parametrize(
    ("row", "status", "reason"),
    [
        ({"response": {"output": {"answer": "A"}}}, "invalid", "the output is no text (dict)"),
        ({"error": "boom"}, "error", "boom"),
        ({"failureReason": 2}, "error", "error without a message"),
        ({"response": {"output": "D"}}, "invalid", "the answer 'D' names none of the options A, B"),
    ],
)
def test_promptfoo_rows_that_are_no_decision(
    importing: Importing, tmp_path: Path, row: dict[str, Any], status: str, reason: str
) -> None:
    path = write_lines(tmp_path / "r.jsonl", [{"testIdx": 0, "promptIdx": 0, "latencyMs": True, **row}])
    (found,) = importing.runs(path, options=("A", "B"))
    assert (found["status"], found["error"]) == (status, reason)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"results": {"outputs": []}}, "results holds outputs"),
        ({"results": [1]}, "keys: results"),
        ({"results": {"acc": 0.5}, "configs": {}}, "unknown nesting"),
    ],
)
def test_promptfoo_unknown_nesting(
    importing: Importing, tmp_path: Path, document: dict[str, Any], words: str
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(document, indent=1))
    with pytest.raises(InputError, match="unknown nesting") as error:
        importing.runs(path, options=("A", "B"))
    assert words in str(error.value)


# --- SemIf --------------------------------------------------------------------------------------


def test_semif_rows_stay_as_they_are_but_for_the_model(importing: Importing) -> None:
    rows = importing.runs(SAMPLES / "semif" / "scorer.jsonl")
    assert rows[0]["probabilities"] == [0.25, 0.5, 0.25]
    assert rows[0]["option_logits"] == [1.0, 1.693147, 1.0]
    assert rows[0]["model"] == "Example/Mill-4B"
    assert importing.meta["model"]["revision"] == "0" * 40
    assert "protocol" not in importing.meta


def test_semif_rows_that_are_unusable_keep_their_reason(importing: Importing, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "option_ids": ["A", "B"], "probabilities": [math.nan, 0.5], "extra": math.inf},
        {"id": "b", "option_ids": ["A", "B"], "probabilities": [95, 5]},
        {"id": "c", "status": "error", "error": "503"},
        {"id": "d", "option_ids": ["A", "B"], "probabilities": [0.5, 0.5], "more": {"x": [math.nan]}},
        {"id": "e", "option_ids": ["A", "B"], "status": "missing_option"},
        {"id": 7, "option_ids": ["A", "B"], "probabilities": {"A": 0.75, "B": 0.25}, "choice": "B"},
    ]
    found = importing.by_id(write_lines(tmp_path / "rows.jsonl", rows))
    assert "not finite" in found["a"]["error"]
    assert found["a"]["extra"] is None
    assert "percent" in found["b"]["error"]
    assert found["c"] == rows[2]
    assert found["d"]["more"] == {"x": [None]}
    assert found["e"]["status"] == "missing_option"
    assert found["7"]["probabilities"] == {"A": 0.75, "B": 0.25}
    assert "not the most probable option" in importing.notices


def test_semif_fixtures_need_a_declared_base(importing: Importing) -> None:
    fixtures = SAMPLES / "semif" / "fixtures.jsonl"
    with pytest.raises(InputError, match="declare the index base"):
        importing.labels(fixtures)
    items, notices = importing.labels(fixtures, index_base=0)
    assert [item["label"] for item in items] == ["supported", "contradicted"]
    assert items[1]["evidence"] == {
        "entries": ["The millpond was drained in spring.", "Repairs have not begun."]
    }
    assert items[0]["criterion"].startswith("Does the record")
    assert (items[0]["family"], items[0]["variant"]) == ("evidence_interpretation", "original")
    assert notices == ""


# --- all of them --------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
def test_formats_hold_decisions_or_say_so(format: str, importing: Importing) -> None:
    if FORMATS[format].items is None:
        with pytest.raises(UsageError, match="holds decisions, not labels"):
            importing.labels(SERVERS / "vllm.jsonl", format=format)
    else:
        assert FORMATS[format].records is not None


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: raw[: len(raw) // 2 - 9],
        lambda raw: raw[:-40],
        lambda raw: raw.replace(raw[900:902], b"\0\xff"),
    ],
    ids=["half", "end", "bytes"],
)
@pytest.mark.parametrize(
    "sample",
    [
        "inspect/mill.eval",
        "inspect/mill.json",
        "promptfoo/results.json",
        "openai-responses/vllm.jsonl",
        "lm-eval/samples_mill_2029-01-01T00-00-00.jsonl",
        "openai-batch/output.jsonl",
    ],
)
def test_damaged_files_are_refused(importing: Importing, tmp_path: Path, sample: str, damage: Damage) -> None:
    raw = (SAMPLES / sample).read_bytes()
    path = tmp_path / Path(sample).name
    path.write_bytes(damage(raw))
    with pytest.raises(InputError):
        importing.runs(path, format=sample.partition("/")[0], options=("A", "B"), repeats=True)


def test_no_record_at_all_is_refused(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("id,choice\n")
    with pytest.raises(NoDecisionsError, match="holds no decision"):
        importing.runs(path)


def test_archive_of_something_else_is_refused(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "no log")
    with pytest.raises(InputError, match="not of an Inspect log"):
        importing.runs(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("header.json", json.dumps({"eval": {}}))
    with pytest.raises(InputError, match="holds no samples"):
        importing.runs(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/1_epoch_1.json", json.dumps(inspect_sample()))
    assert importing.runs(path)[0]["probabilities"] == pytest.approx(MILL)


def test_archive_member_has_a_limit(
    importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_log, "MAX_MEMBER_BYTES", 100)
    with pytest.raises(InputError, match="larger than"):
        importing.runs(SAMPLES / "inspect" / "mill.eval")
    assert importing.written == []
    assert tmp_path.exists()


def test_format_of_the_documentation_works(
    importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "adding-a-format.md").read_text("utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    module = types.ModuleType("oracle")
    exec(code, module.__dict__)
    monkeypatch.setitem(FORMATS, "oracle", module.FORMAT)
    records = [
        {"case": "m1", "answer_tokens": [["A", -0.1], ["B", -2.6]], "model": "mill"},
        {"case": "m2", "answer_tokens": None},
    ]
    rows = importing.by_id(write_lines(tmp_path / "oracle.jsonl", records), options=("A", "B"))
    assert rows["m1"]["probabilities"] == pytest.approx(MILL)
    assert rows["m2"]["error"] == "no answer was recorded"


# --- values that no recording should hold ---------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10**400, "1 s", True, math.inf, None])
def test_time_that_is_no_number_is_left_out(importing: Importing, tmp_path: Path, seconds: Any) -> None:
    answer = {"choices": [{"message": {"content": "A"}}], "time": seconds}
    raw = {"id": "q1", "request": {}, "response": answer, "total_seconds": seconds}
    log = {"eval": {}, "samples": [{"id": "q1", "output": answer}]}
    result = {"vars": {"id": "q1"}, "response": {"output": "A"}, "latencyMs": seconds}
    for name, content in (
        ("openai-responses", raw), ("inspect", log), ("promptfoo", {"results": [result]}),
    ):  # fmt: skip
        path = write_lines(tmp_path / name, [content])
        (row,) = importing.runs(path, format=name, options=("A", "B"), text_choices=True)
        assert row.get("choice") == "A"
        assert "total_seconds" not in row


def test_token_without_text_may_be_any_option(importing: Importing, tmp_path: Path) -> None:
    top: list[dict[str, Any]] = [{"token": None, "logprob": -0.1}, {"token": "B", "logprob": -2.5}]
    body = {"choices": [{"logprobs": {"content": [{**top[0], "top_logprobs": top}]}}]}
    path = write_lines(tmp_path / "raw.jsonl", [{"id": "q1", "request": {}, "response": body}])
    (row,) = importing.runs(path, options=("A", "B"))
    assert row["status"] == "error"
    assert "token text not recorded" in row["error"]


def test_epoch_0_is_an_epoch_of_its_own(importing: Importing, tmp_path: Path) -> None:
    samples = [
        {"id": "q1", "epoch": epoch, "output": {"choices": [{"message": {"content": answer}}]}}
        for epoch, answer in ((0, "A"), (1, "B"))
    ]
    log = write_lines(tmp_path / "log.json", [{"eval": {}, "samples": samples}])
    importing.runs(log, options=("A", "B"), text_choices=True, repeats=True)
    assert [run.path.name for run in importing.written] == ["run.0.jsonl", "run.1.jsonl"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_archive_with_one_name_twice_holds_two_samples(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {}}))
        for answer in "AB":
            sample = {"id": "q1", "output": {"choices": [{"message": {"content": answer}}]}}
            archive.writestr("samples/q1_epoch_1.json", json.dumps(sample))
    with pytest.raises(InputError, match="q1: 2 different decisions"):
        importing.runs(path, options=("A", "B"), text_choices=True)


@pytest.mark.parametrize("name", ["inspect", "lm-eval"])
def test_no_choice_is_dropped_for_want_of_an_id(importing: Importing, tmp_path: Path, name: str) -> None:
    texts = [f"text {number}" for number in range(30)]
    contents: dict[str, Any] = {
        "inspect": {"eval": {}, "samples": [{"id": 0, "choices": texts, "target": "AB"}]},
        "lm-eval": {"doc_id": 0, "doc": {"choices": texts}, "target": None, "resps": []},
    }
    path = write_lines(tmp_path / "log", [contents[name]])
    with pytest.raises(InputError, match=r"30 choices, but 3 option ids \(A, B, C\)"):
        importing.labels(path, format=name, options=("A", "B", "C"))
    contents["inspect"]["samples"][0]["target"] = "4"
    items, _ = importing.labels(write_lines(tmp_path / "log", [contents[name]]), format=name)
    assert [option["description"] for option in items[0]["options"]] == texts
    assert name != "inspect" or (items[0]["options"][25]["id"], items[0]["label"]) == ("Z", "4")
