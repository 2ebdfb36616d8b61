"""What happens to marks that were taken, and to what is checked later. The order of everything else: the scenarios."""

from __future__ import annotations

from bot_companion._limits import Limits
from bot_companion._marks import ASK, FIELDS, WHOLE, GuildMark, Marks, MemberMark

GUILD, OTHER, USER = 1, 2, 20


def described(mark: GuildMark | MemberMark | None) -> tuple[object, ...]:
    assert mark is not None
    if isinstance(mark, GuildMark):
        return (mark.guild, mark.what, mark.gone)
    return (mark.guild, mark.user, mark.roles, mark.left)


def taken(marks: Marks) -> list[GuildMark | MemberMark]:
    found: list[GuildMark | MemberMark] = []
    while (mark := marks.take()) is not None:
        found.append(mark)
    return found


def put_back(before: Marks, newer: Marks | None = None, hears: bool = True) -> Marks:
    marks = newer or Marks(Limits())
    marks.put_back(taken(before), lambda guild: hears)
    return marks


def guild(what: int = 0, gone: bool = False) -> Marks:
    marks = Marks(Limits())
    if gone:
        marks.guild_gone(GUILD)
    if what:
        marks.guild(GUILD, what)
    return marks


def member(*roles: tuple[int, ...] | None) -> Marks:
    marks = Marks(Limits())
    for each in roles:
        marks.member(GUILD, USER, each)
    return marks


def test_what_was_taken_goes_before_everything_else() -> None:
    before, newer = Marks(Limits()), Marks(Limits())
    before.guild(GUILD, FIELDS)
    before.member(GUILD, USER, (50,))
    newer.guild(OTHER, WHOLE)
    back = put_back(before, newer)
    assert len(back) == 3
    assert [described(mark) for mark in taken(back)] == [(GUILD, FIELDS, False), (GUILD, USER, (50,), False), (OTHER, WHOLE, False)]


def test_a_newer_mark_counts_and_knows_what_the_older_one_said() -> None:
    assert [described(mark) for mark in taken(put_back(member((50,)), member((60,))))] == [(GUILD, USER, (60,), False)]
    # They had left in between, which a snapshot without staff does not say.
    assert [described(mark) for mark in taken(put_back(member(None), member((60,))))] == [(GUILD, USER, (60,), True)]
    assert [described(mark) for mark in taken(put_back(member((50,)), member(None, (60,))))] == [(GUILD, USER, (60,), True)]
    assert [described(mark) for mark in taken(put_back(guild(FIELDS), guild(ASK)))] == [(GUILD, FIELDS | ASK, False)]
    assert [described(mark) for mark in taken(put_back(guild(FIELDS, gone=True), guild(WHOLE)))] == [(GUILD, FIELDS | WHOLE, True)]
    # What was known of the guild before it was gone is of no use.
    assert [described(mark) for mark in taken(put_back(guild(FIELDS), guild(gone=True)))] == [(GUILD, 0, True)]
    assert [described(mark) for mark in taken(put_back(guild(FIELDS), guild(WHOLE, gone=True)))] == [(GUILD, WHOLE, True)]


def test_of_a_shard_that_is_sent_whole_only_departures_are_kept() -> None:
    before = guild(WHOLE)
    before.member(GUILD, 21, (50,))
    before.member(GUILD, USER, None)
    before.member(OTHER, USER, None)
    back = put_back(before, hears=False)
    assert len(back) == 0 and back.waiting == 2
    back.begin(lambda guild: guild == GUILD)
    assert [described(mark) for mark in taken(back)] == [(GUILD, USER, None, True)]


def test_who_left_and_came_back_before_the_snapshot_is_still_sent() -> None:
    marks = Marks(Limits())
    marks.hold_member(GUILD, 21, (50,))
    assert marks.waiting == 0, "the snapshot has their roles"
    marks.hold_member(GUILD, USER, None)
    marks.hold_member(GUILD, USER, (50,))
    marks.begin(lambda guild: True)
    assert [described(mark) for mark in taken(marks)] == [(GUILD, USER, (50,), True)]


def test_a_guild_that_is_gone_leaves_nothing_to_check_or_to_send() -> None:
    marks = Marks(Limits())
    for each in (GUILD, OTHER):
        marks.guild(each, FIELDS)
        marks.hold_member(each, USER, None)
        marks.ask_later(each, 10.0)
    marks.forget(GUILD)
    marks.ripen(20.0)
    assert [described(mark) for mark in taken(marks)] == [(OTHER, FIELDS | ASK, False)]
    assert not marks.has_member(GUILD, USER) and marks.has_member(OTHER, USER)


def test_what_is_due_is_asked_once_when_the_first_of_it_is() -> None:
    marks = Marks(Limits())
    interval = marks._limits.member_count_interval
    marks.line_sent(GUILD, 100.0)
    assert marks.count_changed(GUILD, 101.0)
    assert not marks.count_changed(GUILD, 102.0), "it is due anyway"
    assert marks.next_due() == 100.0 + interval
    marks.ask_later(GUILD, 110.0)
    assert marks.next_due() == 110.0
    marks.ripen(109.0)
    assert len(marks) == 0
    marks.ripen(110.0)
    assert [described(mark) for mark in taken(marks)] == [(GUILD, FIELDS | ASK, False)]
    # Without a line before it, it is sent as soon as a few have gathered.
    assert marks.count_changed(OTHER, 200.0)
    assert marks.next_due() == 200.0 + marks._limits.gather_time
    # A line says it already; asking goes on.
    marks.ask_later(OTHER, 300.0)
    marks.line_sent(OTHER, 200.5)
    marks.ripen(300.0)
    assert [described(mark) for mark in taken(marks)] == [(OTHER, ASK, False)]
