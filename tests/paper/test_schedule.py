"""When the kernel moves during a fit."""

import pytest

from psimil.paper.ascent import Schedule


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(3, 2, 5), Schedule(1, 1, 1)], ids=repr)
def test_the_kernel_moves_as_often_as_planned_and_last_when_said(schedule):
    due = [step for step in range(1, 100) if schedule.due(step)]
    assert due == [schedule.warmup + i * schedule.every for i in range(schedule.times)]
    assert schedule.last == due[-1]
