"""What is proved of the Verilog, by Yosys' SAT solver and induction, and that faults break it."""

from pathlib import Path

import pytest
from rtl_tools import needs, run

from scrapy_neardup.engines.fpga.verilog import SOURCES, modules


def proof(step: str, file: str = "no_loss.sv", folder: Path = SOURCES, **parameters: int) -> str:
    """What Yosys says of one step of a proof, of the Verilog in a folder: every induction and base
    case."""
    needs("yosys")
    values = " ".join(f"-set {name} {value}" for name, value in parameters.items())
    names = [file, *(path.name for path in modules("words"))]
    sources = " ".join(str(folder / name) for name in names)
    return run(
        "yosys", "-p",
        f"read_verilog -formal {sources}; chparam {values} {step}; prep -top {step} -flatten; "
        "memory_map; async2sync; opt -full; "
        f"sat -tempinduct -maxsteps 40 -prove-asserts -set-assumes {step}",
    )  # fmt: skip


def with_fault(folder: Path, file: str, right: str, wrong: str) -> Path:
    """A folder with the Verilog of the proofs and a fault in it."""
    for path in (SOURCES / "no_loss.sv", SOURCES / "shared.sv", *modules("words")):
        (folder / path.name).write_text(path.read_text())
    source = folder / file
    assert source.read_text().count(right) == 1
    source.write_text(source.read_text().replace(right, wrong))
    return folder


@pytest.mark.parametrize(
    ("step", "parameters"),
    [
        ("no_loss_lanes", {"N": 4}),
        pytest.param("no_loss_lanes", {}, marks=pytest.mark.long),
        ("no_loss_lanes", {"MIXER": 1, "N": 2}),
        ("no_loss_lanes", {"BYTES": 2, "N": 2}),
        ("no_loss_lanes", {"SHARED": 1, "N": 2}),
        pytest.param("no_loss_lanes", {"SHARED": 1, "MIXER": 1, "N": 2}, marks=pytest.mark.long),
        pytest.param("no_loss_lanes", {"MIXER": 2, "N": 2}, marks=pytest.mark.long),
        pytest.param("no_loss_lanes", {"MIXER": 1, "N": 3}, marks=pytest.mark.long),
        pytest.param("no_loss_lanes", {"BYTES": 2, "N": 4}, marks=pytest.mark.long),
        ("no_loss_core", {}),
        ("no_loss_core", {"BYTES": 2}),
        ("no_loss_core", {"SHARED": 1}),
        ("no_loss_output", {}),
        ("no_loss_output", {"SLOTS": 1}),
        ("no_loss_output", {"N": 4, "ROTATION": 4}),
    ],
)
def test_no_arrival_pattern_loses_doubles_or_delays_a_fingerprint(step, parameters):
    assert "Induction step proven: SUCCESS!" in proof(step, **parameters)


@pytest.mark.parametrize(
    ("step", "parameters"),
    [
        ("no_loss_lanes", {"BYTES": 2, "N": 2, "FLOOR": 5}),
        ("no_loss_output", {"N": 4, "ROTATION": 4, "GAP": 3}),
    ],
)
def test_proof_fails_where_the_floor_or_what_it_gives_is_taken_away(step, parameters):
    assert "model found for base case: FAIL!" in proof(step, **parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {"MOST": 2},
        {"SLOTS": 1},
        {"MIXER": 1},
        {"BYTES": 2},
        {"SHARED": 1},
        pytest.param({"SHARED": 1, "MIXER": 2, "MOST": 4}, marks=pytest.mark.long),
        pytest.param({"N": 8}, marks=pytest.mark.long),
        pytest.param({"N": 8, "MIXER": 1}, marks=pytest.mark.long),
        pytest.param({"N": 8, "SHARED": 1}, marks=pytest.mark.long),
        pytest.param({"N": 8, "SLOTS": 1}, marks=pytest.mark.long),
        pytest.param({"N": 4, "BYTES": 2}, marks=pytest.mark.long),
        pytest.param({"MIXER": 2}, marks=pytest.mark.long),
        pytest.param({"MIXER": 3}, marks=pytest.mark.long),
    ],
)
def test_at_most_eight_documents_of_a_lane_are_in_the_engine(parameters):
    assert "Induction step proven: SUCCESS!" in proof("no_loss_inside", **parameters)


def test_fewer_documents_of_a_lane_than_there_can_be_are_not_proved():
    assert "model found for base case: FAIL!" in proof("no_loss_inside", MOST=1)


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("lanes.v", "busy   <= ~ended;", "busy   <= 1'b1;"),
        ("simhash_core.v", "word_last  <= chars_valid & nul;", "word_last  <= 1'b0;"),
        ("own_counters.v", "closing_q <= feature_last & ~rst;",
         "closing_q <= feature_last & feature_valid;"),
        ("output_stage.v", "waiting & ~driven,", "waiting,"),
        ("output_stage.v", "out_valid <= |driven;", "out_valid <= driven[0];"),
        ("output_stage.v", "out_lane        <= lane;", "out_lane        <= 3'd0;"),
        ("output_stage.v", "ready & (~ready + 1'b1);", "ready;"),
    ],
)  # fmt: skip
def test_documents_in_an_engine_with_a_fault_are_not_proved(file, right, wrong, tmp_path):
    folder = with_fault(tmp_path, file, right, wrong)
    assert "model found for base case: FAIL!" in proof("no_loss_inside", folder=folder)


@pytest.mark.parametrize("values", [{}, {"TIE_GE": 1}, {"BYTES": 2}, {"BYTES": 2, "TIE_GE": 1}])
def test_core_computes_what_the_paper_says_for_every_input(values):
    assert "Induction step proven: SUCCESS!" in proof("values_core", "values.sv", **values)


@pytest.mark.parametrize("tie_ge", [0, 1])
def test_eight_adders_give_the_signs_of_64_counters_for_every_input(tie_ge):
    needs("yosys")
    files = f"{SOURCES / 'shared.sv'} {SOURCES / 'shared_counters.v'}"
    proved = run(
        "yosys", "-p",
        f"read_verilog -formal -mem2reg {files}; chparam -set TIE_GE {tie_ge} shared_sums; "
        "prep -top shared_sums -flatten; async2sync; opt -full; "
        "sat -tempinduct -maxsteps 2 -prove-asserts -set-assumes shared_sums",
    )  # fmt: skip
    assert "Induction step proven: SUCCESS!" in proved


@pytest.mark.parametrize(("mixer", "n"), [(0, 8), (1, 3), (2, 2), (3, 2)])
def test_lanes_give_shared_counters_no_vote_that_these_cannot_count(mixer, n):
    proved = proof("shared_votes", "shared.sv", MIXER=mixer, N=n)
    assert "Induction step proven: SUCCESS!" in proved


@pytest.mark.parametrize(
    ("file", "right", "wrong", "mixer"),
    [
        ("lanes.v", "FRAME = i + 2 + STAGES;", "FRAME = i + 3 + STAGES;", 0),
        ("lanes.v", "FRAME = i + 2 + STAGES;", "FRAME = i + 1 + STAGES;", 0),
        ("lanes.v", "busy   <= ~ended;", "busy   <= 1'b1;", 0),
        ("lanes.v", "if (rst) busy <= 1'b0;", "", 0),
        ("lanes.v", "~turn[0],", "turn[0],", 1),
        ("simhash_core.v", "in_word <= ~ends;", "in_word <= 1'b1;", 0),
        ("mixer_turns.v", "held_valid <= valid & ~goes_in;", "held_valid <= valid;", 1),
        ("mixer_turns.v", "if (rst) {held_valid, held_last} <= 0;", "", 1),
    ],
)  # fmt: skip
def test_votes_are_not_proved_of_lanes_with_a_fault(file, right, wrong, mixer, tmp_path):
    folder = with_fault(tmp_path, file, right, wrong)
    proved = proof("shared_votes", "shared.sv", folder, MIXER=mixer, N=2)
    assert "model found for base case: FAIL!" in proved


def test_sum_that_is_proved_of_two_characters_is_two_steps_of_the_hash():
    """In values.sv, h * 65599 + c twice; what is left is the square of 65599."""
    assert 2**16 + 2**6 - 1 == 65599
    assert 2**32 + 2**23 - 2**17 + 2**12 - 2**7 + 1 == 65599**2


ORDER = {
    "order_queues": ("lane_queues.v",),
    "order_ids": ("stream_in.v", "lane_queues.v"),
    "order_out": ("stream_out.v",),
}


def order_proof(step: str, folder: Path) -> str:
    """What Yosys says of one step from documents to results, of the Verilog in a folder."""
    needs("yosys")
    sources = " ".join(str(folder / name) for name in ORDER[step])
    return run(
        "yosys", "-p",
        f"read_verilog -formal -mem2reg {SOURCES / 'order.sv'} {sources}; "
        f"prep -top {step} -flatten; async2sync; opt -full; "
        f"sat -tempinduct -maxsteps 3 -prove-asserts -set-assumes {step}",
    )  # fmt: skip


@pytest.mark.parametrize("step", ORDER)
def test_results_keep_order_and_id_however_long_the_receiver_waits(step):
    assert "Induction step proven: SUCCESS!" in order_proof(step, SOURCES)


@pytest.mark.parametrize(
    ("step", "right", "wrong"),
    [
        ("order_queues", "leaves = waits & may_leave;", "leaves = waits;"),
        ("order_queues", "from  = taken[LOG*j+:LOG];", "from  = taken[LOG*j+:LOG] + 1'b1;"),
        ("order_queues", "read <= memory[{next, from}];", "read <= memory[{in_lane, from}];"),
        ("order_queues", "memory[{in_lane, to}] <=", "memory[{next, to}] <="),
        ("order_queues", "out_valid <= leaves & ~rst;", "out_valid <= waits & ~rst;"),
        ("order_ids", "free = ~open & empty;", "free = ~open;"),
        ("order_ids", "has_room = |(lane & ~full);", "has_room = |lane;"),
        ("order_ids", "ending_room = ~full[j];", "ending_room = 1'b1;"),
        ("order_ids", "take = held & ~ending & has_room;", "take = held & has_room;"),
        ("order_ids", "match[i] = open[i] & id", "match[i] = id"),
        ("order_ids", "open[i]         <= ~last;", "open[i]         <= 1'b1;"),
        ("order_ids", "n_bytes < 4'd7 ? 4'd7 : n_bytes;", "n_bytes < 4'd6 ? 4'd6 : n_bytes;"),
        ("order_ids", "== 8'd0 ? SPACE : data[8*j+:8];", "== 8'd1 ? SPACE : data[8*j+:8];"),
        ("order_ids", "word_last  = ending | (last & ~n_bytes[3]);", "word_last  = ending | last;"),
        ("order_out", "results[came[LOG-1:0]] <= {documents[{in_lane, from}]",
         "results[came[LOG-1:0]] <= {documents[{in_lane, to}]"),
        ("order_out", "place = left != 0;", "place = 1'b1;"),
        ("order_out", "left + {{LOG{1'b0}}, leaves};", "places + {{LOG{1'b0}}, leaves};"),
        ("order_out", "leaves = m_tvalid & m_tready;", "leaves = m_tvalid;"),
        ("order_out", "went + {{LOG{1'b0}}, leaves};", "went + {{LOG{1'b0}}, m_tready};"),
        ("order_out", "from = answered[3*j+:3];", "from = answered[3*j+:3] + 3'd1;"),
        ("order_out", "document = {flags[3*j+:3], id[ID*j+:ID]};",
         "document = {flags[2:0], id[ID*j+:ID]};"),
    ],
)  # fmt: skip
def test_order_is_not_proved_of_a_core_with_a_fault(step, right, wrong, tmp_path):
    sources = {name: (SOURCES / name).read_text() for name in ORDER[step]}
    assert sum(source.count(right) for source in sources.values()) == 1
    for name, source in sources.items():
        (tmp_path / name).write_text(source.replace(right, wrong))
    assert "SUCCESS" not in order_proof(step, tmp_path)
