"""What the judge of captures allows where hosts are processes, which a machine may leave without a
processor."""

from test_capture import MS, Wire, acks, writes


def test_a_host_that_may_stand_still_answers_late_and_still_answers():
    """Late is judged where time is simulated; an answer that never comes, everywhere."""
    late, never = Wire(), Wire()
    for wire in (late, never):
        writes(wire, (5,))
        writes(wire, (6,), after=2 * MS)
    acks(late, (6, 2))
    assert late.clauses() == ["ack.due"]
    assert late.judge(may_stand_still=True) == []
    assert never.clauses(may_stand_still=True, may_fail=True) == ["ack.due"]

    nak = Wire()
    writes(nak, (5,))
    nak.put("a", "WRITE_ONLY", 6, lost=True)
    writes(nak, (7,))
    nak.put("b", "ACK", 6, msn=1, syndrome=0x60, after=2 * MS)
    writes(nak, (6, 7))
    acks(nak, (7, 3))
    assert "nak.due" in nak.clauses()
    assert nak.judge(may_stand_still=True) == []
