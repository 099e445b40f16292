from dovetail.model.identity_cache import KEPT, IdentityCache


def test_what_was_worked_out_is_found_by_the_value_itself():
    asked = []

    def length(value):
        asked.append(value)
        return len(value)

    recent, one, equal = IdentityCache(length), [1, 2], [1, 2]
    assert [recent.of(one), recent.of(one), recent.of(equal)] == [2, 2, 2]
    assert len(asked) == 2, "one that is merely equal is another"


def test_only_the_last_few_are_kept():
    asked = []
    recent = IdentityCache(asked.append)
    values = [[number] for number in range(KEPT + 1)]
    for value in values:
        recent.of(value)
    recent.of(values[-1])
    recent.of(values[0])
    assert len(asked) == KEPT + 2
